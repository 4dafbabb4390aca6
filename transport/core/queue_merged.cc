// Queue's calls on exactly one exchange, as nearly all of a program that merges are: what its members have in common is
// looked at once, by the lead. They stand and start together, so what the lead may do all may. Where anything is out of
// the ordinary the long way (queue.cc) looks at each, and says what it is.
#include <algorithm>

#include "transport/core/queue.h"

namespace lanyard::core {

// As check_start(), check_turns() and check_entries() for all members, which have been started here before.
bool Queue::may_start(const Exchange& exchange) const {
  const Request& one = *exchange.members.front();
  if (one.needs_wait() || one.queue_number != number_ || one.starts >= one.most_starts ||
      endpoint_.options().check_ready_sends || !endpoint_.options().overflow)
    return false;
  const Exchange* other = exchange.other;
  return other == nullptr ||
         (other->undisturbed && !other->lead->needs_wait() && other->lead->queue_number == number_ &&
          (set_of(exchange.number) == 0) == (one.starts == other->lead->starts));
}

Status Queue::start_merged(Exchange& exchange) {
  const uint64_t iteration = exchange.members.front()->starts + 1;
  stream_ops_.clear();
  if (exchange.packed)
    LANYARD_RETURN_IF_ERROR(pack(exchange.members));
  const size_t moves = stream_ops_.size();
  LANYARD_RETURN_IF_ERROR(ring_exchange(exchange, iteration));
  if (exchange.has_lanes)
    append_lanes(exchange.members, gpu::StreamOp::Kind::kStartLane);
  LANYARD_RETURN_IF_ERROR(stream_.enqueue(stream_ops_));
  for (Request* member : exchange.members) {
    ++member->starts;
    if (member->listed != this) [[unlikely]]
      list(*member);
  }
  figures_.bytes += exchange.bytes;
  note_starts(exchange.members.size(), exchange.entries, stream_ops_.size() - moves);
  const std::span<const nic::Posting> postings = exchange.postings.of(exchange.members, iteration);
  endpoint_.count_posted(postings.size());
  if (endpoint_.overflow().empty() && endpoint_.nic().post_prepared(postings).ok()) [[likely]]
    return {};
  postings_.clear();
  std::copy(postings.begin(), postings.end(), postings_.extend(postings.size()));
  overflow(exchange.members);
  return {};
}

Status Queue::wait_merged(Exchange& exchange) {
  if (exchange.has_lanes)
    append_lanes(exchange.members, gpu::StreamOp::Kind::kWaitLane);
  if (const Request* lead = exchange.lead; lead != nullptr) {
    gpu::StreamOp& op = stream_ops_.emplace_back();
    op.kind = gpu::StreamOp::Kind::kWait64;  // an exchange's done word is no counter's copy
    op.word = lead->done.address;
    op.value = lead->done_base + lead->starts;
  }
  if (exchange.packed)
    unpack(exchange.members);
  LANYARD_RETURN_IF_ERROR(stream_.enqueue(stream_ops_));
  for (Request* member : exchange.members)
    ++member->waits;
  epoch_entries_ -= exchange.entries;
  note_waits(exchange.members.size());
  return {};
}

}  // namespace lanyard::core
