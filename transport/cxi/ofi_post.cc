// The part of OfiNic that takes operations: what is wrong with a descriptor, credits, cancelation.
#include <algorithm>

#include "transport/base/check.h"
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

}  // namespace

enum class OfiNic::Fault : uint8_t {
  kNone,
  kNoCounter,
  kNoRegion,
  kNoPeer,
  kOutside,
  kMisalignedOperand,
  kMisalignedTarget,
  kTooLong,
  kCompletes,
  kValue,
  kThreshold,
  kDeferredCounterOp,
};

// In line: three calls an entry would cost more than what they look at.
[[gnu::always_inline]] inline OfiNic::Fault OfiNic::fault_in(nic::LocalSpan span, uint64_t bytes,
                                                             uint64_t alignment) const {
  if (!is_open(span.region))
    return Fault::kNoRegion;
  const OfiRegion& region = regions_[span.region.value];
  if (span.offset > region.bytes() || bytes > region.bytes() - span.offset)
    return Fault::kOutside;
  if (reinterpret_cast<uintptr_t>(region.base() + span.offset) % alignment != 0)
    return Fault::kMisalignedOperand;
  return Fault::kNone;
}

[[gnu::always_inline]] inline OfiNic::Fault OfiNic::fault_in(const Op& op) const {
  if (op.completion.valid() && !is_open(op.completion))
    return Fault::kNoCounter;
  if (!op.moves_data()) {
    if (op.completion.valid())
      return Fault::kCompletes;
    if (!is_open(op.counter))
      return Fault::kNoCounter;
    return op.value > kMaxSuccess ? Fault::kValue : Fault::kNone;
  }
  if (op.remote.peer >= peer_count_.load(std::memory_order_relaxed))
    return Fault::kNoPeer;
  if (op.kind == OpKind::kWrite)
    return op.bytes > caps_.max_message_bytes ? Fault::kTooLong : fault_in(op.local, op.bytes, 1);
  if (op.remote.offset % kWord != 0 || KeyMaker::misaligned(op.remote.key))
    return Fault::kMisalignedTarget;
  if (Work::fetches(op))
    if (const Fault fault = fault_in(op.fetch, kWord, kWord); fault != Fault::kNone)
      return fault;
  return fault_in(op.local, kWord, kWord);
}

[[gnu::always_inline]] inline OfiNic::Fault OfiNic::fault_in(const DeferredOp& deferred) const {
  if (!is_open(deferred.trigger))
    return Fault::kNoCounter;
  if (deferred.threshold > kMaxSuccess)
    return Fault::kThreshold;
  const Fault fault = fault_in(deferred.op);
  return fault == Fault::kNone && !deferred.op.moves_data() ? Fault::kDeferredCounterOp : fault;
}

Status OfiNic::status_of(Fault fault) const {
  const auto invalid = [](std::string what) { return Status(Code::kInvalidArgument, std::move(what)); };
  switch (fault) {
    case Fault::kNone: break;
    case Fault::kNoCounter: return {Code::kNotFound, "no such counter is open"};
    case Fault::kNoRegion: return {Code::kNotFound, "no such region is registered"};
    case Fault::kNoPeer: return {Code::kNotFound, "no such peer"};
    case Fault::kOutside: return invalid("the local span ends outside its region");
    case Fault::kMisalignedOperand: return invalid("the operands of atomics are aligned to 8 bytes");
    case Fault::kMisalignedTarget: return invalid("the targets of atomics are aligned to 8 bytes");
    case Fault::kTooLong: return invalid("a message has at most " + std::to_string(caps_.max_message_bytes) + " bytes");
    case Fault::kCompletes: return invalid("counter operations have no completion counter");
    case Fault::kValue: return invalid("a counter holds 48 bits of success");
    case Fault::kThreshold: return invalid("a threshold has at most 48 bits");
    case Fault::kDeferredCounterOp: return {Code::kUnsupported, "this device has no deferred counter operations"};
  }
  LANYARD_CHECK(false, "a fault of no kind");
}

Status OfiNic::post(std::span<const DeferredOp> ops) {
  for (const DeferredOp& op : ops)
    if (const Fault fault = fault_in(op); fault != Fault::kNone)
      return status_of(fault);
  if (ops.size() > caps_.deferred_depth)
    return {Code::kExhausted,
            std::to_string(ops.size()) + " entries wanted, " + std::to_string(caps_.deferred_depth) + " exist"};
  const auto wanted = static_cast<uint32_t>(ops.size());
  uint32_t free = free_entries_.load(std::memory_order_relaxed);
  if (free < wanted) {
    progress();  // what has ended is known once somebody has looked
    free = free_entries_.load(std::memory_order_relaxed);
  }
  do {
    if (free < wanted)
      return {Code::kAgain, "too few deferred-work entries are free"};
  } while (!free_entries_.compare_exchange_weak(free, free - wanted, std::memory_order_relaxed));
  if (try_drive()) {
    if (!commands_.empty() && run_commands() > 0)
      (void)hand_over();  // what others posted before comes before
    accept(ops);
    activity_.fetch_add(1, std::memory_order_seq_cst);
    stop_driving();
    // A command pushed by a thread that found this one driving is this one's to run.
    if (!commands_.empty())
      progress();
    return {};
  }
  for (const DeferredOp& op : ops)
    push([&op](Command& command) {
      command.kind = Command::Kind::kPost;
      command.deferred = op;
    });
  progress();
  return {};
}

Status OfiNic::issue(const Op& op) {
  if (const Fault fault = fault_in(op); fault != Fault::kNone)
    return status_of(fault);
  uint32_t free = free_issues_.load(std::memory_order_relaxed);
  do {
    if (free == 0)
      return {Code::kAgain, "too many operations are under way"};
  } while (!free_issues_.compare_exchange_weak(free, free - 1, std::memory_order_relaxed));
  push([&op](Command& command) {
    command.kind = Command::Kind::kIssue;
    command.deferred.op = op;
  });
  progress();
  return {};
}

Status OfiNic::flush() {
  if (!caps_.flush)
    return {Code::kUnsupported, "the provider cannot cancel deferred work"};
  Driving driving(*this);
  for (Work* work : held_)
    if (work->deferred())
      release(*work);
  std::erase_if(held_, [](const Work* work) { return work->state == Work::State::kFree; });
  const auto is_given = [](const Work& work) {
    return work.state == Work::State::kWaiting && work.deferred() && !work.at_once;
  };
  if (std::none_of(works_.get(), works_.get() + work_count_, is_given))
    return {};  // the provider's takes its time
  LANYARD_RETURN_IF_ERROR(ofi_status(fi_control(&fabric_->domain()->fid, FI_FLUSH_WORK, nullptr), "FI_FLUSH_WORK"));
  // What had fired is done by now and stands in the queue, but where the provider would not wait any longer for a peer
  // that does not answer. The rest was canceled.
  (void)read_completions();
  for (uint32_t i = 0; i < work_count_; ++i) {
    if (!is_given(works_[i]))
      continue;
    works_[i].give_up();
    release(works_[i]);
  }
  return {};
}

}  // namespace lanyard::ofi
