#include "nicsim/wire/shm_peers.h"

#include "nicsim/wire/wire.h"

namespace lanyard::nicsim {

namespace {

constexpr int kMaxTries = 1000;  // to put a frame into an inbox that says it has room

}  // namespace

bool ShmPeers::connect(uint32_t rank) {
  ShmPeer& peer = peers_[rank];
  Result<PeerSegment> segment = PeerSegment::open(peer.address);
  if (!segment.ok()) {
    end(rank, segment.status().message());
    return false;
  }
  Result<InboxPort> port = InboxPort::attach(segment.value().base(), segment.value().bytes(), peer.address.nonce);
  if (!port.ok()) {
    end(rank,
        port.status().code() == Code::kNotFound ? nic::kHasEnded : nic::kCannotBeReached + port.status().message());
    return false;
  }
  peer.segment = std::move(segment.value());
  peer.port = port.value();
  uint64_t nonce = 0;
  peer.cma = use_cma_ && (peer.segment.same_process() ||
                          (read_remote(peer.address.pid, peer.address.base + offsetof(InboxHeader, nonce),
                                       reinterpret_cast<std::byte*>(&nonce), sizeof nonce) == RemoteCopy::kDone &&
                           nonce == peer.address.nonce));
  peer.pushes = use_cma_;
  peer.state = ShmPeer::State::kOpen;
  if (!reached_any_.exchange(true)) {
    // Sleepers without a timeout begin to look after the peers.
    bell_.wake(Wire::Sleeper::kOwner);
    bell_.wake(Wire::Sleeper::kHelper);
  }
  send(rank, {.kind = PacketKind::kAck, .source = self_},
       {.kind = FrameKind::kHello, .payload_bytes = sizeof own_, .payload = reinterpret_cast<const std::byte*>(&own_)});
  return true;
}

void ShmPeers::send(uint32_t rank, const Packet& packet, const Frame& frame) {
  ShmPeer& peer = peers_[rank];
  if (peer.outgoing.empty()) [[likely]] {
    if (push_or_await(rank, packet, frame)) [[likely]]
      return;
    stuck_.push_back(rank);
  }
  peer.outgoing.push_back({packet, frame});
}

// Ends a peer whose inbox reports room but accepts no frame. A stranger has written to that inbox,
// and its owner will read nothing more.
bool ShmPeers::push_or_await(uint32_t rank, const Packet& packet, const Frame& frame) {
  ShmPeer& peer = peers_[rank];
  for (int tries = 0; !peer.port.push(packet, frame); ++tries) {
    if (peer.awaiting)
      return false;
    peer.awaiting = !peer.port.await_room(self_);
    if (tries == kMaxTries) {
      peer.awaiting = true;
      if (peer.state == ShmPeer::State::kOpen)
        end(rank, nic::kCannotBeReached + std::string("something else has written into its inbox"));
      return false;
    }
  }
  peer.awaiting = false;
  return true;
}

void ShmPeers::try_all_again() {
  for (ShmPeer& peer : peers_)
    peer.awaiting = false;
}

size_t ShmPeers::drain() {
  size_t steps = 0;
  std::erase_if(stuck_, [&](uint32_t rank) {
    ShmPeer& peer = peers_[rank];
    while (!peer.outgoing.empty()) {
      const ShmPeer::Outgoing& next = peer.outgoing.front();
      if (!push_or_await(rank, next.packet, next.frame))
        return false;
      peer.outgoing.pop_front();
      ++steps;
    }
    return true;
  });
  return steps;
}

void ShmPeers::look_after() {
  for (uint32_t rank = 0; rank < size(); ++rank) {
    const ShmPeer& peer = peers_[rank];
    if (peer.state == ShmPeer::State::kOpen && (peer.port.closed() || peer.segment.process_ended()))
      end(rank, nic::kHasEnded);
  }
}

void ShmPeers::end(uint32_t rank, std::string why) {
  peers_[rank].why_ended = std::move(why);
  peers_[rank].state = ShmPeer::State::kEnded;
  ended_.push_back(rank);
}

void ShmPeers::lose(uint32_t rank) {
  peers_[rank].state = ShmPeer::State::kLost;
  peers_[rank].outgoing.clear();
  std::erase(stuck_, rank);
}

}  // namespace lanyard::nicsim
