// The part of ThreadedNic that takes operations and rings. It turns them into commands for the
// driving thread, and counts the free entries.
#include <algorithm>
#include <string>

#include "nicsim/threaded/threaded_nic.h"
#include "transport/nic/descriptor.h"

namespace lanyard::nicsim {

using nic::CounterId;
using nic::DeferredOp;
using nic::Op;

namespace {

Status no_peer(const Op& op) { return {Code::kNotFound, "there is no peer " + std::to_string(op.remote.peer)}; }

}  // namespace

Status ThreadedNic::post(std::span<const DeferredOp> ops) {
  for (const DeferredOp& op : ops) {
    if (!reaches(op.op))
      return no_peer(op.op);
    LANYARD_RETURN_IF_ERROR(model_.validate(op));
    LANYARD_RETURN_IF_ERROR(check_operands(op.op));
  }
  LANYARD_RETURN_IF_ERROR(take_entries(ops.size()));
  for (const DeferredOp& op : ops)
    push([&op](Command& command) {
      command.kind = Command::Kind::kPost;
      command.deferred = op;
    });
  wake_owner_if_asleep();
  return {};
}

// Takes all the entries or none (N6).
Status ThreadedNic::take_entries(size_t wanted) {
  uint32_t free = free_entries_.load(std::memory_order_relaxed);
  do {
    if (free < wanted) [[unlikely]] {
      if (wanted > caps_.deferred_depth)
        return {Code::kExhausted,
                std::to_string(wanted) + " entries wanted, " + std::to_string(caps_.deferred_depth) + " exist"};
      return {Code::kAgain, "too few deferred-work entries are free"};
    }
  } while (!free_entries_.compare_exchange_weak(free, free - static_cast<uint32_t>(wanted), std::memory_order_relaxed));
  return {};
}

Result<nic::PreparedId> ThreadedNic::prepare(const Op& op) {
  if (!reaches(op))
    return no_peer(op);
  Driving driving(*this, Driving::Afterwards::kLittle);
  LANYARD_RETURN_IF_ERROR(model_.validate(op));
  LANYARD_RETURN_IF_ERROR(check_operands(op));
  return model_.prepare(op);
}

Status ThreadedNic::post_prepared(std::span<const nic::Posting> postings) {
  for (const nic::Posting& posting : postings)
    LANYARD_RETURN_IF_ERROR(model_.validate(posting));
  LANYARD_RETURN_IF_ERROR(take_entries(postings.size()));
  constexpr size_t kMost = Command::kPostings;
  while (postings.size() >= kMost) {
    push([&](Command& command) {
      command.kind = Command::Kind::kPostPrepared;
      command.postings = kMost;
      std::copy_n(postings.begin(), kMost, command.posting);
    });
    postings = postings.subspan(kMost);
  }
  if (!postings.empty())
    push([&](Command& command) {
      command.kind = Command::Kind::kPostPrepared;
      command.postings = static_cast<uint32_t>(postings.size());
      std::copy(postings.begin(), postings.end(), command.posting);
    });
  wake_owner_if_asleep();
  return {};
}

Status ThreadedNic::release(nic::PreparedId prepared) {
  Driving driving(*this, Driving::Afterwards::kLittle);
  return model_.release(prepared);
}

// Requires a valid op.
Status ThreadedNic::check_operands(const Op& op) const {
  if (mover_ == nullptr || op.kind != nic::OpKind::kAtomic)
    return {};
  if (is_device(op.local.region))
    return {Code::kUnsupported, "the operand of an atomic must lie in host memory"};
  return {};
}

Status ThreadedNic::issue(const Op& op) {
  if (!reaches(op))
    return no_peer(op);
  LANYARD_RETURN_IF_ERROR(model_.validate(op));
  LANYARD_RETURN_IF_ERROR(check_operands(op));
  uint32_t free = free_issues_.load(std::memory_order_relaxed);
  do {
    if (free == 0)
      return {Code::kAgain, "too many issued operations wait for room in flight"};
  } while (!free_issues_.compare_exchange_weak(free, free - 1, std::memory_order_relaxed));
  push([&op](Command& command) {
    command.kind = Command::Kind::kIssue;
    command.deferred.op = op;
  });
  wake_owner_if_asleep();
  return {};
}

Status ThreadedNic::cancel(CounterId trigger) {
  Driving driving(*this);
  if (!model_.is_open(trigger))
    return {Code::kNotFound, "no such counter is open"};
  const uint32_t before = model_.free_entries();
  model_.cancel(trigger);
  free_entries_.fetch_add(model_.free_entries() - before, std::memory_order_relaxed);
  return {};
}

Status ThreadedNic::flush() {
  Driving driving(*this);
  const uint32_t before = model_.free_entries();
  model_.flush();
  free_entries_.fetch_add(model_.free_entries() - before, std::memory_order_relaxed);
  return {};
}

// ---- Called by the driving thread

size_t ThreadedNic::run_commands() {
  size_t steps = 0;
  while (const Command* command = commands_.front()) {
    switch (command->kind) {
      case Command::Kind::kPost: model_.post(command->deferred); break;
      case Command::Kind::kPostPrepared:
        for (const nic::Posting& posting : std::span(command->posting, command->postings))
          model_.post(nic::deferred(*model_.prepared(posting.prepared), posting));
        break;
      case Command::Kind::kIssue: model_.hold(command->deferred.op); break;
      case Command::Kind::kRing: model_.ring(command->deferred.trigger, command->deferred.threshold); break;
    }
    commands_.pop();
    ++steps;
  }
  return steps;
}

}  // namespace lanyard::nicsim
