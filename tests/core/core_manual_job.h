// ManualJob: simulated processes in one thread. They and their streams run only when the test steps
// them.
#ifndef LANYARD_TESTS_CORE_CORE_MANUAL_JOB_H_
#define LANYARD_TESTS_CORE_CORE_MANUAL_JOB_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpu/packing.h"
#include "gpu/stream.h"
#include "tests/contract/model_fabric.h"
#include "tests/core/core_process.h"

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

struct ManualJobOptions {
  nicsim::ModelLimits limits = {};
  bool overflow = true;
  bool stream_calls = true;  // false: streams ring doorbell words, like a GPU's streams
  core::Strategy strategy = core::Strategy::kTargetCounter;
  // Wraps a rank's NIC, if not null. What it returns must outlive the job.
  std::function<nic::Nic&(uint32_t rank, nic::Nic& nic)> wrap = nullptr;
};

class ManualJob {
 public:
  using Options = ManualJobOptions;

  // A process with a stream and a queue.
  struct Rank : Process {
    Rank(nic::Nic& nic, uint32_t rank, Mail& mail, const Options& options)
        : Process(nic, rank, mail,
                  {.overflow = options.overflow, .overflow_thread = false, .strategy = options.strategy}) {
      stream.calls = options.stream_calls;
      queue = std::move(core::Queue::create(endpoint, stream).value());
    }
    Status start(std::initializer_list<Request*> requests) { return queue->start({requests.begin(), requests.size()}); }
    Status wait(std::initializer_list<Request*> requests) { return queue->wait({requests.begin(), requests.size()}); }
    nic::Nic& nic() { return endpoint.nic(); }

    ManualStream stream;
    std::unique_ptr<core::Queue> queue;
  };

  explicit ManualJob(uint32_t ranks, const Options& options = {}) : fabric(ranks, options.limits), mail(ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank)
      ranks_.push_back(std::make_unique<Rank>(options.wrap ? options.wrap(rank, fabric.nic(rank)) : fabric.nic(rank),
                                              rank, mail, options));
  }

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  Rank& operator[](uint32_t rank) { return *ranks_[rank]; }

  // Delivers match cards until none is in flight.
  void match() {
    while (mail.under_way() > 0)
      for (auto& rank : ranks_)
        rank->matcher.progress();
  }
  // Runs the NICs and the overflow until they have nothing to do. The streams do not run.
  void settle() {
    size_t steps = 0;
    do {
      steps = fabric.quiesce();
      for (auto& rank : ranks_)
        steps += drain(*rank);
    } while (steps > 0);
  }
  // Drains the rank's overflow once. It may hold at most a few hundred operations.
  static size_t drain(Rank& rank) {
    constexpr int kCalls = 64;
    size_t count = 0;
    for (int call = 0; call < kCalls && count == 0 && !rank.endpoint.overflow().empty(); ++call)
      count = rank.endpoint.overflow().drain();
    return count;
  }
  // Runs the streams too. Operations left after that wait for something that never comes.
  void run() {
    bool moved = true;
    while (moved) {
      settle();
      moved = false;
      for (auto& rank : ranks_)
        while (rank->stream.step())
          moved = true;
    }
  }
  // Whether all started requests and enqueued operations are done.
  bool over() {
    for (auto& rank : ranks_)
      if (!rank->stream.empty() || !rank->queue->settled())
        return false;
    return fabric.under_way() == 0;
  }

  ModelFabric fabric;
  Mail mail;

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
};

// A process that sends to itself through a NIC of the test's own type, which wraps a model's.
template <typename WrappingNic>
struct Alone {
  explicit Alone(const nicsim::ModelLimits& limits) : fabric(1, limits) {}
  void match() {
    while (mail.under_way() > 0)
      process.matcher.progress();
  }
  // Runs the NIC and the stream until the stream is empty.
  void run() {
    do
      fabric.quiesce();
    while (!stream.poll());
  }

  ModelFabric fabric;
  WrappingNic nic{fabric.nic(0)};
  Mail mail{1};
  Process process{nic, 0, mail, {.overflow_thread = false}};
  ManualStream stream;
  std::unique_ptr<core::Queue> queue = std::move(core::Queue::create(process.endpoint, stream).value());
};

// A matched send and receive of two ranks.
struct Pair {
  Pair(ManualJob& job, uint32_t from, uint32_t to, uint64_t bytes, bool ready = false, int tag = 7)
      : sender(job[from]),
        receiver(job[to]),
        send(sender.send(static_cast<int>(to), tag, bytes, ready)),
        receive(receiver.receive(static_cast<int>(from), tag, bytes)) {
    job.match();
    EXPECT_TRUE(send.matched() && receive.matched());
  }
  void start_send() { EXPECT_TRUE(works(sender.start({&send}))); }
  void start_receive() { EXPECT_TRUE(works(receiver.start({&receive}))); }
  void wait_send() { EXPECT_TRUE(works(sender.wait({&send}))); }
  void wait_receive() { EXPECT_TRUE(works(receiver.wait({&receive}))); }

  ManualJob::Rank& sender;
  ManualJob::Rank& receiver;
  Request& send;
  Request& receive;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_CORE_CORE_MANUAL_JOB_H_
