#include "nicsim/wire/shm_offers.h"

#include <algorithm>
#include <cstring>

#include "nicsim/wire/claims.h"
#include "nicsim/wire/inbox.h"
#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/wire.h"

namespace lanyard::nicsim {

namespace {

constexpr size_t kChunksPerTurn = 16;  // of one stream, before the next stream's turn

RemoteCopy write(const ShmPeer& peer, const std::byte* from, uint64_t to, size_t bytes) {
  if (!peer.segment.same_process())
    return write_remote(peer.address.pid, from, to, bytes);
  std::memcpy(reinterpret_cast<std::byte*>(to), from, bytes);
  return RemoteCopy::kDone;
}

}  // namespace

void ShmOffers::offer(uint32_t rank, const Packet& packet, const std::byte* payload) {
  offers_[rank].push_back({.token = packet.token, .payload = payload, .bytes = packet.bytes});
  peers_.send(rank, packet, {.kind = FrameKind::kOffer, .value = reinterpret_cast<uint64_t>(payload)});
}

void ShmOffers::acknowledged(const Packet& ack) {
  std::vector<Offer>& offers = offers_[ack.source];
  if (!offers.empty())
    std::erase_if(offers, [&](const Offer& offer) { return offer.token == ack.token; });
}

ShmOffers::Offer* ShmOffers::find(uint32_t rank, uint32_t token) {
  std::vector<Offer>& offers = offers_[rank];
  const auto found =
      std::find_if(offers.begin(), offers.end(), [&](const Offer& offer) { return offer.token == token; });
  return found == offers.end() ? nullptr : &*found;
}

void ShmOffers::lose(uint32_t rank) {
  offers_[rank].clear();
  pushes_.erase_if([&](const Push& push) { return push.peer == rank; });
}

// ---- Writing to the target's memory

void ShmOffers::take_invitation(const Packet& packet, uint64_t to) {
  const Offer* offer = find(packet.source, packet.token);
  if (offer == nullptr || offer->bytes != packet.bytes || packet.operand >= InboxHeader::kMaxShared)
    return;
  Push push{.peer = packet.source, .answer = packet, .to = to};
  push.answer.source = peers_.self();
  pushes_.push_back(push);
}

size_t ShmOffers::push_portions(uint64_t budget) {
  size_t steps = 0;
  for (; !pushes_.empty() && budget >= Claims::kMaxPortion; ++steps) {
    Push push = pushes_.front();
    pushes_.pop_front();
    if (push_portion(push)) {
      budget -= Claims::kMaxPortion;
      pushes_.push_back(push);
    } else {
      peers_.send(push.peer, push.answer, {.kind = FrameKind::kHelped, .value = push.copied});
    }
  }
  return steps;
}

// Returns whether there may be more to copy. It copies a portion as soon as it has taken it, so
// the target never waits longer than that. No ack can come while it holds a portion, so the
// payload is valid.
bool ShmOffers::push_portion(Push& push) {
  ShmPeer& peer = peers_[push.peer];
  const Offer* offer = find(push.peer, push.answer.token);
  if (offer == nullptr || !peer.pushes || push.copied == offer->bytes)
    return false;
  Claims& claims = peer.port.claims(static_cast<uint32_t>(push.answer.operand));
  if (!claims.push())
    return false;
  const uint64_t end = offer->bytes - push.copied;
  const uint64_t portion = Claims::portion(offer->bytes);
  const uint64_t begin = (end - 1) / portion * portion;
  const RemoteCopy outcome = write(peer, offer->payload + begin, push.to + begin, end - begin);
  claims.pushed();
  if (outcome == RemoteCopy::kRefused)
    peer.pushes = false;
  if (outcome != RemoteCopy::kDone)
    return false;
  push.copied = offer->bytes - begin;
  return true;
}

// ---- Streaming

void ShmOffers::take_request(const Packet& packet) {
  Offer* offer = find(packet.source, packet.token);
  if (offer == nullptr || offer->streaming || offer->bytes != packet.bytes)
    return;
  offer->streaming = true;
  streams_.push_back({.peer = packet.source, .token = packet.token});
}

size_t ShmOffers::stream_portion() {
  size_t chunks = 0;
  size_t blocked = 0;  // successive streams that could not go on
  while (chunks < Wire::kPortionBytes / Inbox::kInlineBytes && blocked < streams_.size()) {
    const Stream stream = streams_.front();
    streams_.pop_front();
    Offer* offer = find(stream.peer, stream.token);
    if (offer == nullptr)
      continue;  // acknowledged or lost
    const size_t sent = stream_turn(stream, *offer);
    if (offer->sent < offer->bytes)
      streams_.push_back(stream);
    chunks += sent;
    blocked = sent == 0 ? blocked + 1 : 0;
  }
  stream_stuck_ = blocked > 0 && blocked >= streams_.size();
  return chunks;
}

// Returns the number of chunks sent.
size_t ShmOffers::stream_turn(const Stream& stream, Offer& offer) {
  if (!peers_[stream.peer].outgoing.empty())
    return 0;  // packets go first
  const Packet packet{.kind = PacketKind::kWrite, .source = peers_.self(), .token = stream.token};
  size_t chunks = 0;
  while (chunks < kChunksPerTurn && offer.sent < offer.bytes) {
    const uint64_t bytes = std::min<uint64_t>(Inbox::kInlineBytes, offer.bytes - offer.sent);
    if (!peers_.push_or_await(stream.peer, packet,
                              {.kind = FrameKind::kChunk,
                               .payload_bytes = static_cast<uint32_t>(bytes),
                               .value = offer.sent,
                               .payload = offer.payload + offer.sent}))
      break;
    offer.sent += bytes;
    ++chunks;
  }
  return chunks;
}

}  // namespace lanyard::nicsim
