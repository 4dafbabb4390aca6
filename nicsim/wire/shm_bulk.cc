#include "nicsim/wire/shm_bulk.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace lanyard::nicsim {

namespace {

constexpr std::chrono::seconds kLongestCopy{1};
constexpr uint64_t kSharedBytes = 2 * Claims::kMinPortion;  // both sides copy writes of at least this length
constexpr size_t kChunksPerTurn = 16;                       // of one stream, before the next stream's turn

RemoteCopy write(const ShmPeer& peer, const std::byte* from, uint64_t to, size_t bytes) {
  if (!peer.segment.same_process())
    return write_remote(peer.address.pid, from, to, bytes);
  std::memcpy(reinterpret_cast<std::byte*>(to), from, bytes);
  return RemoteCopy::kDone;
}

}  // namespace

// ---- ShmOffers

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
  const auto found = std::ranges::find(offers, token, &Offer::token);
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

// ---- Streaming to the target

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

// ---- ShmPulls

ShmPulls::~ShmPulls() {
  // A peer should not copy into memory that gets another use. But do not wait for ever: it may be
  // stopped, or only claim to copy.
  const auto end = std::chrono::steady_clock::now() + kLongestCopy;
  const auto is_over = [&](uint32_t peer) {
    return peers_[peer].segment.process_ended() || std::chrono::steady_clock::now() > end;
  };
  for (uint32_t i = 0; i < shares_.size(); ++i) {
    if (shares_[i].peer == Share::kNobody)
      continue;
    inbox_.claims(i).take_all();
    while (inbox_.claims(i).pushing() && !is_over(shares_[i].peer))
      sched_yield();
  }
}

void ShmPulls::take_offer(Sink& sink, const Packet& packet, uint64_t from) {
  if (packet.kind != PacketKind::kWrite || packet.bytes <= Inbox::kInlineBytes)
    return;
  std::byte* to = sink.place(packet);
  if (to == nullptr)
    return sink.landed(packet, false);
  if (!peers_.reach(packet.source))
    return sink.abandoned(packet, Code::kFailed);
  Pull pull{.packet = packet, .to = to, .from = from, .end = packet.bytes};
  if (peers_[packet.source].cma) {
    invite(pull);
    pulls_.push_back(pull);
  } else {
    ask_for_stream(pull);
  }
}

// Only writes that wait for their source can stall; reading its memory goes on without it. A
// share's claims stay in use until the answer arrives. No portion of them is left, so a source that
// is not copying now never will.
bool ShmPulls::give_up_stalled(uint64_t key, Sink& sink) {
  bool all = true;
  for (std::vector<Pull>* pulls : {&waiting_, &streamed_}) {
    for (size_t i = 0; i < pulls->size();) {
      Pull& pull = (*pulls)[i++];
      if (pull.packet.key != key || std::exchange(pull.seen, pull.done) != pull.done)
        continue;
      if (pull.share && inbox_.claims(*pull.share).pushing()) {
        all = false;
        continue;
      }
      const Packet packet = pull.packet;
      pulls->erase(pulls->begin() + static_cast<ptrdiff_t>(--i));
      sink.abandoned(packet, Code::kNotFound);
    }
  }
  return all;
}

void ShmPulls::lose(uint32_t rank, Sink& sink) {
  const auto give_up = [&](const Pull& pull) {
    if (pull.packet.source != rank)
      return false;
    sink.abandoned(pull.packet, Code::kFailed);
    return true;
  };
  std::erase_if(streamed_, give_up);
  std::erase_if(waiting_, give_up);
  pulls_.erase_if(give_up);
  for (Share& share : shares_) {
    if (share.peer == rank)
      share = {};
  }
}

// ---- Reading the source's memory

size_t ShmPulls::pull_portions(Sink& sink, uint64_t budget) {
  size_t steps = 0;
  for (; !pulls_.empty() && budget >= Claims::kMaxPortion; ++steps) {
    Pull pull = pulls_.front();
    pulls_.pop_front();
    const uint64_t bytes = next_portion(pull, budget);
    if (bytes > 0)
      pull.outcome = read(pull, bytes);
    const bool well = pull.outcome == RemoteCopy::kDone;
    if (well) {
      pull.done += bytes;
      budget -= bytes;
    }
    if (pull.done == pull.end || (!well && !pull.share)) {
      finish(sink, pull);
    } else if (well && bytes > 0) {
      pulls_.push_back(pull);
    } else {
      inbox_.claims(*pull.share).take_all();
      waiting_.push_back(pull);
    }
  }
  return steps;
}

