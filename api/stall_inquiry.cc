#include "api/stall_inquiry.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

#include "api/blocking_call.h"
#include "api/context.h"
#include "api/queue.h"
#include "transport/core/exchange.h"

namespace lanyard::api {

// ---- Answers: how a process describes itself to the processes that wait for it

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
  return {
      .rank = request.matched_nic,
      .question = {.kind = StallQuestion::Kind::kIteration, .number = request.matched_number, .iteration = iteration}};
}

StallHop ask_presence(const Request& request) {
  return {.rank = request.matched_nic, .question = {.kind = StallQuestion::Kind::kPresence}};
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
  StallAnswer answer{.text = why.text};
  const Request& about = why.about != nullptr ? *why.about : request;
  if (why.missing == Queue::Missing::kPeer)
    answer.next = hop_to_peer(about, iteration);
  else if (why.missing == Queue::Missing::kAnswer)
    answer.next = ask_presence(about);
  if (about.exchange == nullptr || !answer.next || about.transfer.direction != Direction::kReceive)
    return answer;
  for (const Request* member : about.exchange->members)
    if (member != &about && member->transfer.direction == Direction::kReceive && member->matched_peer != core::kNobody)
      answer.others.push_back(hop_to_peer(*member, iteration));
  return answer;
}

// What a queue's stream does or waits for.
StallAnswer describe_head(lanyard_queue& queue) {
  const Queue::Head head = queue.core->head();
  if (head.kernel != nullptr)
    return {.text = "runs " + describe_kernel(queue, head)};
  const Request* request = head.request != nullptr ? head.request : queue.core->first_under_way();
  if (request == nullptr) {
    // The stream may have run everything, but failures may still be reported.
    const Queue::Unheard unheard = queue.core->unheard();
    if (unheard.text.empty())
      return {.text = "runs something, or waits for something that is not Lanyard's"};
    StallAnswer answer{.text = "has run everything, but " + unheard.text};
    if (unheard.receive != nullptr)
      answer.next = ask_presence(*unheard.receive);
    return answer;
  }
  const uint64_t iteration = request->iterations_done() + 1;
  StallAnswer answer = answer_of(queue.core->explain(*request, iteration), *request, iteration);
  answer.text = (head.request != nullptr ? "waits: " : "has this under way: ") + answer.text;
  return answer;
}

// The blocking call that the program entered last.
StallAnswer describe_program(Context& context) LANYARD_REQUIRES(context_locked) {
  if (context.blocking_calls().empty())
    return {.text = "its program is in no blocking call of Lanyard"};
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
    return {.text = "it has freed its request"};
  const std::string which = std::to_string(question.iteration);
  const std::string what = "its request (" + request->describe() + ")";
  if (request->failures > 0)
    return {.text = "operations of " + what + " failed: " + context.endpoint().explain_failure(*request)};
  lanyard_queue* queue = queue_of(context, *request);
  if (queue == nullptr && request->starts >= question.iteration)
    return {.text = "start " + which + " of " + what + " was enqueued on a queue that has been freed since"};
  const Queue::Progress progress =
      queue == nullptr ? Queue::Progress::kNotStarted : queue->core->progress_of(*request, question.iteration);
  if (progress == Queue::Progress::kNotStarted) {
    const StallAnswer program = describe_program(context);
    return {.text = "it has enqueued " + std::to_string(request->starts) + " starts of " + what + "; start " + which +
                    " has not been enqueued; " + program.text,
            .next = program.next};
  }
  if (progress == Queue::Progress::kDone)
    return {.text = "iteration " + which + " of " + what + " has completed here", .has_completed = true};
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
    case StallQuestion::Kind::kPresence: return {.text = describe_program(context).text};
  }
  return {.text = "it does not understand the question; do all ranks use the same version of Lanyard?"};
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

// ---- Questions

