#include "nicsim/wire/shm_wire.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "transport/base/check.h"

namespace lanyard::nicsim {

using std::chrono::steady_clock;

namespace {

constexpr uint32_t kInlineBytes = Inbox::kInlineBytes;
constexpr size_t kFramesPerPoll = 64;
constexpr int kMaxTries = 1000;        // to put a frame into an inbox that says it has room
constexpr size_t kChunksPerTurn = 16;  // of one stream, before the next one's

constexpr uint64_t kSharedBytes = 2 * Claims::kMinPortion;  // as long a write is copied by both

constexpr uint32_t kIdlePollsPerLook = 1024;  // then the clock is read

std::string peer_name(size_t rank) { return "peer " + std::to_string(rank); }

}  // namespace

Result<std::unique_ptr<ShmWire>> ShmWire::create(const ShmOptions& options) {
  if (options.slots < 2 || options.slots > Inbox::kMaxSlots || !std::has_single_bit(options.slots))
    return Status(Code::kInvalidArgument, "an inbox has a power of two of slots, 2 to 65536");
  Result<OwnSegment> segment = OwnSegment::create(Inbox::bytes_for(options.slots));
  if (!segment.ok())
    return segment.status();
  return std::unique_ptr<ShmWire>(new ShmWire(options, std::move(segment.value())));
}

ShmWire::ShmWire(const ShmOptions& options, OwnSegment segment)
    : options_(options),
      segment_(std::move(segment)),
      inbox_(segment_.mapping.base(), options.slots, segment_.address.nonce),
      shares_(InboxHeader::kMaxShared) {}

ShmWire::~ShmWire() {
  inbox_.close();
  // From now on nobody writes where place() has said.
  for (uint32_t i = 0; i < shares_.size(); ++i) {
    if (shares_[i].peer == Share::kNobody)
      continue;
    inbox_.claims(i).take_all();
    while (inbox_.claims(i).pushing() && !peers_[shares_[i].peer].segment.process_ended())
      sched_yield();
  }
}

Status ShmWire::set_peers(std::span<const nic::Address> peers, uint32_t self) {
  if (ready_.load())
    return {Code::kInvalidState, "the peers are known already"};
  if (peers.size() > kMaxPeers)
    return {Code::kInvalidArgument,
            "at most " + std::to_string(kMaxPeers) + " ranks share a host's memory: set LANYARD_SIM_WIRE=tcp"};
  if (self >= peers.size() || peers[self].bytes != address().bytes)
    return {Code::kInvalidArgument, "this NIC's address does not stand at its own rank"};
  std::vector<Peer> table(peers.size());
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    const std::optional<ShmAddress> decoded = ShmAddress::decode(peers[rank]);
    if (!decoded)
      return {Code::kInvalidArgument,
              peer_name(rank) + " has no shared-memory wire: set " + "LANYARD_SIM_WIRE to the same value on all ranks"};
    if (decoded->host != segment_.address.host)
      return {Code::kInvalidArgument, peer_name(rank) + " is on another host: set LANYARD_SIM_WIRE=tcp on all ranks"};
    if (decoded->pid_namespace != segment_.address.pid_namespace)
      return {Code::kInvalidArgument,
              peer_name(rank) + " is in another container (pid namespace): set LANYARD_SIM_WIRE=tcp on all ranks"};
    table[rank].address = *decoded;
  }
  peers_ = std::move(table);
  self_ = self;
  ready_.store(true, std::memory_order_seq_cst);
  if (waiting())
    inbox_.bell().ring();  // it may have come before anybody could poll it
  return {};
}

// ---- Out

void ShmWire::send(uint32_t rank, const Packet& packet, const std::byte* payload) {
  if (!reach(rank))
    return;
  Frame frame;
  if (const uint64_t bytes = payload_bytes(packet); bytes <= kInlineBytes) {
    frame.payload_bytes = static_cast<uint32_t>(bytes);
    frame.payload = payload;
  } else {
    frame.kind = FrameKind::kOffer;
    frame.value = reinterpret_cast<uint64_t>(payload);
    peers_[rank].offers.push_back({.token = packet.token, .payload = payload, .bytes = bytes});
  }
  post(rank, packet, frame);
}

