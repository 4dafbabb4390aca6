// The part of OfiNic that takes operations: their descriptors, credits, cancelation.
#include <algorithm>
#include <type_traits>

#include "transport/cxi/driving.h"
#include "transport/cxi/ofi_nic.h"
#include "transport/cxi/ofi_status.h"
#include "transport/nic/descriptor.h"

namespace lanyard::ofi {

using nic::DeferredOp;
using nic::DescriptorFault;
using nic::Op;

struct OfiNic::Open {
  bool has_counter(nic::CounterId id) const { return nic.is_open(id); }
  bool has_word(nic::CounterId) const { return false; }
  bool has_peer(uint32_t peer) const { return peer < nic.peer_count_.load(std::memory_order_relaxed); }
  bool misaligned(nic::RemoteKey key) const { return KeyMaker::misaligned(key); }
  nic::Extent extent(nic::RegionId id) const {
    if (!nic.is_open(id))
      return {};
    const OfiRegion& region = nic.regions_[id.value];
    return {.base = region.base(), .bytes = region.bytes(), .open = true};
  }
  uint64_t max_message_bytes() const { return nic.caps_.max_message_bytes; }

  const OfiNic& nic;
};

Status OfiNic::post(std::span<const DeferredOp> ops) {
  const nic::DescriptorCheck check(Open{*this});
  for (const DeferredOp& op : ops) {
    if (const DescriptorFault fault = check.of(op); fault != DescriptorFault::kNone)
      return status_of(fault, caps_.max_message_bytes);
    if (!op.op.moves_data())
      return {Code::kUnsupported, "this device has no deferred counter operations"};
  }
  return take_in(ops);
}

Status OfiNic::take_entries(size_t entries) {
  if (entries > caps_.deferred_depth)
    return {Code::kExhausted,
            std::to_string(entries) + " entries wanted, " + std::to_string(caps_.deferred_depth) + " exist"};
  const auto wanted = static_cast<uint32_t>(entries);
  uint32_t free = free_entries_.load(std::memory_order_relaxed);
  if (free < wanted) {
    progress();  // what has ended is known once somebody has looked
    free = free_entries_.load(std::memory_order_relaxed);
  }
  do {
    if (free < wanted)
      return {Code::kAgain, "too few deferred-work entries are free"};
  } while (!free_entries_.compare_exchange_weak(free, free - wanted, std::memory_order_relaxed));
  return {};
}

template <typename Each>
Status OfiNic::take_in(std::span<const Each> batch) {
  LANYARD_RETURN_IF_ERROR(take_entries(batch.size()));
  if (right_.try_take()) {
    if (run_all_commands() > 0)
      (void)hand_over();  // what others posted before comes before
    accept(batch);
    activity_.fetch_add(1, std::memory_order_seq_cst);
    right_.give_back();
    // A command pushed by a thread that found this one driving is this one's to run.
    if (!commands_.empty())
      progress();
    return {};
  }
  for (const Each& each : batch)
    push([&each](Command& command) {
      if constexpr (std::is_same_v<Each, DeferredOp>) {
        command.kind = Command::Kind::kPost;
        command.deferred = each;
      } else {
        command.kind = Command::Kind::kPostPrepared;
        command.posting = each;
      }
    });
  progress();
  return {};
}

Result<nic::PreparedId> OfiNic::prepare(const Op& op) {
  if (!op.moves_data())
    return Status(Code::kUnsupported, "this device has no deferred counter operations");
  Driving driving(*this);
  if (const DescriptorFault fault = nic::DescriptorCheck(Open{*this}).of(op); fault != DescriptorFault::kNone)
    return status_of(fault, caps_.max_message_bytes);
  use(op, 1);
  return prepared_.add(op);
}

Status OfiNic::post_prepared(std::span<const nic::Posting> postings) {
  const nic::DescriptorCheck check(Open{*this});
  for (const nic::Posting& posting : postings)
    if (const DescriptorFault fault = check.of(posting, prepared_.find(posting.prepared));
        fault != DescriptorFault::kNone) [[unlikely]]
      return status_of(fault, caps_.max_message_bytes);
  return take_in(postings);
}

Status OfiNic::release(nic::PreparedId prepared) {
  Driving driving(*this);
  const Op* op = prepared_.find(prepared);
  if (op == nullptr)
    return status_of(DescriptorFault::kNotPrepared, 0);
  use(*op, -1);
  prepared_.remove(prepared);
  return {};
}

Status OfiNic::issue(const Op& op) {
  if (const DescriptorFault fault = nic::DescriptorCheck(Open{*this}).of(op); fault != DescriptorFault::kNone)
    return status_of(fault, caps_.max_message_bytes);
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
