// StepStream: a stream that runs one item whenever the world takes that step, and captures items to run them again.
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
    kRing,    // op: what rings a doorbell
    kMark,    // nothing: the place of a start that rings nobody, or of a wait for nobody
    kWait,    // op: a wait64 that a request's wait became, or an await's
    kKernel,  // action: kPack, kUnpack or kPromise
    kMove,    // op: packs or unpacks for a request whose buffer has gaps, or says in its word that this was done
  };
  static constexpr uint32_t kNothing = UINT32_MAX;

  Kind kind = Kind::kRing;
  Action::Kind action = Action::Kind::kPack;
  uint32_t message = kNothing;  // kKernel
  uint32_t request = kNothing;  // kWait, kMark: RequestName::index of the request waited for; kMove: whose buffer
  uint64_t iteration = 0;       // kWait, kMark: of it
  uint32_t start = kNothing;  // kRing: RequestName::index of the request whose own trigger it rings; kMark: whose start
  uint64_t number = 0;        // ... and the core's for it; kMove: likewise
  // kRing, kWait: other requests that it is about, of the exchange or of the shared trigger.
  std::vector<uint32_t> others{};
  gpu::StreamOp op{};

  // visit(RequestName::index) of each request that it starts, or whose wait it is.
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
  // The world runs items; whoever waits cannot.
  bool poll() override { return empty(); }

  uint64_t capturing() const override { return capture_; }
  Result<uint64_t*> take_count(uint64_t value) override;
  void give_count(uint64_t* count) override;

  void reserve(size_t items) { items_.reserve(items); }
  void push(const StepItem& item) { (capture_ != 0 ? graph_ : items_).push_back(item); }
  // How many items have been appended, or captured where a capture is under way, and those since then. Nothing runs in
  // between.
  size_t mark() const { return capture_ != 0 ? graph_.size() : items_.size(); }
  std::span<StepItem> since(size_t mark) { return std::span(capture_ != 0 ? graph_ : items_).subspan(mark); }
  // From here on items are captured. What was captured before is forgotten.
  void begin_capture();
  void end_capture() { capture_ = 0; }
  // Appends what was captured last.
  void launch() { items_.insert(items_.end(), graph_.begin(), graph_.end()); }
  size_t counts_taken() const { return counts_.size(); }
  size_t size() const { return items_.size() - head_; }
  bool empty() const { return head_ == items_.size(); }
  const StepItem& front() const { return items_[head_]; }
  // Whether the item at the head may run: it is no wait, or its word has got there.
  bool ready() const;
  void pop();
  uint64_t executed() const override { return executed_; }
  // Whether something of that request that has not run yet reads or writes one of the counts taken here.
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
