// StepStream: a stream that runs one item at each step of the world, and can capture items.
#ifndef LANYARD_NICSIM_DETERMINISTIC_STEP_STREAM_H_
#define LANYARD_NICSIM_DETERMINISTIC_STEP_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/stream.h"
#include "nicsim/deterministic/scenario.h"

namespace lanyard::nicsim {

struct StepItem {
  enum class Kind : uint8_t {
    kRing,    // `op` rings a doorbell
    kMark,    // does nothing: a start that rings no doorbell, or a wait that waits for no word
    kWait,    // `op` is the wait64 of a request's wait or of a kAwait
    kKernel,  // runs `action`: kPack, kUnpack or kPromise
    kMove,    // `op` packs or unpacks a buffer with gaps, or then increments Resources::moved
  };
  static constexpr uint32_t kNothing = UINT32_MAX;

  Kind kind = Kind::kRing;
  Action::Kind action = Action::Kind::kPack;
  uint32_t message = kNothing;  // kKernel; kWait: of a kAwait
  uint32_t request = kNothing;  // kWait, kMark, kMove: RequestName::index of the request that it waits or moves for
  uint64_t iteration = 0;       // kWait, kMark: of `request`
  uint32_t start = kNothing;    // kRing, kMark: RequestName::index of the request that it starts; none: see `others`
  uint64_t number = 0;          // the core's number of that request
  // kRing, kWait: the other requests that it starts or waits for. They are members of the same
  // exchange, or share the queue's trigger.
  std::vector<uint32_t> others{};
  gpu::StreamOp op{};

  // Calls visit(RequestName::index) for each request that the item starts, or waits for.
  template <typename Visit>
  void for_each_started(Visit visit) const {
    if (start != kNothing)
      visit(start);
    if (kind == Kind::kRing)
      std::for_each(others.begin(), others.end(), visit);
  }
  template <typename Visit>
  void for_each_waited(Visit visit) const {
    if (request != kNothing && kind != Kind::kMove)
      visit(request);
    if (kind == Kind::kWait)
      std::for_each(others.begin(), others.end(), visit);
  }
};

class StepStream final : public gpu::Stream {
 public:
  const char* kind() const override { return "host"; }
  bool can_call() const override { return true; }
  Status can_pack(const gpu::Packing&) const override { return {}; }
  Status enqueue(std::span<const gpu::StreamOp> ops) override;
  // The world runs the items. A caller that waits cannot.
  bool poll() override { return empty(); }

  uint64_t capturing() const override { return capture_; }
  Result<uint64_t*> take_count(uint64_t value) override;
  void give_count(uint64_t* count) override;

  void reserve(size_t items) { items_.reserve(items); }
  void push(const StepItem& item) { (capture_ != 0 ? graph_ : items_).push_back(item); }
  // since(mark()) are the items that were enqueued, or captured, after mark(). No item may run
  // between the two calls.
  size_t mark() const { return capture_ != 0 ? graph_.size() : items_.size(); }
  std::span<StepItem> since(size_t mark) { return std::span(capture_ != 0 ? graph_ : items_).subspan(mark); }
  // Captures items from here on. Forgets earlier captures.
  void begin_capture();
  void end_capture() { capture_ = 0; }
  // Enqueues what was captured last.
  void launch() { items_.insert(items_.end(), graph_.begin(), graph_.end()); }
  size_t counts_taken() const { return counts_.size(); }
  size_t size() const { return items_.size() - head_; }
  bool empty() const { return head_ == items_.size(); }
  const StepItem& front() const { return items_[head_]; }
  // True if the first item can run: it is not a wait, or its word has reached the value.
  bool ready() const;
  void pop();
  uint64_t executed() const override { return executed_; }
  // True if an item of that request has yet to run and uses a count of take_count().
  bool counts_for(uint32_t request) const;

 private:
  std::vector<StepItem> items_;
  std::vector<StepItem> graph_;
  uint64_t capture_ = 0, captures_ = 0;
  std::vector<std::unique_ptr<uint64_t>> counts_;
  size_t head_ = 0;  // items before it have run
  uint64_t executed_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_STEP_STREAM_H_
