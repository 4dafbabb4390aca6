// The part of OfiNic that takes operations: what is wrong with a descriptor, credits, cancelation.
#include "transport/cxi/driving.h"
#include "transport/cxi/ofi_nic.h"
#include "transport/cxi/ofi_status.h"

namespace lanyard::ofi {

using nic::DeferredOp;
using nic::kMaxSuccess;
using nic::Op;
using nic::OpKind;

namespace {

constexpr uint64_t kWord = sizeof(uint64_t);

Status no_counter() { return {Code::kNotFound, "no such counter is open"}; }
Status no_region() { return {Code::kNotFound, "no such region is registered"}; }
Status invalid(const char* what) { return {Code::kInvalidArgument, what}; }

}  // namespace

Status OfiNic::validate_span(nic::LocalSpan span, uint64_t bytes, uint64_t alignment) const {
  if (!is_open(span.region)) return no_region();
  const OfiRegion& region = regions_[span.region.value];
  if (span.offset > region.bytes() || bytes > region.bytes() - span.offset)
    return invalid("the local span ends outside its region");
  if (reinterpret_cast<uintptr_t>(region.base() + span.offset) % alignment != 0)
    return invalid("the operands of atomics are aligned to 8 bytes");
  return {};
}

Status OfiNic::validate(const Op& op) const {
  if (op.completion.valid() && !is_open(op.completion)) return no_counter();
  if (!op.moves_data()) {
    if (op.completion.valid()) return invalid("counter operations have no completion counter");
    if (!is_open(op.counter)) return no_counter();
    return op.value > kMaxSuccess ? invalid("a counter holds 48 bits of success") : Status();
  }
  if (op.remote.peer >= peer_count_.load(std::memory_order_relaxed))
    return {Code::kNotFound, "no such peer"};
  if (op.kind == OpKind::kWrite) {
    if (op.bytes > caps_.max_message_bytes)
      return {Code::kInvalidArgument,
              "a message has at most " + std::to_string(caps_.max_message_bytes) + " bytes"};
    return validate_span(op.local, op.bytes, 1);
  }
  if (op.remote.offset % kWord != 0 || KeyMaker::misaligned(op.remote.key))
    return invalid("the targets of atomics are aligned to 8 bytes");
  if (Work::fetches(op)) LANYARD_RETURN_IF_ERROR(validate_span(op.fetch, kWord, kWord));
  return validate_span(op.local, kWord, kWord);
}

Status OfiNic::validate(const DeferredOp& deferred) const {
  if (!is_open(deferred.trigger)) return no_counter();
  if (deferred.threshold > kMaxSuccess) return invalid("a threshold has at most 48 bits");
  LANYARD_RETURN_IF_ERROR(validate(deferred.op));
  if (!deferred.op.moves_data())
    return {Code::kUnsupported, "this device has no deferred counter operations"};
  return {};
}

Status OfiNic::post(std::span<const DeferredOp> ops) {
  for (const DeferredOp& op : ops) LANYARD_RETURN_IF_ERROR(validate(op));
  if (ops.size() > caps_.deferred_depth)
    return {Code::kExhausted, std::to_string(ops.size()) + " entries wanted, " +
                                  std::to_string(caps_.deferred_depth) + " exist"};
  const auto wanted = static_cast<uint32_t>(ops.size());
  uint32_t free = free_entries_.load(std::memory_order_relaxed);
  do {
    if (free < wanted) return {Code::kAgain, "too few deferred-work entries are free"};
  } while (!free_entries_.compare_exchange_weak(free, free - wanted, std::memory_order_relaxed));
  for (const DeferredOp& op : ops)
    push([&op](Command& command) {
      command.kind = Command::Kind::kPost;
      command.deferred = op;
    });
  progress();
  return {};
}

Status OfiNic::issue(const Op& op) {
  LANYARD_RETURN_IF_ERROR(validate(op));
  uint32_t free = free_issues_.load(std::memory_order_relaxed);
  do {
    if (free == 0) return {Code::kAgain, "too many operations are under way"};
  } while (!free_issues_.compare_exchange_weak(free, free - 1, std::memory_order_relaxed));
  push([&op](Command& command) {
    command.kind = Command::Kind::kIssue;
    command.deferred.op = op;
  });
  progress();
  return {};
}

Status OfiNic::flush() {
  if (!caps_.flush) return {Code::kUnsupported, "the provider cannot cancel deferred work"};
  Driving driving(*this);
  for (Work* work : held_)
    if (work->deferred()) release(*work);
  std::erase_if(held_, [](const Work* work) { return work->state == Work::State::kFree; });
  LANYARD_RETURN_IF_ERROR(
      ofi_status(fi_control(&fabric_->domain()->fid, FI_FLUSH_WORK, nullptr), "FI_FLUSH_WORK"));
  // What had fired is done by now and stands in the queue; the rest was canceled.
  (void)read_completions();
  for (uint32_t i = 0; i < work_count_; ++i)
    if (works_[i].state == Work::State::kWaiting && works_[i].deferred()) release(works_[i]);
  return {};
}

}  // namespace lanyard::ofi
