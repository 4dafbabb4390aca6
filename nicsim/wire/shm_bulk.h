// The long payloads of a shared-memory wire. README.md says which way each takes.
#ifndef LANYARD_NICSIM_WIRE_SHM_BULK_H_
#define LANYARD_NICSIM_WIRE_SHM_BULK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "nicsim/model/packet.h"
#include "nicsim/wire/fifo.h"
#include "nicsim/wire/inbox.h"
#include "nicsim/wire/shm_peers.h"
#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/wire.h"

namespace lanyard::nicsim {

// ShmOffers: the long payloads that this side is sending. Each stays where it is until its ack
// arrives. Meanwhile the target reads it, invites this side to write a part of it, or asks for all
// of it in chunks.
//
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

// ShmPulls: the long payloads that this side is receiving. Each is read from its source's memory,
// by both sides if it is very long, or arrives in chunks.
//
// Threads: only the driver of the wire. Packets and values from peers must not be trusted.
class ShmPulls {
 public:
  // The peers and this NIC's own inbox outlive it.
  ShmPulls(ShmPeers& peers, Inbox& inbox) : peers_(peers), inbox_(inbox), shares_(InboxHeader::kMaxShared) {}
  // Waits for a peer that is copying a portion. Afterwards no peer writes to memory
  // that place() returned.
  ~ShmPulls();
  ShmPulls(const ShmPulls&) = delete;
  ShmPulls& operator=(const ShmPulls&) = delete;

  // A write whose payload is at `from` in its source's memory.
  void take_offer(Sink& sink, const Packet& packet, uint64_t from);
  void take_chunk(Sink& sink, const Packet& packet, const Frame& frame);
  // The source of a write that both sides copy has finished: it has copied the last `copied` bytes.
  void take_answer(Sink& sink, const Packet& packet, uint64_t copied);
  // Reads at most `budget` bytes; returns the steps.
  size_t pull_portions(Sink& sink, uint64_t budget);
  // Whether the next call can do something even if nothing arrives.
  bool can_go_on() const { return !pulls_.empty(); }

  // As Wire::give_up_stalled().
  bool give_up_stalled(uint64_t key, Sink& sink);
  // Abandons everything from that peer.
  void lose(uint32_t rank, Sink& sink);

 private:
  struct Pull {
    Packet packet;
    std::byte* to = nullptr;
    uint64_t from = 0;                   // in the source's memory
    uint64_t done = 0;                   // bytes read from the front
    uint64_t end = 0;                    // start of the part that the source says it has copied
    std::optional<uint32_t> share = {};  // index in shares_, if the source may be copying too
    RemoteCopy outcome = RemoteCopy::kDone;
    std::optional<uint64_t> seen = {};  // `done` at the last give_up_stalled()
  };
  // A write whose source has been invited. The source may be copying until its answer arrives.
  struct Share {
    static constexpr uint32_t kNobody = UINT32_MAX;
    uint32_t peer = kNobody;
    uint32_t token = 0;
  };

  uint64_t next_portion(const Pull& pull, uint64_t budget);
  void finish(Sink& sink, Pull pull);
  RemoteCopy read(const Pull& pull, size_t bytes);
  void invite(Pull& pull);
  void ask_for_stream(const Pull& pull);

  ShmPeers& peers_;
  Inbox& inbox_;
  Fifo<Pull> pulls_;            // read from the sources' memory, in turn
  std::vector<Pull> waiting_;   // no portion left; waiting for the source's answer
  std::vector<Share> shares_;   // indexed as their claims
  std::vector<Pull> streamed_;  // arriving in chunks
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_SHM_BULK_H_
