// The part of Queue that explains its waits. It uses only what this process knows, and
// api/stall_inquiry.h asks the peers for the rest. An exchange's counter tells how many messages
// are missing, not which. For sends the clear-to-sends tell; for receives nothing here does.
#include "transport/core/exchange.h"
#include "transport/core/queue.h"

namespace lanyard::core {

namespace {

std::string of(uint64_t value, uint64_t wanted) { return std::to_string(value) + " of " + std::to_string(wanted); }
std::string rank_of(const Request& request) { return "rank " + std::to_string(request.matched_nic); }

bool moves(const Request& member, Direction direction) {
  return member.transfer.direction == direction && member.matched_peer != kNobody;
}
// "rank 1, rank 5, rank 5": the peers of the members in that direction.
std::string peers_of(const Exchange& exchange, Direction direction) {
  std::string text;
  for (const Request* member : exchange.members)
    if (moves(*member, direction))
      text += (text.empty() ? "" : ", ") + rank_of(*member);
  return text;
}
const Request* first_of(const Exchange& exchange, Direction direction) {
  return exchange.first([direction](const Request& member) { return moves(member, direction); });
}
std::string not_reached(uint64_t iteration) {
  return " <- this stream has not reached start " + std::to_string(iteration);
}
std::string no_clearance(const Request& request, uint64_t iteration) {
  return " <- clear-to-send " + std::to_string(iteration) + " from " + rank_of(request) + " has not arrived";
}

}  // namespace

std::string Queue::explain_stall() {
  std::string text;
  for (const std::vector<Request*>* requests : {&under_way_, &standing_})
    for (const Request* request : *requests)
      if (is_under_way(*request) && request->leads)
        text += (text.empty() ? "" : "\n") + explain(*request, request->iterations_done() + 1).text;
  if (!text.empty())
    return text;
  if (const Unheard rest = unheard(); !rest.text.empty())
    return "everything that was started has completed, but " + rest.text;
  const gpu::Stream::Head head = stream_.head();
  return std::string("nothing is under way: the stream ") + (head.kernel != nullptr ? "runs a kernel"
                                                             : head.waits_for != nullptr
                                                                 ? "waits for something else"
                                                                 : "runs or waits for something else");
}

Queue::Unheard Queue::unheard() {
  if (first_under_way() != nullptr)
    return {};
  if (const Request* receive = first_unassured())
    return {.text = rank_of(*receive) + " has not said yet whether its sends went well (" + receive->describe() + ")",
            .receive = receive};
  if (!unconfirmed_.empty())
    return {.text = "the NIC does not tell whether it went well"};
  return {};
}

const Request* Queue::first_unassured() {
  const auto waits = [](const Request& request) { return request.asked > request.assured && request.failures == 0; };
  for (const nic::ContextStarts& each : unassured_)
    if (const Request* request = endpoint_.find(each.context); request != nullptr && waits(*request))
      return request;
  for (const Request* request : standing_)
    if (waits(*request))
      return request;
  return nullptr;
}

bool Queue::is_under_way(const Request& request) const {
  if (!request.done.valid())
    return false;
  const uint64_t started = request.standing != nullptr ? endpoint_.standing().started(request) : request.starts;
  return request.iterations_done() < started;
}

Queue::Head Queue::head() {
  const gpu::Stream::Head head = stream_.head();
  Head result{.request = nullptr, .kernel = head.kernel, .item = head.item};
  const Request* only = nullptr;
  size_t waited_for = 0;
  for (const Request* request : under_way_) {
    if (!is_under_way(*request) || !request->leads)
      continue;
    if (request->done.address == head.waits_for)
      result.request = request;
    if (request->waits > request->iterations_done()) {
      only = request;
      ++waited_for;
    }
  }
  // If the stream cannot tell and only one wait is left, it is at that wait.
  if (result.request == nullptr && head.waits_for == nullptr && head.kernel == nullptr && waited_for == 1)
    result.request = only;
  return result;
}

const Request* Queue::first_under_way() const {
  for (const std::vector<Request*>* requests : {&under_way_, &standing_})
    for (const Request* request : *requests)
      if (is_under_way(*request))
        return request;
  return nullptr;
}

Queue::Progress Queue::progress_of(const Request& request, uint64_t iteration) {
  if (request.starts < iteration && request.standing == nullptr)
    return Progress::kNotStarted;
  if (request.iterations_done() >= iteration)
    return Progress::kDone;
  if (request.standing != nullptr)
    return endpoint_.standing().started(request) >= iteration ? Progress::kReached : Progress::kNotStarted;
  if (request.lane != nullptr)
    return request.begun.count() >= iteration ? Progress::kReached : Progress::kEnqueued;
  if (request.exchange != nullptr)
    return progress_of_exchange(*request.exchange, iteration);
  if (request.trigger.valid()) {
    const uint64_t reached = endpoint_.triggered(request);
    return reached >= request.clearances() + iteration ? Progress::kReached : Progress::kEnqueued;
  }
  if (!request.rings.empty() && request.starts - iteration < Request::kRings) {
    const uint64_t rung = endpoint_.nic().read(shared_trigger_).value().reached();
    return rung >= request.rings[iteration % Request::kRings] ? Progress::kReached : Progress::kEnqueued;
  }
  return Progress::kUnknown;
}

// T counts rings, clear-to-sends and the other set's done word. The last two also have words, so
// the words tell how many counts are rings.
Queue::Progress Queue::progress_of_exchange(const Exchange& exchange, uint64_t iteration) {
  if (!exchange.rings)
    return Progress::kUnknown;
  uint64_t wanted = exchange.ring_value() * iteration;
  for (const Request* member : exchange.members)
    wanted += member->clearances();
  if (exchange.other != nullptr)
    wanted += exchange.other->shared.done.count();
  return endpoint_.triggered(exchange.shared) >= wanted ? Progress::kReached : Progress::kEnqueued;
}

Queue::Explanation Queue::explain(const Request& request, uint64_t iteration) {
  const Exchange* exchange = request.exchange;
  std::string text = (exchange != nullptr ? "the " + exchange->describe() : "request (" + request.describe() + ")") +
                     " waits for iteration " + std::to_string(iteration) + ": done word " +
                     of(request.iterations_done(), iteration);
  if (exchange == nullptr && request.failures > 0)
    text += ", " + std::to_string(request.failures) + " operations failed (" + endpoint_.explain_failure(request) + ")";
  const Request* const alone[] = {&request};
  const auto members = exchange != nullptr ? std::span<const Request* const>(exchange->members) : alone;
  for (const Request* member : members) {
    if (exchange != nullptr && member->failures > 0)
      text += ", operations of (" + member->describe() + ") failed (" + endpoint_.explain_failure(*member) + ")";
    else if (member->peer_starts < iteration)
      return {text + " <- " + endpoint_.explain_failure(*member)};
  }
  const Explanation found = explain_progress(request, iteration, text);
  // Checked last: the operation may have run, or the iteration completed, during the checks above.
  for (const Request* member : members)
    if (endpoint_.overflow().is_overdue(member->number, iteration))
      return {text + " <- the NIC had no free entry for an operation that is due: this process has yet to run it"};
  return request.iterations_done() < iteration ? found : Explanation{text + " <- it has completed meanwhile"};
}

Queue::Explanation Queue::explain_progress(const Request& request, uint64_t iteration, std::string text) {
  const Exchange* exchange = request.exchange;
  const bool receive = request.transfer.direction == Direction::kReceive;
  if (request.lane != nullptr)
    return explain_lane(request, iteration, text);
  if (!request.completion.valid())
    return explain_receive(request, iteration, text);
  const nic::CounterValue value = endpoint_.nic().read(request.completion).value();
  const uint64_t wanted = request.completion_value(iteration);
  if (value.reached() >= wanted)
    return {text + " <- the NIC's local atomic has not run"};
  text += exchange != nullptr ? " <- counter of messages "
          : receive           ? " <- remote-write counter "
                              : " <- write completion ";
  text += of(value.success, wanted);
  if (value.failure > 0)
    text += ", " + std::to_string(value.failure) + " failed";
  if (exchange != nullptr)
    return explain_exchange(*exchange, iteration, wanted - value.reached(), text);
  if (receive && value.reached() > request.completion_value(iteration - 1))
    return {text + " <- the message from " + rank_of(request) + " has landed in part", Missing::kPeer};
  return receive ? explain_receive(request, iteration, text) : explain_send(request, iteration, text);
}

// A lane is known to be done only once a wait has passed. That wait may be for other lanes too.
Queue::Explanation Queue::explain_lane(const Request& request, uint64_t iteration, const std::string& text) {
  const Progress progress = progress_of(request, iteration);
  if (progress == Progress::kNotStarted || progress == Progress::kEnqueued)
    return {text + not_reached(iteration)};
  return {text + " <- no GPU has told that it has carried the message: " + rank_of(request) +
              " has not started its side, or the wait is for another message too that is missing",
          Missing::kPeer};
}

Queue::Explanation Queue::explain_receive(const Request& request, uint64_t iteration, const std::string& text) {
  if (progress_of(request, iteration) == Progress::kEnqueued)
    return {text + not_reached(iteration)};
  return {text + " <- the message from " + rank_of(request) + " has not landed", Missing::kPeer};
}

Queue::Explanation Queue::explain_send(const Request& request, uint64_t iteration, std::string text) {
  const bool regular = request.trigger.valid();
  const bool standing = request.standing != nullptr;
  const bool known = standing || request.starts - iteration < Request::kRings;
  const uint64_t trigger =
      regular ? endpoint_.triggered(request)
              : endpoint_.nic().read(standing ? request.standing->trigger : shared_trigger_).value().reached();
  const uint64_t wanted = regular    ? 2 * iteration
                          : standing ? iteration - request.standing->base
                          : known    ? request.rings[iteration % Request::kRings]
                                     : shared_rings_;
  text += " <- trigger counter " + of(trigger, wanted) + (regular || standing ? "" : " (the queue's)");
  if (trigger >= wanted)
    return {text + " <- " + rank_of(request) + " has not acknowledged the write", Missing::kAnswer};
  if (regular && request.clearances() < iteration)
    text += no_clearance(request, iteration);
  if (regular && progress_of(request, iteration) != Progress::kEnqueued)
    return {text, Missing::kPeer};
  return {text + not_reached(iteration)};
}

Queue::Explanation Queue::explain_exchange(const Exchange& exchange, uint64_t iteration, uint64_t missing,
                                           std::string text) {
  if (progress_of_exchange(exchange, iteration) == Progress::kEnqueued)
    return {text + not_reached(iteration)};
  const std::vector<const Request*> uncleared = missing_clearances(exchange, iteration);
  for (const Request* member : uncleared)
    text += no_clearance(*member, iteration) + " (" + member->describe() + ")";
  if (!uncleared.empty())
    return {text, Missing::kPeer, uncleared.front()};
  text += " <- " + std::to_string(missing) + " missing";
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
  const bool at_ring = request.ready && request.clearance != Clearance::kImplied;
  const bool fired = at_ring ? reached : reached && missing_clearances(exchange, iteration).empty();
  if (endpoint_.overflow().is_overdue(request.number, iteration))
    return explain(request, iteration);
  if (request.transfer.direction == Direction::kReceive && reached)
    return {text + " <- the message from " + rank_of(request) + " has not landed", Missing::kPeer, &request};
  if (request.transfer.direction == Direction::kSend && fired)
    return {text + " <- " + rank_of(request) + " has not acknowledged the write", Missing::kAnswer, &request};
  return explain(request, iteration);
}

}  // namespace lanyard::core
