// ShmPeers: the NICs that a shared-memory wire sends to, with their inboxes, the frames that wait
// for room there, and whether they live.
//
// A peer is connected at the first frame to or from it. If that fails, or the peer is found to have
// ended, it is kEnded. Once the wire has taken all its frames, it is kLost.
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
  bool pushes = false;    // its memory can be written
  bool helps = true;      // it copies when invited
  bool awaiting = false;  // waits for a nudge, since the peer's inbox was full
  struct Outgoing {
    Packet packet;
    Frame frame;
  };
  Fifo<Outgoing> outgoing;
};

// Threads: only the driver of the wire, except watched().
class ShmPeers {
 public:
  // Reads and writes peers' memory only if `use_cma`. `bell` and `own` are this NIC's
  // and outlive it.
  ShmPeers(bool use_cma, Bell& bell, const ShmAddress& own) : use_cma_(use_cma), bell_(bell), own_(own) {}

  // Call once, first. No peer is known yet.
  void set(size_t peers, uint32_t self) {
    peers_ = std::vector<ShmPeer>(peers);
    self_ = self;
  }
  // The peer must not be known.
  void add(uint32_t rank, const ShmAddress& address) {
    peers_[rank].address = address;
    peers_[rank].state = ShmPeer::State::kNew;
  }
  bool knows(uint32_t rank) const { return peers_[rank].state != ShmPeer::State::kUnknown; }
  uint32_t size() const { return static_cast<uint32_t>(peers_.size()); }
  uint32_t self() const { return self_; }
  ShmPeer& operator[](uint32_t rank) { return peers_[rank]; }

  // Whether frames can be sent to that peer. Connects at the first call.
  bool reach(uint32_t rank) {
    return peers_[rank].state == ShmPeer::State::kOpen || (peers_[rank].state == ShmPeer::State::kNew && connect(rank));
  }
  // Whether any peer has been reached. From then on a thread must call look_after().
  bool watched() const { return reached_any_.load(); }

  // Sends frames in the order of the calls, queued ones first. The peer must have been reached.
  void send(uint32_t rank, const Packet& packet, const Frame& frame);
  // Sends at once. False if the peer's inbox is full: a nudge will come.
  bool push_or_await(uint32_t rank, const Packet& packet, const Frame& frame);
  // Call after a nudge.
  void try_all_again();
  bool any_stuck() const { return !stuck_.empty(); }
  // Sends queued frames as far as there is room; returns their number.
  size_t drain();

  // Finds peers that have ended. One system call per peer.
  void look_after();
  bool any_ended() const { return !ended_.empty(); }
  // The peers that have ended since the last call.
  std::vector<uint32_t> take_ended() { return std::exchange(ended_, {}); }
  // Drops everything for that peer.
  void lose(uint32_t rank);

 private:
  bool connect(uint32_t rank);
  void end(uint32_t rank, std::string why);

  const bool use_cma_;
  Bell& bell_;
  const ShmAddress& own_;
  std::vector<ShmPeer> peers_;
  uint32_t self_ = 0;
  std::vector<uint32_t> stuck_;  // peers with queued frames
  std::vector<uint32_t> ended_;  // not yet returned by take_ended()
  std::atomic<bool> reached_any_{false};
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_SHM_PEERS_H_