// In the order of the calls: behind what is queued already. Requires reach(rank).
void ShmWire::post(uint32_t rank, const Packet& packet, const Frame& frame) {
  Peer& peer = peers_[rank];
  if (peer.outgoing.empty()) [[likely]] {
    if (push_or_await(peer, packet, frame)) [[likely]]
      return;
    stuck_.push_back(rank);
  }
  peer.outgoing.push_back({packet, frame});
}

// Where the peer's inbox is full, false, and a nudge will come. One that always has room and never takes anything has
// been written to by somebody it is not for: its owner will read nothing any more.
bool ShmWire::push_or_await(Peer& peer, const Packet& packet, const Frame& frame) {
  for (int tries = 0; !peer.port.push(packet, frame); ++tries) {
    if (peer.awaiting)
      return false;
    peer.awaiting = !peer.port.await_room(self_);
    if (tries == kMaxTries) {
      peer.awaiting = true;
      if (peer.state == Peer::State::kOpen)
        end(static_cast<uint32_t>(&peer - peers_.data()));
      return false;
    }
  }
  peer.awaiting = false;
  return true;
}

size_t ShmWire::drain_outgoing() {
  size_t steps = 0;
  std::erase_if(stuck_, [&](uint32_t rank) {
    Peer& peer = peers_[rank];
    while (!peer.outgoing.empty()) {
      const Outgoing& next = peer.outgoing.front();
      if (!push_or_await(peer, next.packet, next.frame))
        return false;
      peer.outgoing.pop_front();
      ++steps;
    }
    return true;
  });
  return steps;
}

// Whether frames can be sent to that peer; connects at the first call.
bool ShmWire::reach(uint32_t rank) {
  Peer& peer = peers_[rank];
  if (peer.state == Peer::State::kOpen) [[likely]]
    return true;
  if (peer.state != Peer::State::kNew)
    return false;
  Result<PeerSegment> segment = PeerSegment::open(peer.address);
  if (segment.ok()) {
    Result<InboxPort> port = InboxPort::attach(segment.value().base(), segment.value().bytes(), peer.address.nonce);
    if (port.ok()) {
      peer.segment = std::move(segment.value());
      peer.port = port.value();
      uint64_t nonce = 0;
      peer.cma =
          options_.use_cma && (peer.segment.same_process() ||
                               (read_remote(peer.address.pid, peer.address.base + offsetof(InboxHeader, nonce),
                                            reinterpret_cast<std::byte*>(&nonce), sizeof nonce) == RemoteCopy::kDone &&
                                nonce == peer.address.nonce));
      peer.pushes = options_.use_cma;
      peer.state = Peer::State::kOpen;
      watch_from_now_on();
      return true;
    }
  }
  end(rank);
  return false;
}

// ---- In

size_t ShmWire::poll(Sink& sink) {
  if (!ready_.load(std::memory_order_acquire))
    return 0;
  size_t steps = take_frames(sink);
  if (steps == 0 && !ended_.empty())
    steps += report_ended(sink);
  if (steps == 0 && lost_any_) [[unlikely]]
    steps += step_over_unfinished();
  if (inbox_.take_nudge()) {
    for (Peer& peer : peers_)
      peer.awaiting = false;
  }
  const uint64_t budget = pulls_.empty() || pushes_.empty() ? kPortionBytes : kPortionBytes / 2;
  steps += pull_portions(sink, budget);
  steps += push_portions(budget);
  if (!stuck_.empty())
    steps += drain_outgoing();
  if (!streams_.empty())
    steps += stream_portion();
  inbox_.give_back(/*all=*/steps == 0, [this](uint32_t rank) {
    if (rank < peers_.size() && reach(rank))
      peers_[rank].port.nudge();
  });
  if (steps == 0)
    look_after_peers();
  set_more(!pulls_.empty() || !pushes_.empty() || (!streams_.empty() && !stream_stuck_) || !ended_.empty());
  return steps;
}

size_t ShmWire::take_frames(Sink& sink) {
  size_t count = 0;
  Packet packet;
  Frame frame;
  for (; count < kFramesPerPoll && inbox_.front(packet, frame); ++count) {
    // Nothing of the frame is to be trusted (inbox.h): what makes no sense is dropped.
    if (packet.source < peers_.size() && packet.source != self_ && peers_[packet.source].state != Peer::State::kLost) {
      if (peers_[packet.source].state == Peer::State::kNew) [[unlikely]]
        reach(packet.source);  // whoever has sent is watched, though nothing may ever be sent back
      take(sink, packet, frame);
    }
    inbox_.pop();
  }
  return count;
}

