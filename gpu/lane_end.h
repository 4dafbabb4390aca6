// LaneEnd: one side of a lane (gpu/lane.h) in memory of its device. The host, this device and the
// peer's device use it.
#ifndef LANYARD_GPU_LANE_END_H_
#define LANYARD_GPU_LANE_END_H_

#include <stddef.h>
#include <stdint.h>

namespace lanyard::gpu {

// Addresses are valid on this side's device. Each group of words has 128 bytes of its own, as the
// writers differ.
struct LaneEnd {
  // Written when the lane connects.
  uint64_t buffer;
  uint64_t peer_buffer;
  uint64_t peer;  // the other side's LaneEnd
  uint64_t bytes;
  uint64_t chunk_bytes;  // of each chunk but the last
  uint64_t chunks;       // at least 1; an empty message is one chunk of 0 bytes
  uint64_t sends;        // 1: this side sends
  uint64_t ready;        // 1: the send is a ready send
  uint64_t begun;        // a host word: a start sets it to begun_base + the start's number
  uint64_t begun_base;
  uint64_t done;  // a host word: a wait that passes sets it to done_base + the start's number
  uint64_t done_base;
  uint64_t gone;  // a host word: once it exceeds gone_base, waits pass
  uint64_t gone_base;
  uint64_t reserved[2];

  // Used by this device only.
  uint64_t started;  // number of starts
  // How many blocks of a kernel that lists this end first are through. 0 between kernels.
  uint64_t arrivals;
  uint64_t decided;  // at a sender: 2 * the last start, + 1 if that start copied the message itself
  uint64_t padding[13];

  // Written by the peer. At a sender: the number of the receiver's last start. At a receiver: the
  // number of the last send that was left open (gpu/lane.h).
  uint64_t opened;
  uint64_t opened_padding[15];

  // The last iteration that is copied. The side that copies the last chunk writes it.
  uint64_t completed;
  uint64_t completed_padding[15];

  // At a sender, for an open message: chunks claimed and copied. Index: the start's number % 2.
  uint64_t claimed[2];
  uint64_t copied[2];
  uint64_t claims_padding[12];
};
static_assert(sizeof(LaneEnd) == 640);

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_LANE_END_H_
