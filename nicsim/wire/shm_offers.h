// ShmOffers: the long payloads that a shared-memory wire is sending. Each stays where it is until
// its ack arrives. Meanwhile the target reads it, invites this side to write a part of it, or asks
// for all of it in chunks. shm_wire.h says when.
#ifndef LANYARD_NICSIM_WIRE_SHM_OFFERS_H_
#define LANYARD_NICSIM_WIRE_SHM_OFFERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nicsim/model/packet.h"
#include "nicsim/wire/fifo.h"
#include "nicsim/wire/shm_peers.h"

namespace lanyard::nicsim {

// Threads: only the driver of the wire. Packets and values from peers must not be trusted.
class ShmOffers {
 public:
  // The peers outlive it.
  explicit ShmOffers(ShmPeers& peers) : peers_(peers) {}

  // Call once the number of peers is known.
  void set_peers() { offers_.resize(peers_.size()); }
  // The peer must have been reached.
  void offer(uint32_t rank, const Packet& packet, const std::byte* payload);
  void acknowledged(const Packet& ack);
  // The target of an offer asks this side to write to `to`, or to send chunks.
  void take_invitation(const Packet& packet, uint64_t to);
  void take_request(const Packet& packet);

  // Writes about `budget` bytes to targets' memory and sends one portion of chunks.
  // Returns the steps.
  size_t push_portions(uint64_t budget);
  size_t stream_portion();
  bool pushes() const { return !pushes_.empty(); }
  bool streams() const { return !streams_.empty(); }
  // Whether the next call can do something even if nothing arrives.
  bool can_go_on() const { return !pushes_.empty() || (!streams_.empty() && !stream_stuck_); }

  // Drops everything for that peer.
  void lose(uint32_t rank);

 private:
  // The target may read it or ask for it until its ack arrives.
  struct Offer {
    uint32_t token = 0;
    const std::byte* payload = nullptr;
    uint64_t bytes = 0;
    uint64_t sent = 0;
    bool streaming = false;
  };
  // An offer that both sides copy.
  struct Push {
    uint32_t peer = 0;
    Packet answer;        // names the write and its claims
    uint64_t to = 0;      // in the peer's memory
    uint64_t copied = 0;  // counted from the back
  };
  struct Stream {
    uint32_t peer = 0;
    uint32_t token = 0;
  };

  Offer* find(uint32_t rank, uint32_t token);
  bool push_portion(Push& push);
  size_t stream_turn(const Stream& stream, Offer& offer);

  ShmPeers& peers_;
  std::vector<std::vector<Offer>> offers_;  // by rank
  Fifo<Push> pushes_;                       // written to the targets' memory, in turn
  Fifo<Stream> streams_;                    // sent in chunks, in turn
  bool stream_stuck_ = false;               // the last portion stopped at a full inbox
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_SHM_OFFERS_H_