void ShmWire::take(Sink& sink, const Packet& packet, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kPacket: return take_packet(sink, packet, frame);
    case FrameKind::kOffer: return take_offer(sink, packet, frame.value);
    case FrameKind::kPull: return take_request(packet);
    case FrameKind::kChunk: return take_chunk(sink, packet, frame);
    case FrameKind::kInvite: return take_invitation(packet, frame.value);
    case FrameKind::kHelped: return take_answer(sink, packet, frame.value);
  }
}

void ShmWire::take_packet(Sink& sink, const Packet& packet, const Frame& frame) {
  switch (packet.kind) {
    case PacketKind::kWrite: {
      if (packet.bytes != frame.payload_bytes)
        return;
      std::byte* to = sink.place(packet);
      if (to != nullptr && packet.bytes > 0)
        std::memcpy(to, frame.payload, packet.bytes);
      return sink.landed(packet, to != nullptr);
    }
    case PacketKind::kPull:
      if (frame.payload_bytes == kLoanBytes)
        sink.pull_arrived(packet, frame.payload);
      return;
    case PacketKind::kCannotPull: return sink.pull_refused(packet);
    case PacketKind::kAtomic: return sink.atomic_arrived(packet);
    case PacketKind::kAck: {
      std::vector<Offer>& offers = peers_[packet.source].offers;
      if (!offers.empty())
        std::erase_if(offers, [&](const Offer& offer) { return offer.token == packet.token; });
      return sink.ack_arrived(packet);
    }
  }
}

void ShmWire::take_offer(Sink& sink, const Packet& packet, uint64_t from) {
  if (packet.kind != PacketKind::kWrite || packet.bytes <= kInlineBytes)
    return;
  std::byte* to = sink.place(packet);
  if (to == nullptr)
    return sink.landed(packet, false);
  if (!reach(packet.source))
    return sink.abandoned(packet, Code::kFailed);
  Pull pull{.packet = packet, .to = to, .from = from, .end = packet.bytes};
  if (peers_[packet.source].cma) {
    invite(pull);
    pulls_.push_back(pull);
  } else {
    ask_for_stream(pull);
  }
}

