// The part of OfiNic that takes operations and gives them to libfabric: descriptors, free entries,
// cancelation.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "transport/base/check.h"
#include "transport/cxi/library.h"
#include "transport/cxi/ofi_nic.h"
#include "transport/nic/driver.h"

namespace lanyard::ofi {

using nic::CounterId;
using nic::DeferredOp;
using nic::Op;

namespace {

constexpr uint32_t kReadEvery = 16;  // read completions after this many posted entries

}  // namespace

struct OfiNic::Open {
  bool has_counter(nic::CounterId id) const { return nic.is_open(id); }
  bool has_peer(uint32_t peer) const {
    return peer < nic.peer_count_.load(std::memory_order_acquire) && nic.known_[peer].load(std::memory_order_acquire);
  }
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

// ---- Finding a Work for an operation

// Keeps what the operation names from being closed (delta 1), or no longer (delta -1).
void OfiNic::use(const Work& work, int delta) {
  if (work.deferred())
    counters_[work.trigger.value].uses += static_cast<uint32_t>(delta);
  if (work.home == nullptr)
    use(work.op, delta);
}

void OfiNic::use(const Op& op, int delta) {
  const auto count = static_cast<uint32_t>(delta);
  if (op.completion.valid())
    counters_[op.completion.value].uses += count;
  regions_[op.local.region.value].uses += count;
}

// Takes a free Work away from the prepared operation that it is filled in for.
void OfiNic::blank(Prepared& home) {
  Work& work = *home.ready;
  home.ready = work.next_free;
  work.home = nullptr;
  work.next_free = free_work_;
  free_work_ = &work;
}

// Detaches an operation in flight from its prepared operation. From now on it
// holds what it names itself.
void OfiNic::leave_home(Work& work) {
  use(work.op, 1);
  --work.home->in_flight;
  work.home = nullptr;
}

void OfiNic::disband(Prepared& home) {
  while (home.ready != nullptr)
    blank(home);
  for (uint32_t i = 0; i < work_count_ && home.in_flight > 0; ++i)
    if (works_[i].home == &home)
      leave_home(works_[i]);
}

// Returns any free Work. If all are filled in for prepared operations, takes the next one in turn.
Work& OfiNic::any_free() {
  for (uint32_t looks = 0; free_work_ == nullptr; ++looks) {
    LANYARD_CHECK(looks < work_count_, "credits must not admit more operations than there are Works");
    looked_at_ = (looked_at_ + 1) % work_count_;
    if (works_[looked_at_].state == Work::State::kFree)
      blank(*works_[looked_at_].home);
  }
  Work& work = *free_work_;
  free_work_ = work.next_free;
  return work;
}

void OfiNic::describe(Work& work, const Op& op) {
  work.op = op;
  const OfiCounter* completion = completion_of(op);
  work.describe(*fabric_, op, local_address(op.local), completion == nullptr ? nullptr : completion->fid());
}

Work& OfiNic::take(const Op& op, CounterId trigger, uint64_t threshold) {
  Work& work = any_free();
  describe(work, op);
  work.trigger = trigger;
  work.threshold = threshold;
  work.state = Work::State::kHeld;
  use(work, 1);
  return work;
}

Work& OfiNic::take(const nic::DeferredOp& deferred) { return take(deferred.op, deferred.trigger, deferred.threshold); }

Work& OfiNic::described(Prepared& prepared) {
  Work& work = any_free();
  describe(work, prepared.op);
  work.home = &prepared;
  work.next_free = nullptr;
  return work;
}

Work& OfiNic::take(const nic::Posting& posting) {
  Prepared* prepared = prepared_.find(posting.prepared);
  LANYARD_CHECK(prepared != nullptr, "release() was called while another thread posted the operation");
  Work& work = prepared->ready != nullptr ? *prepared->ready : described(*prepared);
  prepared->ready = work.next_free;
  ++prepared->in_flight;
  work.trigger = posting.trigger;
  work.threshold = posting.threshold;
  work.op.start = posting.start;
  work.state = Work::State::kHeld;
  ++counters_[posting.trigger.value].uses;
  return work;
}

// ---- Giving a Work to the provider

bool OfiNic::is_due(const Work& work) const {
  return !work.deferred() || counters_[work.trigger.value].reached() >= work.threshold;
}

// Gives one held operation to the provider. kAgain: it stays held.
Code OfiNic::offer(Work& work) {
  if (!work.deferred())
    return work.start(*fabric_);
  if (no_entries_)
    return Code::kAgain;
  const Code code = work.post(*fabric_, counters_[work.trigger.value].fid(), work.threshold);
  if (code == Code::kAgain)
    no_entries_ = true;  // nor for the next operation of this round
  return code;
}

// Starts a due operation without an entry. Other processes may hold all entries until this very
// operation is done, so waiting could deadlock.
Code OfiNic::run_at_once(Work& work) {
  if (!is_due(work))
    return Code::kAgain;
  const Code code = work.start(*fabric_);
  work.at_once = code == Code::kOk;
  return code;
}

// Returns true if the provider has the operation now. Otherwise it is still held, or refused.
bool OfiNic::give(Work& work) {
  Code code = offer(work);
  if (code == Code::kAgain && work.deferred()) [[unlikely]]
    code = run_at_once(work);
  if (code == Code::kOk) {
    work.state = Work::State::kWaiting;
    return true;
  }
  if (code != Code::kAgain) {
    work.state = Work::State::kRefused;
    work.refusal = code;
  }
  return false;
}

// Takes operations of the driving thread directly, without the command queue.
template <typename Each>
void OfiNic::accept(std::span<const Each> ops) {
  const size_t first_fresh = held_.size();
  for (const Each& op : ops)
    hold(take(op), first_fresh);
  (void)hand_over();
  // A thread that only posts must not depend on others to free entries.
  if ((unread_ += static_cast<uint32_t>(ops.size())) >= kReadEvery)
    (void)read_completions();
}

// Inserts by threshold among the operations since `first_fresh`: with few entries, those that fire
// first get them. They nearly always come in this order.
void OfiNic::hold(Work& work, size_t first_fresh) {
  held_.push_back(&work);
  for (size_t at = held_.size(); at > first_fresh + 1 && held_[at - 2]->threshold > held_[at - 1]->threshold; --at)
    std::swap(held_[at - 2], held_[at - 1]);
}

// ---- Taking operations

Status OfiNic::post(std::span<const DeferredOp> ops) {
  const nic::DescriptorCheck check(Open{*this});
  for (const DeferredOp& op : ops)
    LANYARD_RETURN_IF_ERROR(check.of(op));
  return take_in(ops);
}

// Reads completions to find free entries.
Status OfiNic::look_for_entries(size_t wanted) {
  if (wanted > caps_.deferred_depth)
    return {Code::kExhausted,
            std::to_string(wanted) + " entries wanted, " + std::to_string(caps_.deferred_depth) + " exist"};
  progress();
  return nic::take(free_entries_, wanted) ? Status() : Status(Code::kAgain, "too few deferred-work entries are free");
}

template <typename Each>
Status OfiNic::take_in(std::span<const Each> batch) {
  if (!nic::take(free_entries_, batch.size())) [[unlikely]]
    LANYARD_RETURN_IF_ERROR(look_for_entries(batch.size()));
  if (!right_.try_take()) [[unlikely]] {
    leave(batch);
    return {};
  }
  (void)run_all_commands();  // earlier posts come first
  accept(batch);
  activity_.fetch_add(1, std::memory_order_seq_cst);
  right_.give_back();
  // A command pushed by a thread that found this one driving must be run here.
  if (!commands_.empty()) [[unlikely]]
    progress();
  return {};
}

// Leaves the batch to the driving thread.
template <typename Each>
void OfiNic::leave(std::span<const Each> batch) {
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
}

Result<nic::PreparedId> OfiNic::prepare(const Op& op) {
  Driving driving(*this);
  LANYARD_RETURN_IF_ERROR(nic::DescriptorCheck(Open{*this}).of(op));
  use(op, 1);
  return prepared_.add({.op = op});
}

Status OfiNic::post_prepared(std::span<const nic::Posting> postings) {
  const nic::DescriptorCheck check(Open{*this});
  for (const nic::Posting& posting : postings) {
    const Prepared* prepared = prepared_.find(posting.prepared);
    LANYARD_RETURN_IF_ERROR(check.of(posting, prepared == nullptr ? nullptr : &prepared->op));
  }
  return take_in(postings);
}

Status OfiNic::release(nic::PreparedId prepared) {
  Driving driving(*this);
  Prepared* home = prepared_.find(prepared);
  if (home == nullptr)
    return nic::no_prepared();
  disband(*home);
  use(home->op, -1);
  prepared_.remove(prepared);
  return {};
}

Status OfiNic::issue(const Op& op) {
  LANYARD_RETURN_IF_ERROR(nic::DescriptorCheck(Open{*this}).of(op));
  if (!nic::take(free_issues_, 1))
    return {Code::kAgain, "too many issued operations are in flight"};
  push([&op](Command& command) {
    command.kind = Command::Kind::kIssue;
    command.deferred.op = op;
  });
  progress();
  return {};
}

Status OfiNic::flush() {
  Driving driving(*this);
  for (Work* work : held_)
    if (work->deferred())
      release(*work);
  std::erase_if(held_, [](const Work* work) { return work->state == Work::State::kFree; });
  const auto is_given = [](const Work& work) {
    return work.state == Work::State::kWaiting && work.deferred() && !work.at_once;
  };
  if (std::none_of(works_.get(), works_.get() + work_count_, is_given))
    return {};  // the provider's flush is slow
  LANYARD_RETURN_IF_ERROR(ofi_status(fi_control(&fabric_->domain()->fid, FI_FLUSH_WORK, nullptr), "FI_FLUSH_WORK"));
  // What had fired is complete and in the queue, unless the provider gave up on a peer that does
  // not answer. The rest was canceled.
  (void)read_completions();
  for (uint32_t i = 0; i < work_count_; ++i) {
    if (!is_given(works_[i]))
      continue;
    if (works_[i].home != nullptr)
      leave_home(works_[i]);
    works_[i].abandon();
    release(works_[i]);
  }
  return {};
}

}  // namespace lanyard::ofi
