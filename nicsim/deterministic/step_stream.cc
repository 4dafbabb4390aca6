#include "nicsim/deterministic/step_stream.h"

namespace lanyard::nicsim {

Status StepStream::enqueue(std::span<const gpu::StreamOp> ops) {
  for (const gpu::StreamOp& op : ops) {
    StepItem& item = items_.emplace_back();
    item.op = op;
    const bool wait = op.kind == gpu::StreamOp::Kind::kWait64 || op.kind == gpu::StreamOp::Kind::kWaitCount64;
    item.kind = wait ? StepItem::Kind::kWait : StepItem::Kind::kRing;
  }
  return {};
}

bool StepStream::ready() const {
  if (empty())
    return false;
  const StepItem& item = front();
  if (item.kind != StepItem::Kind::kWait)
    return true;
  const bool count = item.op.kind == gpu::StreamOp::Kind::kWaitCount64;
  const uint64_t seen = count ? *item.op.word & gpu::kCountBits : *item.op.word;
  return seen >= item.op.value;
}

void StepStream::pop() {
  ++executed_;
  if (++head_ < items_.size())
    return;
  items_.clear();
  started.clear();
  head_ = 0;
}

}  // namespace lanyard::nicsim
