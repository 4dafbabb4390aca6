#include "nicsim/deterministic/step_stream.h"

#include <algorithm>

namespace lanyard::nicsim {

namespace {

bool is_wait(gpu::StreamOp::Kind kind) {
  using Kind = gpu::StreamOp::Kind;
  return kind == Kind::kWait64 || kind == Kind::kWaitNext64;
}

}  // namespace

Status StepStream::enqueue(std::span<const gpu::StreamOp> ops) {
  using Kind = gpu::StreamOp::Kind;
  for (const gpu::StreamOp& op : ops)
    if (capture_ != 0 && (op.kind == Kind::kWait64 || op.kind == Kind::kCall))
      return {Code::kUnsupported, "this cannot be captured"};
  for (const gpu::StreamOp& op : ops) {
    StepItem item;
    item.op = op;
    const bool moves = op.kind == Kind::kPack || op.kind == Kind::kUnpack;
    item.kind = moves ? StepItem::Kind::kMove : is_wait(op.kind) ? StepItem::Kind::kWait : StepItem::Kind::kRing;
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
  if (item.kind != StepItem::Kind::kWait)
    return true;
  const gpu::StreamOp& op = item.op;
  return *op.word >= (op.kind == gpu::StreamOp::Kind::kWaitNext64 ? *op.count : 0) + op.value;
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
