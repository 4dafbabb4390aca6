// LaneEnd: one side of a lane, in memory of its device, as hosts, devices and the other side's device see it.
#ifndef LANYARD_GPU_LANE_END_H_
#define LANYARD_GPU_LANE_END_H_

#include <stddef.h>
#include <stdint.h>

namespace lanyard::gpu {

// Addresses are those of this side's device. What several write has a line of its own.
struct LaneEnd {
  // Written when the lane is connected.
  uint64_t buffer;
  uint64_t peer_buffer;
  uint64_t peer;  // the other side's LaneEnd
  uint64_t bytes;
  uint64_t chunk_bytes;  // of all chunks but the last
  uint64_t chunks;       // at least 1; one of 0 bytes where there is nothing to copy
  uint64_t sends;        // 1: this side
  uint64_t ready;        // 1: a ready send's
  uint64_t begun;        // of the host's: a start makes it begun_base and its number
  uint64_t begun_base;
  uint64_t done;  // of the host's: a wait that has passed makes it done_base and the start's number
  uint64_t done_base;
  uint64_t gone;  // of the host's: once it is more than gone_base waits pass
  uint64_t gone_base;
  uint64_t reserved[2];

  // This device's own.
  uint64_t started;   // how often
  uint64_t arrivals;  // of the blocks of a kernel that names this end first, those that are through; 0 between kernels
  uint64_t decided;   // at a send: twice its last start, and one more if that start copied the message itself
  uint64_t padding[13];

  // The other side's to write: at a send, how often the receive was started; at a receive, the last start of the send
  // that was left to whoever comes first.
  uint64_t opened;
  uint64_t opened_padding[15];

  // Iterations that have been copied: who copied the last chunk writes it.
  uint64_t completed;
  uint64_t completed_padding[15];

  // At a send, of odd and of even starts: how often a chunk of a message that was left has been claimed, and how many
  // were copied.
  uint64_t claimed[2];
  uint64_t copied[2];
  uint64_t claims_padding[12];
};
static_assert(sizeof(LaneEnd) == 640);

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_LANE_END_H_