namespace {

// On the wire, a question is a Header and a StallQuestion. An answer is a Header and text.
struct Header {
  enum class Kind : uint64_t { kQuestion, kAnswer } kind = Kind::kQuestion;
  uint64_t id = 0;  // of the question; chosen by the asking process
  uint32_t has_next = 0;
  uint32_t is_done_here = 0;
  uint64_t has_completed = 0;
  StallHop next;
  core::Introduction introduction{};  // of the next one: the asker may not know it
};

std::string name(uint32_t rank) { return "rank " + std::to_string(rank); }

void send(Context& context, uint32_t rank, const Header& header, std::span<const std::byte> rest) {
  std::vector<std::byte> message(sizeof header + rest.size());
  std::memcpy(message.data(), &header, sizeof header);
  if (!rest.empty())
    std::memcpy(message.data() + sizeof header, rest.data(), rest.size());
  context.plane().tell(rank, message);
}

}  // namespace

StallInquiry::StallInquiry(Context& context, StallAnswer first)
    : context_(context), lines_{first.text}, first_asked_(first.next), others_(first.others) {
  context_.inquiries().push_back(this);
  follow(first);
}

StallInquiry::~StallInquiry() { std::erase(context_.inquiries(), this); }

bool StallInquiry::finished() {
  if (!waiting_)
    return true;
  const uint32_t rank = waiting_->rank;
  if (context_.plane().lost(rank)) {
    lines_.push_back(context_.plane().why_lost(rank));
    waiting_.reset();
  } else if (Clock::now() - since_ > kAnswerTime) {
    lines_.push_back(
        name(rank) + " has not answered for " + std::to_string(kAnswerTime.count()) +
        " ms: its process is stopped or gets no CPU time, or the network between the two fails; look at that process");
    waiting_.reset();
  }
  return !waiting_;
}

// If the process has done its part for an exchange, another peer's message may be the missing one.
std::optional<StallHop> StallInquiry::next_after(const StallAnswer& answer) {
  const bool has_done_its_part = answer.has_completed || (answer.is_done_here && answer.next &&
                                                          answer.next->question.kind == StallQuestion::Kind::kPresence);
  if (asked_.empty() || !has_done_its_part || others_.empty())
    return answer.next;
  asked_.clear();  // starts a new chain
  const StallHop other = others_.front();
  others_.erase(others_.begin());
  return other;
}

void StallInquiry::follow(const StallAnswer& answer) {
  waiting_.reset();
  const std::optional<StallHop> next = next_after(answer);
  if (!asked_.empty()) {
    asked_.back().next = next;
    asked_.back().is_done_here = answer.is_done_here;
  }
  if (!next)
    return;
  const StallHop& hop = *next;
  if (std::ranges::find(asked_, hop, &Asked::hop) != asked_.end())
    return ask_cycle_again();
  if (asked_.size() >= kMostHops) {
    lines_.push_back("... (no more than " + std::to_string(kMostHops) + " processes are asked)");
    return;
  }
  asked_.push_back({.hop = hop});
  ask(hop);
}

// The last process waits for one that was asked before. Asks the processes from that one on again.
void StallInquiry::ask_cycle_again() {
  const StallHop first = *asked_.back().next;
  asked_.erase(asked_.begin(), std::ranges::find(asked_, first, &Asked::hop));
  confirming_ = 0;
  ask(first);
}

void StallInquiry::confirm(const StallAnswer& answer) {
  waiting_.reset();
  if (answer.next != asked_[*confirming_].next) {
    const std::string who = name(asked_[*confirming_].hop.rank);
    lines_.push_back(who + ", asked again: " + answer.text);
    conclusion_ = who + " has moved on since it was first asked: no deadlock so far, the job may only be slow";
    return;
  }
  if (++*confirming_ < asked_.size())
    return ask(StallHop(asked_[*confirming_].hop));
  conclude_cycle();
}

