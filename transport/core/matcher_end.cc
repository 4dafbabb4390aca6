// The part of Matcher for the end of pairs and the results of sends (api/doc/protocol.md, P3, P14).
#include <array>

#include "transport/core/matcher.h"

namespace lanyard::core {

MatchCard Matcher::make_card(MatchCard::Kind kind, uint64_t writer, uint64_t reader, uint64_t starts) const {
  return {.kind = kind, .from_nic = endpoint_.self(), .writer = writer, .reader = reader, .starts = starts};
}

// The card that tells the peer that this side ends; none if there is no peer, or it has ended.
std::optional<MatchCard> Matcher::last_card(const Request& request) const {
  if (!request.matched() || request.matched_peer == kNobody || request.peer_starts != UINT64_MAX)
    return std::nullopt;
  const bool may_be_lost = request.lane == nullptr && endpoint_.failures().lost() > request.lost_before;
  const bool failed = request.failures > 0 || may_be_lost;
  return make_card(failed ? MatchCard::Kind::kFailed : MatchCard::Kind::kFreed, request.number, request.matched_number,
                   endpoint_.started(request));
}

Status Matcher::free(Request& request) {
  endpoint_.collect_failures();  // last_card() depends on them
  const std::optional<MatchCard> card = last_card(request);
  const uint32_t peer = request.matched_nic;
  const bool may_have_failed =
      endpoint_.nic().caps().failures_lag && request.lane == nullptr && request.transfer.direction == Direction::kSend;
  const uint64_t lost = request.lost_before;
  LANYARD_RETURN_IF_ERROR(endpoint_.free_request(&request));
  if (card && card->kind == MatchCard::Kind::kFreed && may_have_failed) {
    endpoint_.failures().watch(card->writer, lost);
    partings_.push_back({peer, *card});
    talk();
  } else if (card) {
    (void)courier_.send(peer, *card);  // an error: the peer is lost
  }
  tell_parted();
  return {};
}

void Matcher::tell_parted(const Endpoint::Parted& lane) {
  MatchCard card = make_card(MatchCard::Kind::kParted, 0, lane.peer_request);
  card.peer_lane = lane.peer_lane;
  (void)courier_.send(lane.nic, card);  // an error: the peer is lost
}

void Matcher::tell_parted() {
  while (const std::optional<Endpoint::Parted> lane = endpoint_.take_parted())
    tell_parted(*lane);
}

void Matcher::tell_failures() {
  endpoint_.collect_failures();
  while (const Request* request = endpoint_.failures().take_unannounced())
    if (const std::optional<MatchCard> card = last_card(*request))
      (void)courier_.send(request->matched_nic, *card);
}

// Returns the matched request that a card is for; null if it has been freed.
Request* Matcher::matched_with(const MatchCard& card) {
  Request* request = endpoint_.find(card.reader);
  const bool fits = request != nullptr && request->matched() && request->matched_peer != kNobody &&
                    request->matched_nic == card.from_nic && request->matched_number == card.writer;
  return fits ? request : nullptr;
}

void Matcher::ended(const MatchCard& card) {
  if (Request* request = matched_with(card))
    endpoint_.end_peer(*request, card.starts, card.kind == MatchCard::Kind::kFailed);
}

// ---- Results of sends

void Matcher::talk() {
  tell_failures();
  while (Request* receive = endpoint_.take_question())
    ask(*receive);
  std::erase_if(answers_, [this](uint64_t number) { return answer(number); });
  std::erase_if(partings_, [this](Parting& parting) { return part(parting); });
  std::erase_if(unreachable_, [this](uint32_t nic) {
    // A peer that cannot be reached but lives may still write to our lanes.
    const bool ended = endpoint_.nic().is_lost(nic) && endpoint_.nic().why_lost(nic) == nic::kHasEnded;
    if (ended)
      endpoint_.part_lanes(nic);
    return ended;
  });
  tell_parted();
}

// A peer that has failed has already told so, and does not answer.
void Matcher::ask(Request& receive) {
  const MatchCard card = make_card(MatchCard::Kind::kAsk, receive.number, receive.matched_number, receive.asked);
  if (receive.peer_failed || !courier_.send(receive.matched_nic, card).ok())
    endpoint_.give_up_asking(receive);
}

// If the send is freed or has failed, its kFreed or kFailed card is the answer.
void Matcher::asked(const MatchCard& card) {
  Request* send = matched_with(card);
  if (send == nullptr || send->transfer.direction != Direction::kSend || card.starts <= send->asked)
    return;
  if (send->asked <= send->assured)
    answers_.push_back(send->number);
  send->asked = card.starts;
}

bool Matcher::answer(uint64_t number) {
  Request* send = endpoint_.find(number);
  if (send == nullptr || send->failures > 0)
    return true;
  // Read the end first, then failures: a failure counts before its start ends or, if
  // caps().failures_lag, before confirms() returns true (N13).
  const std::array<nic::ContextStarts, 1> asked{{{number, send->asked}}};
  const bool over = endpoint_.has_sent(*send, send->asked) && endpoint_.nic().confirms(asked);
  tell_failures();
  if (send->failures == 0 && endpoint_.failures().lost() > send->lost_before) {
    endpoint_.failures().add(*send, Code::kExhausted);
    tell_failures();
  }
  if (send->failures > 0)
    return true;
  if (!over)
    return false;
  send->assured = send->asked;
  (void)courier_.send(send->matched_nic,
                      make_card(MatchCard::Kind::kSound, send->number, send->matched_number, send->asked));
  return true;
}

bool Matcher::part(Parting& parting) {
  const uint64_t number = parting.card.writer;
  const std::array<nic::ContextStarts, 1> all{{{number}}};
  const bool confirmed = endpoint_.nic().confirms(all);
  endpoint_.collect_failures();
  const bool failed = endpoint_.failures().has_failed(number);
  if (!confirmed && !failed)
    return false;
  endpoint_.failures().stop_watching(number);
  if (failed)
    parting.card.kind = MatchCard::Kind::kFailed;
  (void)courier_.send(parting.peer, parting.card);
  return true;
}

}  // namespace lanyard::core
