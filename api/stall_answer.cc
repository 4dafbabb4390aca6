// The answers to stall inquiries: how a process describes itself to the processes that wait for it.
#include <dlfcn.h>

#include <algorithm>
#include <sstream>

#include "api/blocking_call.h"
#include "api/context.h"
#include "api/queue.h"
#include "api/stall_inquiry.h"
#include "transport/core/exchange.h"

namespace lanyard::api {

namespace {

using core::Direction;
using core::Queue;
using core::Request;

// Joins the first kMost items, and counts the others.
class List {
 public:
  void add(const std::string& thing) {
    if (count_++ < kMost)
      text_ += (text_.empty() ? "" : "; ") + thing;
  }
  bool empty() const { return count_ == 0; }
  std::string text() const {
    return text_ + (count_ > kMost ? "; and " + std::to_string(count_ - kMost) + " more" : "");
  }

 private:
  static constexpr size_t kMost = 12;
  std::string text_;
  size_t count_ = 0;
};

StallHop hop_to_peer(const Request& request, uint64_t iteration) {
  return {.rank = request.matched_nic,
          .question = {.kind = StallQuestion::Kind::kIteration,
                       .number = request.matched_number,
                       .iteration = iteration,
                       .communicator = 0}};
}

std::string name_of(lanyard_queue& queue) { return "queue " + std::to_string(queue.core->number()); }

// Names the kernel's function, its file and offset (for addr2line), and how long it has been seen
// to run.
std::string describe_kernel(const lanyard_queue& queue, const Queue::Head& head) {
  std::string text = "a kernel";
  Dl_info info{};
  if (::dladdr(const_cast<void*>(head.kernel), &info) != 0 && info.dli_fname != nullptr) {
    const std::string file = info.dli_fname;
    std::ostringstream place;
    if (info.dli_sname != nullptr)
      place << info.dli_sname << ", ";
    place << file.substr(file.rfind('/') + 1) << "+0x" << std::hex
          << static_cast<const char*>(head.kernel) - static_cast<const char*>(info.dli_fbase);
    text += " (" + place.str() + ")";
  }
  std::chrono::steady_clock::duration ran{};
  if (queue.kernel && queue.kernel->item == head.item)
    ran = std::chrono::steady_clock::now() - queue.kernel->since;
  return text + " that has run for " + in_seconds(ran) + " or longer";
}

// The text of the explanation, and the next process to ask.
StallAnswer answer_of(const Queue::Explanation& why, const Request& request, uint64_t iteration) {
  StallAnswer answer{.text = why.text, .next = {}};
  const Request& about = why.about != nullptr ? *why.about : request;
  if (why.missing == Queue::Missing::kPeer)
    answer.next = hop_to_peer(about, iteration);
  else if (why.missing == Queue::Missing::kAnswer)
    answer.next = StallHop{.rank = about.matched_nic, .question = {.kind = StallQuestion::Kind::kPresence}};
  if (about.exchange == nullptr || !answer.next || about.transfer.direction != Direction::kReceive)
    return answer;
  for (const Request* member : about.exchange->members)
    if (member != &about && member->transfer.direction == Direction::kReceive && member->matched_peer != core::kNobody)
      answer.others.push_back(hop_to_peer(*member, iteration));
  return answer;
}

// The stream has run everything, but failures may still be reported.
StallAnswer describe_unheard(const Queue::Unheard& unheard) {
  StallAnswer answer{.text = "has run everything, but " + unheard.text, .next = {}};
  if (unheard.receive != nullptr)
    answer.next = StallHop{.rank = unheard.receive->matched_nic, .question = {.kind = StallQuestion::Kind::kPresence}};
  return answer;
}

// What a queue's stream does or waits for.
StallAnswer describe_head(lanyard_queue& queue) {
  const Queue::Head head = queue.core->head();
  if (head.kernel != nullptr)
    return {.text = "runs " + describe_kernel(queue, head), .next = {}};
  const Request* request = head.request != nullptr ? head.request : queue.core->first_under_way();
  if (request == nullptr && !queue.core->unheard().text.empty())
    return describe_unheard(queue.core->unheard());
  if (request == nullptr)
    return {.text = "runs something, or waits for something that is not Lanyard's", .next = {}};
  const uint64_t iteration = request->iterations_done() + 1;
  StallAnswer answer = answer_of(queue.core->explain(*request, iteration), *request, iteration);
  answer.text = (head.request != nullptr ? "waits: " : "has this under way: ") + answer.text;
  return answer;
}

// The blocking call that the program entered last.
StallAnswer describe_program(Context& context) LANYARD_REQUIRES(context_locked) {
  if (context.blocking_calls().empty())
    return {.text = "its program is in no blocking call of Lanyard", .next = {}};
  const BlockingCall& call = *context.blocking_calls().back();
  StallAnswer inside = call.subject().queue != nullptr ? describe_head(*call.subject().queue)
                                                       : describe_match(context, call.subject().records);
  if (!inside.text.empty())
    inside.text = call.subject().queue != nullptr ? ", whose stream " + inside.text : " (" + inside.text + ")";
  return {.text = call.describe() + inside.text, .next = inside.next};
}

lanyard_queue* queue_of(Context& context, const Request& request) LANYARD_REQUIRES(context_locked) {
  for (const auto& queue : context.queues())
    if (queue->core != nullptr && queue->core->number() == request.queue_number)
      return queue.get();
  return nullptr;
}

StallAnswer answer_iteration(Context& context, const StallQuestion& question) LANYARD_REQUIRES(context_locked) {
  const Request* request = context.endpoint().find(question.number);
  if (request == nullptr || !request->matched() || !request->done.valid())
    return {.text = "it has freed its request", .next = {}};
  const std::string which = std::to_string(question.iteration);
  const std::string what = "its request (" + request->describe() + ")";
  if (request->failures > 0)
    return {.text = "operations of " + what + " failed: " + context.endpoint().explain_failure(*request), .next = {}};
  lanyard_queue* queue = queue_of(context, *request);
  if (queue == nullptr && request->starts >= question.iteration)
    return {.text = "start " + which + " of " + what + " was enqueued on a queue that has been freed since",
            .next = {}};
  const Queue::Progress progress =
      queue == nullptr ? Queue::Progress::kNotStarted : queue->core->progress_of(*request, question.iteration);
  if (progress == Queue::Progress::kNotStarted) {
    const StallAnswer program = describe_program(context);
    return {.text = "it has enqueued " + std::to_string(request->starts) + " starts of " + what + "; start " + which +
                    " has not been enqueued; " + program.text,
            .next = program.next};
  }
  if (progress == Queue::Progress::kDone)
    return {.text = "iteration " + which + " of " + what + " has completed here", .next = {}, .has_completed = true};
  if (progress == Queue::Progress::kReached) {
    StallAnswer answer =
        answer_of(queue->core->explain_part(*request, question.iteration), *request, question.iteration);
    answer.text = "its stream has reached start " + which + ": " + answer.text;
    answer.is_done_here = true;
    return answer;
  }
  const StallAnswer head = describe_head(*queue);
  const char* reached =
      progress == Queue::Progress::kEnqueued ? ", whose stream has not reached it and " : ", whose stream ";
  return {.text = "start " + which + " of " + what + " is enqueued on its " + name_of(*queue) + reached + head.text,
          .next = head.next};
}

StallAnswer answer_match(Context& context, uint32_t from, const StallQuestion& question)
    LANYARD_REQUIRES(context_locked) {
  List unmatched;
  context.endpoint().for_each_request([&](const Request& request) {
    const core::Transfer& transfer = request.transfer;
    if (request.state != Request::State::kMatching || transfer.communicator != question.communicator)
      return;
    const bool is_send = transfer.direction == Direction::kSend;
    if (is_send == (question.is_send != 0))
      return;
    if (is_send ? transfer.peer_nic == from : (transfer.peer == question.peer || transfer.peer == core::kAnySource))
      unmatched.add(request.describe());
  });
  const std::string wanted = question.is_send != 0 ? "receives" : "sends";
  const std::string text =
      unmatched.empty()
          ? "it is matching no " + wanted + " with rank " + std::to_string(question.peer) + " in this communicator"
          : "it is matching these " + wanted + " with rank " + std::to_string(question.peer) +
                " (compare their tags): " + unmatched.text();
  const StallAnswer program = describe_program(context);
  // If it has candidates, their tags are the cause, not the call that its program is in.
  return {.text = text + "; " + program.text, .next = unmatched.empty() ? program.next : std::nullopt};
}

}  // namespace

void watch_kernels(Context& context) {
  for (const auto& queue : context.queues()) {
    const Queue::Head head = queue->core->head();
    if (head.kernel == nullptr)
      queue->kernel.reset();
    else if (!queue->kernel || queue->kernel->item != head.item)
      queue->kernel = {head.item, std::chrono::steady_clock::now()};
  }
}

std::string in_seconds(std::chrono::steady_clock::duration time) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

StallAnswer answer_question(Context& context, uint32_t from, const StallQuestion& question) {
  switch (question.kind) {
    case StallQuestion::Kind::kIteration: return answer_iteration(context, question);
    case StallQuestion::Kind::kMatch: return answer_match(context, from, question);
    case StallQuestion::Kind::kProgram: return describe_program(context);
    case StallQuestion::Kind::kPresence: return {.text = describe_program(context).text, .next = {}};
  }
  return {.text = "it does not understand the question; do all ranks use the same version of Lanyard?", .next = {}};
}

StallAnswer describe_queue(lanyard_queue& queue) {
  StallAnswer head = describe_head(queue);
  std::string text = name_of(queue) + ": its stream " + head.text;
  const std::string rest = queue.core->explain_stall();
  if (queue.core->head().request == nullptr || rest.find('\n') != std::string::npos) {
    text += "\n  under way on it:";
    std::istringstream lines(rest);
    for (std::string line; std::getline(lines, line);)
      text += "\n    " + line;
  }
  text += "\n  (the stream has run " + std::to_string(queue.stream().executed()) + " items)";
  return {.text = text, .next = head.next, .others = head.others};
}

StallAnswer describe_match(Context& context, const std::vector<const RequestRecord*>& records) {
  List unmatched;
  const Request* first = nullptr;
  for (const RequestRecord* record : records) {
    if (!record->matching())
      continue;
    unmatched.add(record->core->describe());
    if (first == nullptr && record->core->transfer.peer != core::kAnySource)
      first = record->core;
  }
  StallAnswer answer;
  if (!unmatched.empty())
    answer.text = "not matched by the peer: " + unmatched.text();
  if (first == nullptr)
    return answer;
  const core::Transfer& transfer = first->transfer;
  const bool is_send = transfer.direction == Direction::kSend;
  const core::MatchCard* offer = context.matcher().unmatched_offer(transfer.peer_nic, transfer.communicator);
  if (offer != nullptr)
    answer.text += "; rank " + std::to_string(transfer.peer_nic) + " offers a send with tag " +
                   std::to_string(offer->tag) + ", " + std::to_string(offer->bytes) +
                   " B, for which no receive has been given to a matching call here; compare the tags";
  answer.next = StallHop{.rank = transfer.peer_nic,
                         .question = {.kind = StallQuestion::Kind::kMatch,
                                      .number = first->number,
                                      .communicator = transfer.communicator,
                                      .peer = transfer.rank,
                                      .is_send = is_send ? 1u : 0u}};
  return answer;
}

}  // namespace lanyard::api