void StallInquiry::conclude_cycle() {
  const StallHop& first = asked_.front().hop;
  if (std::ranges::all_of(asked_, &Asked::is_done_here)) {
    conclusion_ = "the programs of";
    for (const Asked& each : asked_)
      conclusion_ += (&each == &asked_.front() ? " " : " and ") + name(each.hop.rank);
    conclusion_ += " have done their part: a message between their NICs has not arrived; check the network";
    return;
  }
  conclusion_ = "a deadlock: ";
  for (const Asked& each : asked_)
    conclusion_ += name(each.hop.rank) + (&each == &asked_.front() ? " waits for " : ", which waits for ");
  conclusion_ += name(first.rank);
  if (first.question.kind == StallQuestion::Kind::kMatch)
    conclusion_ += ": blocking matches in opposite orders; use MPIX_Matchall or MPIX_Imatch";
  else
    conclusion_ += "; on one of them, enqueue the start before the wait that blocks it";
}

std::string StallInquiry::text() const {
  std::string text = conclusion_.empty() ? lines_.back() : conclusion_;
  if (lines_.size() == 1 && conclusion_.empty())
    return text;
  for (const std::string& line : lines_)
    text += "\n  " + std::string(&line == &lines_.front() ? "" : "<- ") + line;
  return text;
}

void StallInquiry::ask(const StallHop& hop) {
  if (hop.rank == context_.rank())
    return take(hop.rank, answer_question(context_, hop.rank, hop.question));
  if (!context_.plane().knows(hop.rank)) {
    lines_.push_back(name(hop.rank) +
                     " is not known to this process: it has not come to a match with this process yet, its match has "
                     "failed there, or its program is not linked with Lanyard");
    return;
  }
  waiting_ = hop;
  since_ = Clock::now();
  id_ = context_.next_question();
  Header header;
  header.id = id_;
  send(context_, hop.rank, header, std::as_bytes(std::span(&waiting_->question, 1)));
}

void StallInquiry::take(uint32_t from, const StallAnswer& answer) {
  if (confirming_)
    return confirm(answer);
  lines_.push_back(name(from) + ": " + answer.text);
  follow(answer);
}

void StallInquiry::on_message(Context& context, uint32_t from, std::span<const std::byte> message) {
  Header header;
  if (message.size() < sizeof header)
    return;
  std::memcpy(&header, message.data(), sizeof header);
  const std::span rest = message.subspan(sizeof header);
  if (header.kind == Header::Kind::kQuestion) {
    StallQuestion question;
    if (rest.size() != sizeof question)
      return;
    std::memcpy(&question, rest.data(), sizeof question);
    StallAnswer answer = answer_question(context, from, question);
    if (answer.text.size() > kLongestText)
      answer.text.resize(kLongestText);
    Header reply{.kind = Header::Kind::kAnswer,
                 .id = header.id,
                 .has_next = answer.next ? 1u : 0u,
                 .is_done_here = answer.is_done_here ? 1u : 0u,
                 .has_completed = answer.has_completed ? 1u : 0u,
                 .next = answer.next.value_or(StallHop())};
    if (answer.next)
      reply.introduction = context.plane().introduction_of(answer.next->rank).value_or(core::Introduction());
    send(context, from, reply, std::as_bytes(std::span(answer.text)));
    return;
  }
  const auto& inquiries = context.inquiries();
  const auto asker = std::ranges::find_if(inquiries, [&](const StallInquiry* each) {
    return each->waiting_ && each->waiting_->rank == from && each->id_ == header.id;
  });
  if (asker == inquiries.end())
    return;  // the answer is late
  StallAnswer answer{.text = std::string(reinterpret_cast<const char*>(rest.data()), rest.size()),
                     .is_done_here = header.is_done_here != 0,
                     .has_completed = header.has_completed != 0};
  if (header.has_next != 0 && header.next.rank < context.size()) {
    answer.next = header.next;
    if (header.introduction.address_bytes > 0)
      context.plane().meet(header.next.rank, header.introduction);
  }
  (*asker)->take(from, answer);
}

}  // namespace lanyard::api
