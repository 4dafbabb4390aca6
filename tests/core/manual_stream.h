// ManualStream: a stream that runs one operation at a time, when the test says so.
#ifndef LANYARD_TESTS_MANUAL_STREAM_H_
#define LANYARD_TESTS_MANUAL_STREAM_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "gpu/packing.h"
#include "gpu/stream.h"

namespace lanyard {

// Use it from one thread. The test decides when an operation runs and whether enqueue() accepts it.
class ManualStream final : public gpu::Stream {
 public:
  using Op = gpu::StreamOp;

  bool calls = true;         // false: cannot call the host, like a GPU's stream
  bool full = false;         // enqueue() refuses everything
  std::vector<Op> enqueued;  // all operations ever accepted, for tests to inspect
  uint64_t capture = 0;      // not 0: operations go to `captured` instead, for replay()
  std::vector<Op> captured;
  int counts = 0;  // taken and not yet given back
  int most_counts = 1000;

  const char* kind() const override { return "manual"; }
  bool can_call() const override { return calls; }
  Status can_pack(const gpu::Packing&) const override { return {}; }
  Status enqueue(std::span<const Op> ops) override {
    if (full)
      return {Code::kAgain, "the stream is full"};
    for (const Op& op : ops) {
      if (op.kind == Op::Kind::kCall && !calls)
        return {Code::kUnsupported, "no calls"};
      if (capture != 0) {
        captured.push_back(op);
        continue;
      }
      items_.push_back({op, {}});
      enqueued.push_back(op);
    }
    return {};
  }
  uint64_t capturing() const override { return capture; }
  Result<uint64_t*> take_count(uint64_t value) override {
    if (counts == most_counts)
      return Status(Code::kExhausted, "no count is left");
    ++counts;
    return new uint64_t(value);
  }
  void give_count(uint64_t* count) override {
    --counts;
    delete count;
  }
  // Requires that no capture is in progress.
  void replay() {
    for (const Op& op : captured)
      items_.push_back({op, {}});
  }
  // Enqueues a kernel.
  void launch(std::function<void()> kernel) { items_.push_back({{}, std::move(kernel)}); }

  // Runs the oldest operation. False if there is none or it is a wait that is not met.
  bool step() {
    if (items_.empty() || blocked())
      return false;
    const Item item = std::move(items_.front());
    items_.pop_front();
    running_ = item.kernel ? &item.kernel : nullptr;
    run(item);
    running_ = nullptr;
    return true;
  }
  bool is_empty() override { return items_.empty(); }
  Head head() override {
    if (running_ != nullptr)
      return {.waits_for = nullptr, .kernel = running_};
    if (!items_.empty() && blocked())
      return {.waits_for = items_.front().op.word};
    return {};
  }
  bool poll() override {
    while (step()) {
    }
    return items_.empty();
  }
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }

 private:
  struct Item {
    Op op;
    std::function<void()> kernel;
  };

  bool blocked() const {
    const Item& item = items_.front();
    if (item.kernel)
      return false;
    const auto seen = [&] { return std::atomic_ref<uint64_t>(*item.op.word).load(); };
    switch (item.op.kind) {
      case Op::Kind::kWait64: return seen() < item.op.value;
      case Op::Kind::kWaitNext64: return seen() < *item.op.count + item.op.value;
      default: return false;
    }
  }
  static void run(const Item& item) {
    if (item.kernel)
      return item.kernel();
    switch (item.op.kind) {
      case Op::Kind::kWrite64: std::atomic_ref<uint64_t>(*item.op.word).store(item.op.value); return;
      case Op::Kind::kWriteNext64:
        std::atomic_ref<uint64_t>(*item.op.word).store(*item.op.count += item.op.value);
        return;
      case Op::Kind::kAdd64: std::atomic_ref<uint64_t>(*item.op.word).fetch_add(item.op.value); return;
      case Op::Kind::kCall: item.op.call(item.op.object, item.op.argument, item.op.value); return;
      case Op::Kind::kWaitNext64: *item.op.count += item.op.value; return;
      case Op::Kind::kPack: static_cast<const gpu::Packing*>(item.op.object)->pack(item.op.value); return;
      case Op::Kind::kUnpack: static_cast<const gpu::Packing*>(item.op.object)->unpack(item.op.value); return;
      case Op::Kind::kWait64:
      case Op::Kind::kStartLane:
      case Op::Kind::kWaitLane: return;
    }
  }

  std::deque<Item> items_;
  const void* running_ = nullptr;  // the kernel that runs now
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_MANUAL_STREAM_H_
