#include "api/stall_inquiry.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "api/context.h"

namespace lanyard::api {

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
  if (std::any_of(asked_.begin(), asked_.end(), [&](const Asked& each) { return each.hop == hop; })) {
    ask_cycle_again();
    return;
  }
  if (asked_.size() >= kMostHops) {
    lines_.push_back("... (no more than " + std::to_string(kMostHops) + " processes are asked)");
    return;
  }
  asked_.push_back({.hop = hop, .next = {}});
  ask(hop);
}

// The last process waits for one that was asked before. Asks the processes from that one on again.
void StallInquiry::ask_cycle_again() {
  const StallHop first = *asked_.back().next;
  asked_.erase(asked_.begin(),
               std::find_if(asked_.begin(), asked_.end(), [&](const Asked& each) { return each.hop == first; }));
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
  if (std::all_of(asked_.begin(), asked_.end(), [](const Asked& each) { return each.is_done_here; })) {
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
  send(context_, hop.rank,
       {.kind = Header::Kind::kQuestion, .id = id_, .has_next = 0, .is_done_here = 0, .has_completed = 0, .next = {}},
       std::as_bytes(std::span(&waiting_->question, 1)));
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
  const auto asker = std::find_if(inquiries.begin(), inquiries.end(), [&](const StallInquiry* each) {
    return each->waiting_ && each->waiting_->rank == from && each->id_ == header.id;
  });
  if (asker == inquiries.end())
    return;  // the answer is late
  StallAnswer answer{.text = std::string(reinterpret_cast<const char*>(rest.data()), rest.size()),
                     .next = {},
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
