#include "transport/core/control_plane.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lanyard::core {

namespace {

// Cards in one message. They take several writes; the peer reads the first while others follow.
constexpr size_t kMostCardBytes = 16 * 1024;
static_assert(kMostCardBytes + sizeof(MatchCard) + sizeof(gpu::LaneOffer) <= ControlChannel::kMaxMessageBytes);

// A message is a topic and a body.
template <typename Topic>
std::vector<std::byte> with_topic(Topic topic, std::span<const std::byte> body) {
  std::vector<std::byte> message(sizeof topic + body.size());
  std::memcpy(message.data(), &topic, sizeof topic);
  if (!body.empty())
    std::memcpy(message.data() + sizeof topic, body.data(), body.size());
  return message;
}

// The first of cards that this process has written, and its length with its lane offer.
std::pair<MatchCard, size_t> first_card(std::span<const std::byte> cards) {
  MatchCard card;
  std::memcpy(&card, cards.data(), sizeof card);
  return {card, sizeof card + (card.lane != 0 ? sizeof(gpu::LaneOffer) : 0)};
}

}  // namespace

ControlPlane::ControlPlane(Endpoint& endpoint, std::unique_ptr<ControlChannel> channel)
    : endpoint_(endpoint),
      channel_(std::move(channel)),
      matcher_(endpoint, *this),
      card_bytes_(channel_->ranks()),
      introductions_(channel_->ranks()),
      lost_(channel_->ranks()),
      heard_(channel_->ranks()),
      left_(channel_->ranks()),
      told_(channel_->ranks()) {}

ControlPlane::~ControlPlane() { stop_listening(); }

Introduction ControlPlane::introduction() const {
  const nic::Address address = endpoint_.nic().address();
  Introduction mine;
  mine.address_bytes = static_cast<uint32_t>(address.bytes.size());
  mine.control = channel_->key();
  std::memcpy(mine.address, address.bytes.data(), address.bytes.size());
  return mine;
}

bool ControlPlane::learn(uint32_t peer, const Introduction& introduction) {
  const size_t bytes = std::min<size_t>(introduction.address_bytes, sizeof introduction.address);
  const Status known = endpoint_.nic().add_peer(peer, {.bytes = {introduction.address, introduction.address + bytes}});
  if (!known.ok()) {
    give_up(peer, "cannot be reached: " + known.message());
    return false;
  }
  channel_->introduce(peer, introduction.control);
  introductions_[peer] = introduction;
  send_cards_to(peer);
  return true;
}

void ControlPlane::meet(uint32_t peer, const Introduction& introduction) {
  if (knows(peer) || lost(peer) || channel_->closed() || !learn(peer, introduction))
    return;
  const core::Introduction mine = this->introduction();
  channel_->send(peer, with_topic(Topic::kIntroduction, std::as_bytes(std::span(&mine, 1))));
}

bool ControlPlane::leave() {
  bool all = true;
  for (uint32_t peer = 0; peer < channel_->ranks(); ++peer) {
    if (peer == endpoint_.self() || !knows(peer))
      continue;
    if (!told_[peer]) {
      told_[peer] = true;
      channel_->send(peer, with_topic(Topic::kLeave, {}));
    }
    const bool done = left_[peer] ? channel_->has_taken_all(peer) : lost(peer) && !heard_[peer];
    all = all && done;
  }
  return all && (channel_->closed() || channel_->has_sent_all()) && channel_->close();
}

bool ControlPlane::listen(nic::Listener wake) {
  listens_ = endpoint_.nic().listen(channel_->arrivals(), wake).ok();
  channel_->notice();  // messages may have arrived before
  return listens_;
}

void ControlPlane::stop_listening() {
  if (std::exchange(listens_, false))
    (void)endpoint_.nic().listen(channel_->arrivals(), {});
}

size_t ControlPlane::progress() {
  const Batch batch(*this);
  size_t steps = channel_->progress();
  while (const std::optional<ControlChannel::Message> message = channel_->receive())
    dispatch(*message);
  steps += matcher_.progress();
  look_for_lost_peers();
  matcher_.talk();
  send_cards();
  return steps;
}

void ControlPlane::look_for_lost_peers() {
  endpoint_.collect_failures();
  while (const std::optional<uint32_t> peer = endpoint_.failures().take_unreachable())
    channel_->fail(*peer);
  const uint64_t lost = endpoint_.nic().lost_peers() + channel_->failed();
  if (lost == lost_seen_)
    return;
  lost_seen_ = lost;
  for (uint32_t peer = 0; peer < lost_.size(); ++peer)
    if (channel_->lost(peer) && !lost_[peer]) {
      lost_[peer] = true;
      matcher_.lose_peer(peer, channel_->why_lost(peer));
    }
}

