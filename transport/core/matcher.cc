#include "transport/core/matcher.h"

#include <algorithm>
#include <optional>

#include "transport/base/check.h"

namespace lanyard::core {

namespace {

void fail(Endpoint& endpoint, Request& request, Status why) {
  endpoint.close_resources(request);
  request.match_error = std::move(why);
  request.state = Request::State::kFresh;
}

Status differ(Strategy mine, uint32_t others) {
  return {Code::kInvalidArgument, std::string("this process follows the strategy ") + strategy_name(mine) +
                                      " and its peer " + strategy_name(static_cast<Strategy>(others)) +
                                      ": set LANYARD_STRATEGY to the same value on all ranks"};
}

Status key_of(Endpoint& endpoint, nic::RegionId region, nic::RemoteKey& key) {
  LANYARD_ASSIGN_OR_RETURN(key, endpoint.nic().key(region));
  return {};
}

// The number of the request's exchange if it has two sets, else 0.
uint64_t set_number(const Request& request) {
  return request.exchange != nullptr && request.exchange->other != nullptr ? request.exchange->number : 0;
}

Status too_long(uint64_t sent, uint64_t received) {
  return {Code::kTruncated,
          "the send has " + std::to_string(sent) + " bytes and its receive has room for " + std::to_string(received)};
}

// Gives the receive a trigger of its own if the sender's trigger also counts the clear-to-sends of
// other receivers. So a later clear-to-send can be cancelled (P9).
Status open_trigger(Endpoint& endpoint, Request& receive, const MatchCard& offer) {
  const bool own = offer.merged != 0 && offer.ready == 0 && receive.exchange == nullptr;
  return own ? endpoint.open_trigger(receive) : Status();
}

// Fills in an offer, except for its lane.
Status write_offer(Endpoint& endpoint, const Request& send, MatchCard& card) {
  const Transfer& transfer = send.transfer;
  card.kind = MatchCard::Kind::kOffer;
  card.from_nic = endpoint.self();
  card.communicator = transfer.communicator;
  card.source = transfer.rank;
  card.tag = transfer.tag;
  card.bytes = transfer.bytes;
  card.send = send.number;
  card.ready = transfer.ready ? 1 : 0;
  card.merged = send.exchange != nullptr ? 1 : 0;
  card.strategy = static_cast<uint32_t>(endpoint.options().strategy);
  card.longest = endpoint.nic().caps().max_message_bytes;
  card.set = set_number(send);
  return send.clear_to_send.valid() ? key_of(endpoint, send.clear_to_send, card.key) : Status();
}

}  // namespace

Status Matcher::begin(Request& request) {
  if (request.state != Request::State::kFresh)
    return {Code::kInvalidState, "the request (" + request.describe() + ") is matched or being matched already"};
  const Transfer& transfer = request.transfer;
  if (transfer.peer == kNobody) {
    endpoint_.bind_to_nobody(request);
    return {};
  }
  if (transfer.peer != kAnySource)
    if (std::optional<std::string> why = courier_.why_unreachable(transfer.peer_nic))
      return {Code::kFailed, std::move(*why)};
  LANYARD_RETURN_IF_ERROR(endpoint_.open_resources(request));

  if (transfer.direction == Direction::kReceive) {
    request.state = Request::State::kMatching;
    request.match_error = {};
    OfferQueue::Offer* offer =
        offers_.find({transfer.communicator, transfer.peer, transfer.tag},
                     [&](const MatchCard& card) { return !courier_.why_unreachable(card.from_nic); });
    if (offer == nullptr) {
      posted_.add(request);
    } else {
      const MatchCard card = offer->card;
      const std::shared_ptr<const gpu::LaneOffer> lane = offer->lane;
      if (Status status = open_trigger(endpoint_, request, card); !status.ok()) {
        fail(endpoint_, request, status);
        return status;
      }
      offers_.remove(*offer);
      pair(request, card, lane.get());
    }
    return {};
  }

  MatchCard card;
  Status status = write_offer(endpoint_, request, card);
  if (status.ok()) {
    const std::optional<gpu::LaneOffer> lane = endpoint_.open_lane(request);
    card.lane = lane ? request.lane_number : 0;
    status = courier_.send(transfer.peer_nic, card, lane ? &*lane : nullptr);
  }
  if (!status.ok()) {
    endpoint_.drop_lane(request);
    endpoint_.close_resources(request);
    return status;
  }
  request.state = Request::State::kMatching;
  request.match_error = {};
  return {};
}

size_t Matcher::progress() {
  size_t count = 0;
  while (const std::optional<MatchCard> card = courier_.receive()) {
    handle(*card);
    ++count;
  }
  talk();
  return count;
}

void Matcher::handle(const MatchCard& card) {
  switch (card.kind) {
    case MatchCard::Kind::kOffer: {
      // Ignore a malformed offer: with longest 0 no message could be cut into pieces. Ignore one of
      // a lost peer, too: a receive from any source may still match another peer.
      if (card.longest == 0 || courier_.why_unreachable(card.from_nic) || fall_back(card))
        return;
      Request* receive = posted_.find({card.communicator, card.source, card.tag});
      if (receive == nullptr) {
        offers_.add(card, card.lane != 0 ? std::make_shared<gpu::LaneOffer>(courier_.lane()) : nullptr);
        return;
      }
      posted_.remove(*receive);
      if (Status status = open_trigger(endpoint_, *receive, card); status.ok())
        pair(*receive, card, card.lane != 0 ? &courier_.lane() : nullptr);
      else
        refuse(*receive, card, std::move(status));
      return;
    }
    case MatchCard::Kind::kAccept: accepted(card); return;
    case MatchCard::Kind::kReject:
    case MatchCard::Kind::kDiffer:
    case MatchCard::Kind::kNoTrigger: rejected(card); return;
    case MatchCard::Kind::kWithdraw: withdrawn(card); return;
    case MatchCard::Kind::kFreed:
    case MatchCard::Kind::kFailed: ended(card); return;
    case MatchCard::Kind::kAsk: asked(card); return;
    case MatchCard::Kind::kSound:
      if (Request* request = matched_with(card))
        endpoint_.assure(*request, card.starts);
      return;
    case MatchCard::Kind::kConnected: confirmed(card); return;
    case MatchCard::Kind::kParted: endpoint_.part_lane(card.reader, card.peer_lane); return;
  }
  LANYARD_CHECK(false, "a card of no kind");
}

// Fails both sides if a receive lacks a resource. begin() has returned, so match_error says why.
void Matcher::refuse(Request& receive, const MatchCard& offer, Status why) {
  MatchCard answer = offer;
  answer.from_nic = endpoint_.self();
  answer.kind = MatchCard::Kind::kNoTrigger;
  answer.lane = 0;
  answer.peer_lane = offer.lane;
  (void)courier_.send(offer.from_nic, answer);  // on an error as in pair()
  fail(endpoint_, receive, std::move(why));
}

// Answers an offer for this receive. Requires open resources. If the answer cannot be sent, the
// receive fails. Then the sender waits until its own deadline.
void Matcher::pair(Request& receive, const MatchCard& offer, const gpu::LaneOffer* lane) {
  MatchCard answer = offer;
  answer.from_nic = endpoint_.self();
  answer.lane = 0;
  answer.peer_lane = offer.lane;
  gpu::LaneOffer my_lane;
  const auto mine = endpoint_.options().strategy;
  const bool differs = offer.strategy != static_cast<uint32_t>(mine);
  const bool truncated = offer.bytes > receive.transfer.bytes;
  Status status;
  if (differs) {
    answer.kind = MatchCard::Kind::kDiffer;
    answer.strategy = static_cast<uint32_t>(mine);
  } else if (truncated) {
    answer.kind = MatchCard::Kind::kReject;
    answer.bytes = receive.transfer.bytes;
  } else {
    answer.kind = MatchCard::Kind::kAccept;
    answer.receive = receive.number;
    answer.longest = endpoint_.nic().caps().max_message_bytes;
    answer.set = set_number(receive);
    answer.lane = connect(receive, offer, lane, my_lane) ? receive.lane_number : 0;
    if (answer.lane == 0)
      status = key_of(endpoint_, receive.buffer, answer.key);
    if (status.ok() && receive.flag.valid())
      status = key_of(endpoint_, receive.flag, answer.flag);
  }
  if (status.ok())
    status = courier_.send(offer.from_nic, answer, answer.lane != 0 ? &my_lane : nullptr);
  if (differs)
    status = differ(mine, offer.strategy);
  else if (truncated)
    status = too_long(offer.bytes, receive.transfer.bytes);
  if (!status.ok()) {
    endpoint_.drop_lane(receive);
    fail(endpoint_, receive, std::move(status));
    return;
  }
  if (answer.lane != 0)
    unconfirmed_.emplace(receive.number, offer);
  else
    conclude(receive, offer);
}

void Matcher::conclude(Request& receive, const MatchCard& offer) {
  receive.matched_peer = offer.source;
  receive.matched_nic = offer.from_nic;
  receive.matched_tag = offer.tag;
  receive.matched_bytes = offer.bytes;
  endpoint_.bind(receive, {.clear_to_send = offer.key,
                           .ready = offer.ready != 0,
                           .request = offer.send,
                           .longest = offer.longest,
                           .set = offer.set});
}

bool Matcher::connect(Request& receive, const MatchCard& offer, const gpu::LaneOffer* theirs, gpu::LaneOffer& mine) {
  if (theirs == nullptr)
    return false;
  const std::optional<gpu::LaneOffer> opened = endpoint_.open_lane(receive);
  if (!opened)
    return false;
  receive.matched_bytes = offer.bytes;
  receive.matched_nic = offer.from_nic;
  receive.matched_number = offer.send;
  if (!endpoint_.connect_lane(receive, *theirs, offer.lane, offer.ready != 0).ok()) {
    endpoint_.drop_lane(receive);
    return false;
  }
  mine = *opened;
  return true;
}

Request* Matcher::take_unconfirmed(uint64_t receive, uint32_t from_nic, uint64_t send) {
  const auto found = unconfirmed_.find(receive);
  if (found == unconfirmed_.end() || found->second.from_nic != from_nic || found->second.send != send)
    return nullptr;
  unconfirmed_.erase(found);
  return endpoint_.find(receive);
}

void Matcher::confirmed(const MatchCard& card) {
  const auto found = unconfirmed_.find(card.reader);
  const MatchCard offer = found != unconfirmed_.end() ? found->second : MatchCard();
  if (Request* receive = take_unconfirmed(card.reader, card.from_nic, card.writer))
    conclude(*receive, offer);
}

bool Matcher::fall_back(const MatchCard& offer) {
  Request* receive = take_unconfirmed(offer.reader, offer.from_nic, offer.send);
  if (receive == nullptr) {
    endpoint_.part_lane(offer.reader, offer.peer_lane);
    return false;
  }
  endpoint_.drop_lane(*receive);  // the sender has not connected to it
  endpoint_.close_resources(*receive);
  Status status = endpoint_.open_resources(*receive);
  if (status.ok())
    status = open_trigger(endpoint_, *receive, offer);
  if (status.ok())
    pair(*receive, offer, nullptr);
  else
    refuse(*receive, offer, std::move(status));
  return true;
}

// Returns the send that this card answers; null if it is not matching any more.
Request* Matcher::matching_send(const MatchCard& card) {
  Request* send = endpoint_.find(card.send);
  const bool waits = send != nullptr && send->state == Request::State::kMatching;
  return waits && send->transfer.direction == Direction::kSend && send->transfer.peer_nic == card.from_nic ? send
                                                                                                           : nullptr;
}

void Matcher::accepted(const MatchCard& card) {
  Request* send = matching_send(card);
  if (send == nullptr || card.longest == 0) {
    if (card.lane == 0)
      endpoint_.part_lane(card.send, card.peer_lane);  // the receiver has not connected to it
    return;
  }
  send->matched_peer = send->transfer.peer;
  send->matched_nic = card.from_nic;
  send->matched_tag = send->transfer.tag;
  send->matched_bytes = send->transfer.bytes;
  if (card.lane == 0) {
    endpoint_.drop_lane(*send);
  } else {
    const Status connected = endpoint_.connect_lane(*send, courier_.lane(), card.lane, send->transfer.ready);
    MatchCard answer = make_card(MatchCard::Kind::kConnected, send->number, card.receive);
    if (!connected.ok()) {
      endpoint_.drop_lane(*send);  // the receiver starts nothing before our answer
      Status status = write_offer(endpoint_, *send, answer);
      if (!status.ok())
        return fail(endpoint_, *send, std::move(status));
    }
    answer.peer_lane = card.lane;
    Status status = courier_.send(card.from_nic, answer);
    if (!status.ok())
      return fail(endpoint_, *send, std::move(status));
    if (!connected.ok())
      return;
  }
  endpoint_.bind(*send, {.buffer = card.key,
                         .flag = card.flag,
                         .ready = send->transfer.ready,
                         .request = card.receive,
                         .longest = card.longest,
                         .set = card.set});
}

void Matcher::rejected(const MatchCard& card) {
  Request* send = matching_send(card);
  if (send == nullptr)
    return endpoint_.part_lane(card.send, card.peer_lane);  // the receiver has not connected to it
  Status why = too_long(send->transfer.bytes, card.bytes);
  if (card.kind == MatchCard::Kind::kDiffer)
    why = differ(endpoint_.options().strategy, card.strategy);
  else if (card.kind == MatchCard::Kind::kNoTrigger)
    why = {Code::kExhausted, "the receiver's NIC has no counter or memory region left for its receive"};
  endpoint_.drop_lane(*send);  // the receiver has not connected to it
  fail(endpoint_, *send, std::move(why));
}

void Matcher::withdrawn(const MatchCard& card) {
  if (OfferQueue::Offer* offer = offers_.find_send(card.from_nic, card.send)) {
    if (offer->lane != nullptr)
      tell_parted({card.from_nic, card.send, offer->card.lane});
    offers_.remove(*offer);
    return;
  }
  const auto unconfirmed = std::ranges::find_if(unconfirmed_, [&](const auto& each) {
    return each.second.from_nic == card.from_nic && each.second.send == card.send;
  });
  if (unconfirmed != unconfirmed_.end()) {
    const MatchCard offer = unconfirmed->second;
    conclude(*take_unconfirmed(unconfirmed->first, card.from_nic, card.send), offer);
  }
  if (Request* receive = endpoint_.find_matched(card.from_nic, card.send)) {
    receive->peer_parted = true;  // the sender has not connected to the lane
    endpoint_.end_peer(*receive, 0, false);
  }
}

// ---- Giving up

void Matcher::withdraw(Request& request) {
  LANYARD_CHECK(request.state == Request::State::kMatching, "only a match under way can be withdrawn");
  if (const auto found = unconfirmed_.find(request.number); found != unconfirmed_.end()) {
    // The sender may have connected, and then sees the end of a matched pair.
    (void)courier_.send(found->second.from_nic, make_card(MatchCard::Kind::kFreed, request.number, found->second.send));
    unconfirmed_.erase(found);
  } else if (request.transfer.direction == Direction::kReceive) {
    posted_.remove(request);
  } else {
    MatchCard card = make_card(MatchCard::Kind::kWithdraw, 0, 0);
    card.send = request.number;
    (void)courier_.send(request.transfer.peer_nic, card);  // an error: the peer is lost
  }
  endpoint_.close_resources(request);
  request.state = Request::State::kFresh;
}

void Matcher::lose_peer(uint32_t nic, const std::string& why) {
  const Status gone{Code::kFailed, why};
  offers_.remove_all_of(nic);
  // Receives that wait for this sender to connect become matched. They then end like other pairs.
  std::erase_if(unconfirmed_, [&](const auto& each) {
    const bool lost = each.second.from_nic == nic;
    if (lost)
      conclude(*endpoint_.find(each.first), each.second);
    return lost;
  });
  endpoint_.for_each_request([&](Request& request) {
    const bool receive = request.transfer.direction == Direction::kReceive;
    if (request.state == Request::State::kMatching && request.transfer.peer_nic == nic &&
        request.transfer.peer != kAnySource) {
      if (receive)
        posted_.remove(request);
      fail(endpoint_, request, gone);
    }
    if (request.matched() && request.matched_nic == nic && receive)
      endpoint_.give_up_asking(request);
  });
  if (endpoint_.options().lanes != nullptr)
    unreachable_.push_back(nic);
}

}  // namespace lanyard::core
