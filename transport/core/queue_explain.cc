// The part of Queue that says what it waits for. It tells what this process can know, and nothing else: what the peer
// has or has not done is the peer's to say (api/stall_inquiry.h asks it).
#include <algorithm>

#include "transport/core/queue.h"

namespace lanyard::core {

namespace {

std::string of(uint64_t value, uint64_t wanted) { return std::to_string(value) + " of " + std::to_string(wanted); }
std::string rank_of(const Request& request) { return "rank " + std::to_string(request.matched_nic); }
// One of an exchange does for all.
bool speaks(const Request& request) { return request.exchange == nullptr || request.exchange->lead == &request; }

}  // namespace

std::string Queue::explain_stall() {
  std::string text;
  for (const std::vector<Request*>* requests : {&under_way_, &standing_})
    for (const Request* request : *requests)
      if (is_under_way(*request) && speaks(*request))
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
  Head result{.request = nullptr, .iteration = 0, .kernel = head.kernel, .item = head.item};
  const Request* only = nullptr;
  size_t waited_for = 0;
  for (const Request* request : under_way_) {
    if (!is_under_way(*request) || !speaks(*request))
      continue;
    if (request->done.address == head.waits_for)
      result.request = request;
    if (request->waits > request->iterations_done()) {
      only = request;
      ++waited_for;
    }
  }
  // A stream that cannot tell: where one wait alone is left there is no doubt.
  if (result.request == nullptr && head.waits_for == nullptr && head.kernel == nullptr && waited_for == 1)
    result.request = only;
  if (result.request != nullptr)
    result.iteration = result.request->iterations_done() + 1;
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
    return request.begun.read() - request.begun_base >= iteration ? Progress::kReached : Progress::kEnqueued;
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

Queue::Explanation Queue::explain(const Request& request, uint64_t iteration) {
  if (request.exchange != nullptr)
    return explain_exchange(request, iteration);
  const uint64_t done = request.iterations_done();
  const bool receive = request.transfer.direction == Direction::kReceive;
  std::string text = "request (" + request.describe() + ") waits for iteration " + std::to_string(iteration) +
                     ": done word " + of(done, iteration);
  if (request.failures > 0)
    text += ", " + std::to_string(request.failures) + " operations failed (" + endpoint_.explain_failure(request) + ")";
  if (request.peer_starts < iteration)
    return {text + " <- " + endpoint_.explain_failure(request), Missing::kNothing};
  if (request.lane != nullptr)
    return explain_lane(request, iteration, text);
  if (!request.completion.valid()) {
    const Explanation rest = explain_receive(request, iteration);
    return {text + rest.text, rest.missing};
  }
  const nic::CounterValue value = endpoint_.nic().read(request.completion).value();
  const uint64_t wanted = request.completion_value(iteration);
  if (value.reached() >= wanted)
    return {text + kAtomicMissing, Missing::kNothing};
  text += (receive ? " <- remote-write counter " : " <- write completion ") + of(value.success, wanted);
  if (value.failure > 0)
    text += ", " + std::to_string(value.failure) + " failed";
  if (receive && value.reached() > request.completion_value(iteration - 1))
    return {text + " <- the message from " + rank_of(request) + " has landed in part", Missing::kPeer};
  const Explanation rest = receive ? explain_receive(request, iteration) : explain_send(request, iteration);
  return {text + rest.text, rest.missing};
}

// What is done is told when a wait has passed, which may be for other lanes too.
Queue::Explanation Queue::explain_lane(const Request& request, uint64_t iteration, const std::string& text) {
  const Progress progress = progress_of(request, iteration);
  if (progress == Progress::kNotStarted || progress == Progress::kEnqueued)
    return {text + " <- this stream has not reached start " + std::to_string(iteration), Missing::kNothing};
  return {text + " <- no GPU has told that it has carried the message: " + rank_of(request) +
              " has not started its side, or the wait is for another message too that is missing",
          Missing::kPeer};
}

Queue::Explanation Queue::explain_receive(const Request& request, uint64_t iteration) {
  if (progress_of(request, iteration) == Progress::kEnqueued)
    return {" <- this stream has not reached start " + std::to_string(iteration), Missing::kNothing};
  return {" <- the message from " + rank_of(request) + " has not landed", Missing::kPeer};
}

Queue::Explanation Queue::explain_send(const Request& request, uint64_t iteration) {
  const std::string which = std::to_string(iteration);
  const Explanation unacknowledged{" <- " + rank_of(request) + " has not acknowledged the write", Missing::kAnswer};
  if (request.trigger.valid()) {
    const uint64_t trigger = endpoint_.triggered(request);
    const std::string text = " <- trigger counter " + of(trigger, 2 * iteration);
    if (trigger >= 2 * iteration)
      return {text + unacknowledged.text, unacknowledged.missing};
    const bool cleared = request.clearances() >= iteration;
    const std::string clearance =
        cleared ? "" : " <- clear-to-send " + which + " from " + rank_of(request) + " has not arrived";
    if (progress_of(request, iteration) == Progress::kEnqueued)
      return {text + clearance + " <- this stream has not reached start " + which, Missing::kNothing};
    return {text + clearance, Missing::kPeer};
  }
  const bool standing = request.standing != nullptr;
  const bool known = standing || request.starts - iteration < Request::kRings;
  const uint64_t trigger =
      endpoint_.nic().read(standing ? request.standing->trigger : shared_trigger_).value().reached();
  const uint64_t wanted = standing ? iteration - request.standing->base
                          : known  ? request.rings[iteration % Request::kRings]
                                   : shared_rings_;
  const std::string text = " <- trigger counter " + of(trigger, wanted) + (standing ? "" : " (the queue's)");
  if (trigger >= wanted)
    return {text + unacknowledged.text, unacknowledged.missing};
  return {text + " <- this stream has not reached start " + which, Missing::kNothing};
}

}  // namespace lanyard::core