Status ControlPlane::send(uint32_t nic, const MatchCard& card, const gpu::LaneOffer* lane) {
  if (channel_->lost(nic))
    return {Code::kFailed, channel_->why_lost(nic)};
  if (card.kind == MatchCard::Kind::kWithdraw && !knows(nic)) {
    drop_offer(nic, card.send);
    return {};
  }
  std::vector<std::byte>& cards = card_bytes_[nic];
  if (cards.empty())
    card_ranks_.push_back(nic);
  const auto append = [&cards](const auto& part) {
    const auto bytes = std::as_bytes(std::span(&part, 1));
    cards.insert(cards.end(), bytes.begin(), bytes.end());
  };
  append(card);
  if (lane != nullptr)
    append(*lane);
  if (batches_ == 0)
    send_cards();
  else if (cards.size() >= kMostCardBytes)
    send_cards_to(nic);
  return {};
}

void ControlPlane::send_cards() {
  for (const uint32_t rank : std::exchange(card_ranks_, {}))
    send_cards_to(rank);
}

// Removes an offer that waits for an introduction: the peer has not seen it.
void ControlPlane::drop_offer(uint32_t rank, uint64_t send) {
  std::vector<std::byte>& cards = card_bytes_[rank];
  for (size_t at = 0; at < cards.size();) {
    const auto [card, bytes] = first_card(std::span(cards).subspan(at));
    const auto first = cards.begin() + static_cast<ptrdiff_t>(at);
    if (card.send == send && card.kind == MatchCard::Kind::kOffer)
      cards.erase(first, first + static_cast<ptrdiff_t>(bytes));
    else
      at += bytes;
  }
}

void ControlPlane::send_cards_to(uint32_t rank) {
  if (!knows(rank))
    return;
  // Free the buffer: in a large job, many peers get cards rarely.
  const std::vector<std::byte> cards = std::exchange(card_bytes_[rank], {});
  // Cards that waited for an introduction may need several messages.
  for (std::span<const std::byte> rest = cards; !rest.empty();) {
    size_t bytes = 0;
    while (bytes < std::min(rest.size(), kMostCardBytes))
      bytes += first_card(rest.subspan(bytes)).second;
    channel_->send(rank, with_topic(Topic::kMatching, rest.first(bytes)));
    rest = rest.subspan(bytes);
  }
}

std::optional<std::string> ControlPlane::why_unreachable(uint32_t nic) const {
  return channel_->lost(nic) ? std::optional(channel_->why_lost(nic)) : std::nullopt;
}

std::optional<MatchCard> ControlPlane::receive() {
  if (cards_.empty())
    return std::nullopt;
  const MatchCard card = cards_.front();
  cards_.pop_front();
  if (card.lane != 0) {
    lane_ = lanes_.front();
    lanes_.pop_front();
  }
  return card;
}

void ControlPlane::tell(uint32_t rank, std::span<const std::byte> message) {
  send_cards_to(rank);
  channel_->send(rank, with_topic(Topic::kOther, message));
}

// Takes the first card of a body. False if there is none.
bool ControlPlane::take_card(uint32_t from, std::span<const std::byte>& body) {
  const auto take = [&body](auto& part) {
    if (body.size() < sizeof part)
      return false;
    std::memcpy(&part, body.data(), sizeof part);
    body = body.subspan(sizeof part);
    return true;
  };
  MatchCard card;
  gpu::LaneOffer lane;
  if (!take(card) || (card.lane != 0 && !take(lane)))
    return false;
  card.from_nic = from;
  if (card.kind > MatchCard::Kind::kLast)
    return true;
  cards_.push_back(card);
  if (card.lane != 0)
    lanes_.push_back(lane);
  return true;
}

// Drops malformed messages: other processes wrote them.
void ControlPlane::dispatch(const ControlChannel::Message& message) {
  Topic topic{};
  if (message.bytes.size() < sizeof topic)
    return;
  std::memcpy(&topic, message.bytes.data(), sizeof topic);
  std::span body = std::span(message.bytes).subspan(sizeof topic);
  heard_[message.from] = true;
  switch (topic) {
    case Topic::kMatching:
      while (take_card(message.from, body)) {
      }
      return;
    case Topic::kOther:
      if (listener_)
        listener_(message.from, body);
      return;
    case Topic::kIntroduction: {
      Introduction introduction;
      if (body.size() != sizeof introduction || knows(message.from) || lost(message.from))
        return;
      std::memcpy(&introduction, body.data(), sizeof introduction);
      (void)learn(message.from, introduction);
      return;
    }
    case Topic::kLeave: left_[message.from] = true; return;
  }
}

}  // namespace lanyard::core