// The number of bytes to read now: 0 if the source has taken what is left.
uint64_t ShmPulls::next_portion(const Pull& pull, uint64_t budget) {
  const uint64_t left = pull.end - pull.done;
  if (!pull.share)
    return std::min(budget, left);
  return inbox_.claims(*pull.share).take() ? std::min(Claims::portion(pull.packet.bytes), left) : 0;
}

// For a write that no side copies any more.
void ShmPulls::finish(Sink& sink, Pull pull) {
  switch (pull.outcome) {
    case RemoteCopy::kDone: return sink.landed(pull.packet, true);
    case RemoteCopy::kRefused:
      peers_[pull.packet.source].cma = false;
      pull.done = 0;
      return ask_for_stream(pull);
    case RemoteCopy::kUnmapped: return sink.abandoned(pull.packet, Code::kUnmapped);
    case RemoteCopy::kGone: return sink.abandoned(pull.packet, Code::kFailed);
  }
}

RemoteCopy ShmPulls::read(const Pull& pull, size_t bytes) {
  const ShmPeer& peer = peers_[pull.packet.source];
  if (!peer.segment.same_process())
    return read_remote(peer.address.pid, pull.from + pull.done, pull.to + pull.done, bytes);
  if (peer.port.closed())
    return RemoteCopy::kGone;
  std::memcpy(pull.to + pull.done, reinterpret_cast<const std::byte*>(pull.from) + pull.done, bytes);
  return RemoteCopy::kDone;
}

// ---- Copying by both sides

// This side copies alone if the write is short, all claims are in use, or the source has
// given up before.
void ShmPulls::invite(Pull& pull) {
  const Packet& packet = pull.packet;
  if (packet.bytes < kSharedBytes || !peers_[packet.source].helps)
    return;
  const auto share = std::ranges::find(shares_, uint32_t{Share::kNobody}, &Share::peer);
  if (share == shares_.end())
    return;
  *share = {.peer = packet.source, .token = packet.token};
  pull.share = static_cast<uint32_t>(share - shares_.begin());
  inbox_.claims(*pull.share).open(Claims::portions(packet.bytes));
  Packet invitation = packet;
  invitation.source = peers_.self();
  invitation.operand = *pull.share;
  peers_.send(packet.source, invitation, {.kind = FrameKind::kInvite, .value = reinterpret_cast<uint64_t>(pull.to)});
}

void ShmPulls::take_answer(Sink& sink, const Packet& packet, uint64_t copied) {
  if (packet.operand >= shares_.size())
    return;
  const auto index = static_cast<uint32_t>(packet.operand);
  if (shares_[index].peer != packet.source || shares_[index].token != packet.token)
    return;
  shares_[index] = {};
  // The source has given up.
  if (inbox_.claims(index).take_all() > 0)
    peers_[packet.source].helps = false;
  const auto end_share = [&](Pull& pull) {
    pull.share.reset();
    pull.end -= std::min(copied, pull.end - pull.done);
  };
  for (size_t i = 0; i < pulls_.size(); ++i) {
    if (pulls_[i].share == index)
      return end_share(pulls_[i]);
  }
  const auto found = std::ranges::find(waiting_, std::optional(index), &Pull::share);
  if (found == waiting_.end())
    return;  // it has landed without the source's help
  Pull pull = *found;
  waiting_.erase(found);
  end_share(pull);
  if (pull.outcome == RemoteCopy::kDone && pull.done < pull.end)
    return pulls_.push_back(pull);
  finish(sink, pull);
}

// ---- Streaming from the source

void ShmPulls::ask_for_stream(const Pull& pull) {
  streamed_.push_back(pull);
  Packet request = pull.packet;
  request.source = peers_.self();
  peers_.send(pull.packet.source, request, {.kind = FrameKind::kPull});
}

void ShmPulls::take_chunk(Sink& sink, const Packet& packet, const Frame& frame) {
  const auto found = std::find_if(streamed_.begin(), streamed_.end(), [&](const Pull& pull) {
    return pull.packet.source == packet.source && pull.packet.token == packet.token;
  });
  if (found == streamed_.end() || frame.value != found->done || frame.payload_bytes > found->packet.bytes - found->done)
    return;
  std::memcpy(found->to + found->done, frame.payload, frame.payload_bytes);
  found->done += frame.payload_bytes;
  if (found->done < found->packet.bytes)
    return;
  const Packet whole = found->packet;
  streamed_.erase(found);
  sink.landed(whole, true);
}

}  // namespace lanyard::nicsim
