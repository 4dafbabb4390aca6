// The part of Queue that says what an exchange waits for. Its counter tells how many messages are missing, not which:
// of sends their clear-to-sends tell, of receives nothing does in this process.
#include <algorithm>

#include "transport/core/exchange.h"
#include "transport/core/queue.h"

namespace lanyard::core {

namespace {

std::string of(uint64_t value, uint64_t wanted) { return std::to_string(value) + " of " + std::to_string(wanted); }
std::string rank_of(const Request& request) { return "rank " + std::to_string(request.matched_nic); }

// "rank 1, rank 5, rank 5": of the members in that direction.
std::string peers_of(const Exchange& exchange, Direction direction) {
  std::string text;
  for (const Request* member : exchange.members)
    if (member->transfer.direction == direction && member->matched_peer != kNobody)
      text += (text.empty() ? "" : ", ") + rank_of(*member);
  return text;
}

const Request* first_of(const Exchange& exchange, Direction direction) {
  for (const Request* member : exchange.members)
    if (member->transfer.direction == direction && member->matched_peer != kNobody)
      return member;
  return nullptr;
}

}  // namespace

// The rings are what the trigger has counted besides clear-to-sends and the other set's completions, which their words
// count too.
Queue::Progress Queue::progress_of_exchange(const Exchange& exchange, uint64_t iteration) {
  if (!exchange.rings)
    return Progress::kUnknown;
  const uint64_t reached = endpoint_.triggered(exchange.shared);
  uint64_t wanted = exchange.ring_value() * iteration;
  for (const Request* member : exchange.members)
    if (member->clear_to_send_word.valid())
      wanted += member->clearances();
  if (exchange.other != nullptr)
    wanted += exchange.other->shared.done.read() - exchange.other->shared.done_base;
  return reached >= wanted ? Progress::kReached : Progress::kEnqueued;
}

Queue::Explanation Queue::explain_exchange(const Request& request, uint64_t iteration) {
  const Exchange& exchange = *request.exchange;
  const std::string which = std::to_string(iteration);
  std::string text = "the " + exchange.describe() + " waits for iteration " + which + ": done word " +
                     of(request.iterations_done(), iteration);
  for (const Request* member : exchange.members)
    if (member->failures > 0)
      text += ", operations of (" + member->describe() + ") failed (" + endpoint_.explain_failure(*member) + ")";
    else if (member->peer_starts < iteration)
      return {text + " <- " + endpoint_.explain_failure(*member), Missing::kNothing};
  const nic::CounterValue value = endpoint_.nic().read(exchange.shared.completion).value();
  const uint64_t wanted = exchange.messages * iteration;
  if (value.reached() >= wanted)
    return {text + kAtomicMissing, Missing::kNothing};
  text += " <- counter of messages " + of(value.success, wanted);
  if (value.failure > 0)
    text += ", " + std::to_string(value.failure) + " failed";
  if (progress_of_exchange(exchange, iteration) == Progress::kEnqueued)
    return {text + " <- this stream has not reached start " + which, Missing::kNothing};
  const std::vector<const Request*> uncleared = missing_clearances(exchange, iteration);
  for (const Request* member : uncleared)
    text +=
        " <- clear-to-send " + which + " from " + rank_of(*member) + " has not arrived (" + member->describe() + ")";
  if (!uncleared.empty())
    return {text, Missing::kPeer, uncleared.front()};
  text += " <- " + std::to_string(wanted - value.reached()) + " missing";
  const Request* receive = first_of(exchange, Direction::kReceive);
  const Request* send = first_of(exchange, Direction::kSend);
  if (receive != nullptr)
    text += ", of the messages from " + peers_of(exchange, Direction::kReceive);
  if (send != nullptr)
    text += std::string(receive != nullptr ? " and" : ", of") + " the acknowledgements of " +
            peers_of(exchange, Direction::kSend);
  return {text, receive != nullptr ? Missing::kPeer : Missing::kAnswer, receive != nullptr ? receive : send};
}

Queue::Explanation Queue::explain_part(const Request& request, uint64_t iteration) {
  if (request.exchange == nullptr || request.failures > 0 || request.peer_starts < iteration)
    return explain(request, iteration);
  const Exchange& exchange = *request.exchange;
  const bool reached = progress_of_exchange(exchange, iteration) != Progress::kEnqueued;
  const std::string text = "request (" + request.describe() + ") of the " + exchange.describe();
  if (request.transfer.direction == Direction::kReceive && reached)
    return {text + " <- the message from " + rank_of(request) + " has not landed", Missing::kPeer, &request};
  const bool at_ring = request.ready && request.clearance != Clearance::kImplied;
  const bool fired = at_ring ? reached : reached && missing_clearances(exchange, iteration).empty();
  if (request.transfer.direction == Direction::kSend && fired)
    return {text + " <- " + rank_of(request) + " has not acknowledged the write", Missing::kAnswer, &request};
  return explain_exchange(request, iteration);
}

}  // namespace lanyard::core
