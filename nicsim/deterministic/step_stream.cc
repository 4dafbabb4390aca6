#include "nicsim/deterministic/step_stream.h"

#include <algorithm>

#include "nicsim/deterministic/step_lanes.h"

namespace lanyard::nicsim {

namespace {

StepItem::Kind kind_of(gpu::StreamOp::Kind kind) {
  using Kind = gpu::StreamOp::Kind;
  switch (kind) {
    case Kind::kWait64:
    case Kind::kWaitCount64:
    case Kind::kWaitNext64: return StepItem::Kind::kWait;
    case Kind::kPack:
    case Kind::kUnpack: return StepItem::Kind::kMove;
    case Kind::kStartLane: return StepItem::Kind::kStartLane;
    case Kind::kWaitLane: return StepItem::Kind::kWaitLane;
    default: return StepItem::Kind::kRing;
  }
}

}  // namespace

Status StepStream::enqueue(std::span<const gpu::StreamOp> ops) {
  using Kind = gpu::StreamOp::Kind;
  for (const gpu::StreamOp& op : ops)
    if (capture_ != 0 && (op.kind == Kind::kWait64 || op.kind == Kind::kWaitCount64 || op.kind == Kind::kCall))
      return {Code::kUnsupported, "this cannot be captured"};
  for (const gpu::StreamOp& op : ops) {
    StepItem item;
    item.op = op;
    item.kind = kind_of(op.kind);
    push(item);
  }
  return {};
}

Result<uint64_t*> StepStream::take_count(uint64_t value) {
  return counts_.emplace_back(std::make_unique<uint64_t>(value)).get();
}

void StepStream::give_count(uint64_t* count) {
  std::erase_if(counts_, [count](const auto& each) { return each.get() == count; });
}

void StepStream::begin_capture() {
  graph_.clear();
  capture_ = ++captures_;
}

bool StepStream::ready() const {
  if (empty())
    return false;
  const StepItem& item = front();
  if (item.kind == StepItem::Kind::kWaitLane) {
    const StepLane& lane = lane_of(item.op);
    return lane.is_complete() || lane.is_gone();
  }
  if (item.kind != StepItem::Kind::kWait)
    return true;
  const gpu::StreamOp& op = item.op;
  switch (op.kind) {
    case gpu::StreamOp::Kind::kWaitNext64: return (*op.word & gpu::kCountBits) >= *op.count + op.value;
    case gpu::StreamOp::Kind::kWaitCount64: return (*op.word & gpu::kCountBits) >= op.value;
    default: return *op.word >= op.value;
  }
}

bool StepStream::names(const gpu::Lane* lane) const {
  return std::any_of(items_.begin() + static_cast<ptrdiff_t>(head_), items_.end(),
                     [lane](const StepItem& item) { return item.op.object == lane; });
}

bool StepStream::counts_for(uint32_t request) const {
  return std::any_of(items_.begin() + static_cast<ptrdiff_t>(head_), items_.end(), [request](const StepItem& item) {
    return item.op.count != nullptr && (item.start == request || item.request == request);
  });
}

void StepStream::pop() {
  if (const gpu::StreamOp& op = front().op; op.kind == gpu::StreamOp::Kind::kWaitNext64)
    *op.count += op.value;
  ++executed_;
  if (++head_ < items_.size())
    return;
  items_.clear();
  started.clear();
  head_ = 0;
}

}  // namespace lanyard::nicsim
