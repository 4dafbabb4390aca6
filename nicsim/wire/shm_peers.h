// ShmPeers: the NICs that a shared-memory wire sends to: their inboxes, the frames that wait for room there, and
// whether they live.
//
// A peer is connected to when it is first sent to or heard of. One that cannot be, or whose end is seen, is kEnded
// until the wire has taken what it had sent, and then kLost.
#ifndef LANYARD_NICSIM_WIRE_SHM_PEERS_H_
#define LANYARD_NICSIM_WIRE_SHM_PEERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nicsim/model/packet.h"
#include "nicsim/wire/fifo.h"
#include "nicsim/wire/inbox.h"
#include "nicsim/wire/shm_segment.h"

namespace lanyard::nicsim {

struct ShmPeer {
  enum class State { kUnknown, kNew, kOpen, kEnded, kLost } state = State::kUnknown;
  std::string why_ended;  // as nic::Nic::why_lost()
  ShmAddress address;
  PeerSegment segment;
  InboxPort port;
  bool cma = false;       // its memory can be read
  bool pushes = false;    // and written
  bool helps = true;      // it copies where invited
  bool awaiting = false;  // a nudge, since its inbox was full
  struct Outgoing {
    Packet packet;
    Frame frame;
  };
  Fifo<Outgoing> outgoing;
};

// Threads: whoever drives the wire, but for watched().
class ShmPeers {
 public:
  // Peers' memory is touched where `use_cma`. `bell` and `own` are this NIC's, and outlive it.
  ShmPeers(bool use_cma, Bell& bell, const ShmAddress& own) : use_cma_(use_cma), bell_(bell), own_(own) {}

  // Once, before anything else: so many, none of them known.
  void set(size_t peers, uint32_t self);
  // Requires that the peer is not known.
  void add(uint32_t rank, const ShmAddress& address) {
    peers_[rank].address = address;
    peers_[rank].state = ShmPeer::State::kNew;
  }
  bool knows(uint32_t rank) const { return peers_[rank].state != ShmPeer::State::kUnknown; }
  uint32_t size() const { return static_cast<uint32_t>(peers_.size()); }
  uint32_t self() const { return self_; }
  ShmPeer& operator[](uint32_t rank) { return peers_[rank]; }

  // Whether frames can be sent to that peer; connects at the first call.
  bool reach(uint32_t rank) {
    return peers_[rank].state == ShmPeer::State::kOpen || (peers_[rank].state == ShmPeer::State::kNew && connect(rank));
  }
  // Whether one has been reached: from then on somebody has to look after them.
  bool watched() const { return reached_any_.load(); }

  // In the order of the calls: behind what is queued already. Requires that the peer was reached.
  void send(uint32_t rank, const Packet& packet, const Frame& frame);
  // At once, or not at all: where the peer's inbox is full, false, and a nudge will come.
  bool push_or_await(uint32_t rank, const Packet& packet, const Frame& frame);
  // A nudge has come.
  void try_all_again();
  bool any_stuck() const { return !stuck_.empty(); }
  // Sends what waits, as far as there is room; returns how many frames that was.
  size_t drain();

  // Finds those that have gone: a system call a peer.
  void look_after();
  bool any_ended() const { return !ended_.empty(); }
  // Those that have ended since the last call.
  std::vector<uint32_t> take_ended() { return std::exchange(ended_, {}); }
  // What was for it is dropped.
  void lose(uint32_t rank);

 private:
  bool connect(uint32_t rank);
  void watch_from_now_on();
  void end(uint32_t rank, std::string why);

  const bool use_cma_;
  Bell& bell_;
  const ShmAddress& own_;
  std::vector<ShmPeer> peers_;
  uint32_t self_ = 0;
  std::vector<uint32_t> stuck_;  // those with a queue of outgoing frames
  std::vector<uint32_t> ended_;  // and not yet taken
  std::atomic<bool> reached_any_{false};
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_SHM_PEERS_H_
