// ShmPulls: the long payloads that a shared-memory wire is receiving. Each is read from its source's memory, by both
// sides where it is very long, or comes in chunks (shm_wire.h says when).
#ifndef LANYARD_NICSIM_WIRE_SHM_PULLS_H_
#define LANYARD_NICSIM_WIRE_SHM_PULLS_H_

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

// Threads: whoever drives the wire. What peers have written (packets, values) may be rubbish.
class ShmPulls {
 public:
  // The peers and this NIC's own inbox outlive it.
  ShmPulls(ShmPeers& peers, Inbox& inbox) : peers_(peers), inbox_(inbox), shares_(InboxHeader::kMaxShared) {}
  // Waits for a peer that is copying a portion: from then on nobody writes where place() has said.
  ~ShmPulls();
  ShmPulls(const ShmPulls&) = delete;
  ShmPulls& operator=(const ShmPulls&) = delete;

  // A write whose payload is at `from` in its source's memory.
  void take_offer(Sink& sink, const Packet& packet, uint64_t from);
  void take_chunk(Sink& sink, const Packet& packet, const Frame& frame);
  // The source of a write that both copy touches it no more; it has copied the last `copied` bytes.
  void take_answer(Sink& sink, const Packet& packet, uint64_t copied);
  // Reads at most `budget` bytes; returns the steps done.
  size_t pull_portions(Sink& sink, uint64_t budget);
  // Whether the next call can do something whatever arrives.
  bool can_go_on() const { return !pulls_.empty(); }

  // As Wire::give_up_stalled.
  bool give_up_stalled(uint64_t key, Sink& sink);
  // What comes from that peer is abandoned.
  void lose(uint32_t rank, Sink& sink);

 private:
  struct Pull {
    Packet packet;
    std::byte* to = nullptr;
    uint64_t from = 0;                   // in the source's memory
    uint64_t done = 0;                   // from the front
    uint64_t end = 0;                    // where the part begins of which the source has said that it is copied
    std::optional<uint32_t> share = {};  // which of shares_, where the source may be copying too
    RemoteCopy outcome = RemoteCopy::kDone;
    std::optional<uint64_t> seen = {};  // what `done` was when give_up_stalled() looked
  };
  // A write to which its source has been invited, which may be copying until its answer is here.
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
  Fifo<Pull> pulls_;            // read from the source's memory, in turn
  std::vector<Pull> waiting_;   // for the source's answer, with nothing left to take
  std::vector<Share> shares_;   // by their claims' index
  std::vector<Pull> streamed_;  // arriving in chunks
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_SHM_PULLS_H_
