#include "api/stall_inquiry.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "api/context.h"

namespace lanyard::api {

namespace {

// On the wire: a question is a Header and a StallQuestion, an answer a Header, the next hop where there is one, and
// text.
struct Header {
  enum class Kind : uint64_t { kQuestion, kAnswer } kind = Kind::kQuestion;
  uint64_t id = 0;  // of the question that is answered
  uint64_t has_next = 0;
  StallHop next;
};

std::string name(uint32_t rank) { return "rank " + std::to_string(rank); }

void tell(Context& context, uint32_t rank, const Header& header, std::span<const std::byte> rest) {
  std::vector<std::byte> message(sizeof header + rest.size());
  std::memcpy(message.data(), &header, sizeof header);
  if (!rest.empty())
    std::memcpy(message.data() + sizeof header, rest.data(), rest.size());
  context.plane().tell(rank, message);
}

}  // namespace

StallInquiry::StallInquiry(Context& context, StallAnswer first)
    : context_(context), lines_{first.text}, first_asked_(first.next) {
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
    lines_.push_back(name(rank) + " has not answered for " + std::to_string(kAnswerTime.count()) +
                     " ms: its process is stopped, or its network card is not served");
    waiting_.reset();
  }
  return !waiting_;
}

void StallInquiry::follow(const StallAnswer& answer) {
  waiting_.reset();
  if (!answer.next)
    return;
  const StallHop& hop = *answer.next;
  if (std::find(asked_.begin(), asked_.end(), hop) != asked_.end()) {
    conclude_circle(hop);
    return;
  }
  if (asked_.size() >= kMostHops) {
    lines_.push_back("... (" + std::to_string(kMostHops) + " processes were asked)");
    return;
  }
  asked_.push_back(hop);
  ask(hop);
}

// From where `hop` was asked first each waits for the next, and the last for that one again.
void StallInquiry::conclude_circle(const StallHop& hop) {
  conclusion_ = "a deadlock: ";
  for (auto each = std::find(asked_.begin(), asked_.end(), hop); each != asked_.end(); ++each)
    conclusion_ += name(each->rank) + " waits for ";
  conclusion_ += name(hop.rank) + ", each for the next";
  if (hop.question.kind == StallQuestion::Kind::kMatch)
    conclusion_ += ": blocking matches in opposite orders; use MPIX_Matchall or MPIX_Imatch";
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
  waiting_ = hop;
  since_ = Clock::now();
  id_ = waiting_->question.id = context_.next_question();
  tell(context_, hop.rank, {.kind = Header::Kind::kQuestion, .id = id_, .has_next = 0, .next = {}},
       std::as_bytes(std::span(&waiting_->question, 1)));
}

void StallInquiry::take(uint32_t from, const StallAnswer& answer) {
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
    const Header reply{.kind = Header::Kind::kAnswer,
                       .id = question.id,
                       .has_next = answer.next ? uint64_t{1} : 0,
                       .next = answer.next.value_or(StallHop())};
    tell(context, from, reply, std::as_bytes(std::span(answer.text)));
    return;
  }
  const auto& inquiries = context.inquiries();
  const auto asker = std::find_if(inquiries.begin(), inquiries.end(), [&](const StallInquiry* each) {
    return each->waiting_ && each->waiting_->rank == from && each->id_ == header.id;
  });
  if (asker == inquiries.end())
    return;  // it was not waited for so long
  StallAnswer answer{.text = std::string(reinterpret_cast<const char*>(rest.data()), rest.size()), .next = {}};
  if (header.has_next != 0 && header.next.rank < context.size())
    answer.next = header.next;
  (*asker)->take(from, answer);
}

}  // namespace lanyard::api
