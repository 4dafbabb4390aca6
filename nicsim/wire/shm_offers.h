// ShmOffers: the long payloads that a shared-memory wire is sending. Each is offered and stays where it is until its
// ack is here; meanwhile the target reads it by itself, invites this side to write a part of it, or asks for all of it
// in chunks (shm_wire.h says when).
#ifndef LANYARD_NICSIM_WIRE_SHM_OFFERS_H_
#define LANYARD_NICSIM_WIRE_SHM_OFFERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nicsim/model/packet.h"
#include "nicsim/wire/fifo.h"
#include "nicsim/wire/shm_peers.h"

namespace lanyard::nicsim {

// Threads: whoever drives the wire. What peers have written (packets, values) may be rubbish.
class ShmOffers {
 public:
  // The peers outlive it.
  explicit ShmOffers(ShmPeers& peers) : peers_(peers) {}

  // Once the peers are known.
  void set_peers() { offers_.resize(peers_.size()); }
  // Requires that the peer was reached.
  void offer(uint32_t rank, const Packet& packet, const std::byte* payload);
  void acknowledged(const Packet& ack);
  // The target of an offer has asked for help, to write to `to`, or for chunks.
  void take_invitation(const Packet& packet, uint64_t to);
  void take_request(const Packet& packet);

  // Writes to targets' memory, about `budget` bytes, and sends one portion of chunks. Returns the steps done.
  size_t push_portions(uint64_t budget);
  size_t stream_portion();
  bool pushes() const { return !pushes_.empty(); }
  bool streams() const { return !streams_.empty(); }
  // Whether the next call can do something whatever arrives.
  bool can_go_on() const { return !pushes_.empty() || (!streams_.empty() && !stream_stuck_); }

  // What is for that peer is dropped.
  void lose(uint32_t rank);

 private:
  // May be read or asked for until its ack is here.
  struct Offer {
    uint32_t token = 0;
    const std::byte* payload = nullptr;
    uint64_t bytes = 0;
    uint64_t sent = 0;
    bool streaming = false;
  };
  // One that goes to a peer that copies it as well.
  struct Push {
    uint32_t peer = 0;
    Packet answer;        // names the write and its claims
    uint64_t to = 0;      // in the peer's memory
    uint64_t copied = 0;  // from the back
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
  Fifo<Push> pushes_;                       // written to the target's memory, in turn
  Fifo<Stream> streams_;                    // going out in chunks, in turn
  bool stream_stuck_ = false;               // the last portion stopped at a full inbox
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_SHM_OFFERS_H_