void ShmWire::take_chunk(Sink& sink, const Packet& packet, const Frame& frame) {
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

// ---- Bulk data, read from the source's memory

size_t ShmWire::pull_portions(Sink& sink, uint64_t budget) {
  size_t steps = 0;
  for (; !pulls_.empty() && budget >= Claims::kMaxPortion; ++steps) {
    Pull pull = pulls_.front();
    pulls_.pop_front();
    const uint64_t bytes = next_portion(pull, budget);
    if (bytes > 0)
      pull.outcome = read(peers_[pull.packet.source], pull, bytes);
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

// How much of it is to be read now: 0 where the source has taken what is left.
uint64_t ShmWire::next_portion(const Pull& pull, uint64_t budget) {
  const uint64_t left = pull.end - pull.done;
  if (!pull.share)
    return std::min(budget, left);
  return inbox_.claims(*pull.share).take() ? std::min(Claims::portion(pull.packet.bytes), left) : 0;
}

// For a write that nobody copies any more.
void ShmWire::finish(Sink& sink, Pull pull) {
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

RemoteCopy ShmWire::read(const Peer& peer, const Pull& pull, size_t bytes) const {
  if (!peer.segment.same_process())
    return read_remote(peer.address.pid, pull.from + pull.done, pull.to + pull.done, bytes);
  if (peer.port.closed())
    return RemoteCopy::kGone;
  std::memcpy(pull.to + pull.done, reinterpret_cast<const std::byte*>(pull.from) + pull.done, bytes);
  return RemoteCopy::kDone;
}

// What is read from the source's memory goes on whatever the source does, but for the answer that a share waits for.
// The share's claims stay in use until that is here; none of them is left to take, so that a source that is not copying
// now never will.
bool ShmWire::give_up_stalled(uint64_t key, Sink& sink) {
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

// ---- Bulk data, copied by both sides

// Not where it is short, all claims are in use, or the source has given up before: then this side
// copies alone.
void ShmWire::invite(Pull& pull) {
  const Packet& packet = pull.packet;
  if (packet.bytes < kSharedBytes || !peers_[packet.source].helps)
    return;
  const auto share =
      std::find_if(shares_.begin(), shares_.end(), [](const Share& each) { return each.peer == Share::kNobody; });
  if (share == shares_.end())
    return;
  *share = {.peer = packet.source, .token = packet.token};
  pull.share = static_cast<uint32_t>(share - shares_.begin());
  inbox_.claims(*pull.share).open(Claims::portions(packet.bytes));
  Packet invitation = packet;
  invitation.source = self_;
  invitation.operand = *pull.share;
  post(packet.source, invitation, {.kind = FrameKind::kInvite, .value = reinterpret_cast<uint64_t>(pull.to)});
}

void ShmWire::take_invitation(const Packet& packet, uint64_t to) {
  const Offer* offer = find_offer(peers_[packet.source], packet.token);
  if (offer == nullptr || offer->bytes != packet.bytes || packet.operand >= shares_.size())
    return;
  Push push{.peer = packet.source, .answer = packet, .to = to};
  push.answer.source = self_;
  pushes_.push_back(push);
}

size_t ShmWire::push_portions(uint64_t budget) {
  size_t steps = 0;
  for (; !pushes_.empty() && budget >= Claims::kMaxPortion; ++steps) {
    Push push = pushes_.front();
    pushes_.pop_front();
    if (push_portion(push)) {
      budget -= Claims::kMaxPortion;
      pushes_.push_back(push);
    } else {
      post(push.peer, push.answer, {.kind = FrameKind::kHelped, .value = push.copied});
    }
  }
  return steps;
}

// Returns whether there may be more to copy. What it takes it copies at once, so the target never
// waits longer than that. While it holds a portion the target has not the whole, so there is no ack
// yet, and the payload is valid.
bool ShmWire::push_portion(Push& push) {
  Peer& peer = peers_[push.peer];
  const Offer* offer = find_offer(peer, push.answer.token);
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

RemoteCopy ShmWire::write(const Peer& peer, const std::byte* from, uint64_t to, size_t bytes) const {
  if (!peer.segment.same_process())
    return write_remote(peer.address.pid, from, to, bytes);
  std::memcpy(reinterpret_cast<std::byte*>(to), from, bytes);
  return RemoteCopy::kDone;
}

// The source touches that write no more.
void ShmWire::take_answer(Sink& sink, const Packet& packet, uint64_t copied) {
  if (packet.operand >= shares_.size())
    return;
  const auto index = static_cast<uint32_t>(packet.operand);
  if (shares_[index].peer != packet.source || shares_[index].token != packet.token)
    return;
  shares_[index] = {};
  // It has given up.
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
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Pull& pull) { return pull.share == index; });
  if (found == waiting_.end())
    return;  // it has landed without the source's help
  Pull pull = *found;
  waiting_.erase(found);
  end_share(pull);
  if (pull.outcome == RemoteCopy::kDone && pull.done < pull.end)
    return pulls_.push_back(pull);
  finish(sink, pull);
}

// ---- Bulk data, streamed

void ShmWire::ask_for_stream(const Pull& pull) {
  streamed_.push_back(pull);
  Packet request = pull.packet;
  request.source = self_;
  post(pull.packet.source, request, {.kind = FrameKind::kPull});
}

void ShmWire::take_request(const Packet& packet) {
  Offer* offer = find_offer(peers_[packet.source], packet.token);
  if (offer == nullptr || offer->streaming || offer->bytes != packet.bytes)
    return;
  offer->streaming = true;
  streams_.push_back({.peer = packet.source, .token = packet.token});
}

ShmWire::Offer* ShmWire::find_offer(Peer& peer, uint32_t token) {
  const auto found =
      std::find_if(peer.offers.begin(), peer.offers.end(), [&](const Offer& offer) { return offer.token == token; });
  return found == peer.offers.end() ? nullptr : &*found;
}

size_t ShmWire::stream_portion() {
  size_t chunks = 0;
  size_t blocked = 0;  // streams in a row that could not go on
  while (chunks < kPortionBytes / kInlineBytes && blocked < streams_.size()) {
    const Stream stream = streams_.front();
    streams_.pop_front();
    Offer* offer = find_offer(peers_[stream.peer], stream.token);
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

// Returns how many chunks went out.
size_t ShmWire::stream_turn(const Stream& stream, Offer& offer) {
  Peer& peer = peers_[stream.peer];
  if (!peer.outgoing.empty())
    return 0;  // packets go first
  const Packet packet{.kind = PacketKind::kWrite, .source = self_, .token = stream.token};
  size_t chunks = 0;
  while (chunks < kChunksPerTurn && offer.sent < offer.bytes) {
    const uint64_t bytes = std::min<uint64_t>(kInlineBytes, offer.bytes - offer.sent);
    if (!push_or_await(peer, packet,
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

// ---- Life and death

// Now and then: a system call a peer, so not with every idle poll.
void ShmWire::look_after_peers() {
  const bool slept = slept_.load(std::memory_order_relaxed);
  if (!slept && ++idle_polls_ % kIdlePollsPerLook != 0)
    return;
  slept_.store(false, std::memory_order_relaxed);
  const steady_clock::time_point now = steady_clock::now();
  if (now < next_look_)
    return;
  next_look_ = now + options_.watch_period;
  // Whoever keeps the frames of others back, unless it is only slow.
  if (const std::optional<uint32_t> rank = inbox_.unfinished(); rank && *rank < peers_.size() && *rank != self_)
    reach(*rank);
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (peer.state == Peer::State::kOpen && (peer.port.closed() || peer.segment.process_ended()))
      end(rank);
  }
}

// Whoever sleeps without a limit is to look after the peers instead.
void ShmWire::watch_from_now_on() {
  if (reached_any_.exchange(true))
    return;
  inbox_.bell().wake(Sleeper::kOwner);
  inbox_.bell().wake(Sleeper::kHelper);
}

void ShmWire::end(uint32_t rank) {
  peers_[rank].state = Peer::State::kEnded;
  ended_.push_back(rank);
  set_more(true);
}

// Reports the peers that have ended. Called when the inbox is empty, and what they had sent has
// been taken: they had ended before it was looked at.
size_t ShmWire::report_ended(Sink& sink) {
  const std::vector<uint32_t> ended = std::exchange(ended_, {});
  lost_any_ = true;
  for (const uint32_t rank : ended) {
    Peer& peer = peers_[rank];
    peer.state = Peer::State::kLost;
    peer.outgoing.clear();
    peer.offers.clear();
    std::erase(stuck_, rank);
    const auto give_up = [&](const Pull& pull) {
      if (pull.packet.source != rank)
        return false;
      sink.abandoned(pull.packet, Code::kFailed);
      return true;
    };
    std::erase_if(streamed_, give_up);
    std::erase_if(waiting_, give_up);
    pulls_.erase_if(give_up);
    pushes_.erase_if([&](const Push& push) { return push.peer == rank; });
    for (Share& share : shares_) {
      if (share.peer == rank)
        share = {};
    }
    sink.peer_lost(rank);
  }
  return ended.size();
}

// What a peer that has ended had begun to send.
size_t ShmWire::step_over_unfinished() {
  const std::optional<uint32_t> rank = inbox_.unfinished();
  if (!rank || *rank >= peers_.size() || peers_[*rank].state != Peer::State::kLost)
    return 0;
  inbox_.skip_unfinished();
  return 1;
}

// ---- Sleep

bool ShmWire::waiting() const {
  return ready_.load(std::memory_order_seq_cst) && (more_.load(std::memory_order_seq_cst) || inbox_.waiting());
}

void ShmWire::set_more(bool more) {
  if (more == more_.load(std::memory_order_relaxed))
    return;
  more_.store(more, std::memory_order_seq_cst);
  if (more)
    inbox_.bell().hand_over();  // whoever polls now may go elsewhere
}

void ShmWire::leave() {
  inbox_.bell().leave([this] { return waiting(); });
}

void ShmWire::sleep(Sleeper who, Nanoseconds timeout, bool (*idle)(void*), void* object) {
  const bool watches = reached_any_.load();
  if (watches)
    timeout = std::min<Nanoseconds>(timeout, options_.watch_period);  // to see a peer die
  inbox_.bell().sleep(
      who, timeout, [this] { return waiting(); },
      [&] { return reached_any_.load() == watches && (idle == nullptr || idle(object)); });
  slept_.store(true, std::memory_order_relaxed);
}

}  // namespace lanyard::nicsim
