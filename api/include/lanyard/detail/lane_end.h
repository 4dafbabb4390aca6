// LaneEnd: one side of a lane, in memory of its device, as hosts, devices and the other side's device see it.
#ifndef LANYARD_DETAIL_LANE_END_H_
#define LANYARD_DETAIL_LANE_END_H_

#include <stddef.h>
#include <stdint.h>

#include "lanyard/detail/host_and_device.h"

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
  uint64_t slots;        // of the receive, where its small messages come (slot_bytes()); 0: it has none
  uint64_t gone;         // of the host's: once it is more than gone_base waits pass
  uint64_t gone_base;
  uint64_t reserved[5];

  // This device's own.
  uint64_t started;   // how often
  uint64_t waited;    // how many waits have passed, as what was started had been copied
  uint64_t arrivals;  // of the blocks of a kernel that names this end first, those that are through; 0 between kernels
  uint64_t decided;   // at a send: twice the last start that was decided, and one more if that start copied the
                      // message itself
  uint64_t padding[12];

  // The other side's to write: at a send, how often the receive was started; at a receive, the last start of the send
  // that was left to whoever comes first.
  uint64_t opened;
  uint64_t opened_padding[15];

  // Iterations that have been copied: who copied the last chunk writes it.
  uint64_t completed;
  uint64_t completed_padding[15];

  // At a send, of odd and of even starts: how often a chunk of a message that was left has been claimed, and how many
  // were copied. Of a message of one chunk claimed[0] says instead of which start it may be claimed: twice its number,
  // and one more once it has been.
  uint64_t claimed[2];
  uint64_t copied[2];
  uint64_t claims_padding[12];
};
static_assert(sizeof(LaneEnd) == 640);

// A small message comes in units of two words, each of which is 4 bytes of the message and above them the low half of
// the start's number: who sees the number sees the bytes, and nothing need be said behind them. Odd and even starts
// have a slot each: a start may be made while the message of the one before it has not been taken.
inline constexpr uint64_t kSlotUnitBytes = 2 * sizeof(uint64_t);
inline constexpr uint64_t kSlotUnitPayload = sizeof(uint64_t);
LANYARD_HOST_AND_DEVICE constexpr uint64_t slot_units(uint64_t bytes) {
  return bytes == 0 ? 1 : (bytes + kSlotUnitPayload - 1) / kSlotUnitPayload;
}
// Where the payload of a unit is in a message, and how much it is.
LANYARD_HOST_AND_DEVICE constexpr uint32_t slot_payload_at(uint32_t unit) {
  return unit * static_cast<uint32_t>(kSlotUnitPayload);
}
LANYARD_HOST_AND_DEVICE constexpr uint32_t slot_payload(uint32_t unit, uint32_t bytes) {
  const uint32_t left = bytes - slot_payload_at(unit);
  return left < kSlotUnitPayload ? left : static_cast<uint32_t>(kSlotUnitPayload);
}
LANYARD_HOST_AND_DEVICE constexpr uint64_t slot_bytes(uint64_t bytes) { return slot_units(bytes) * kSlotUnitBytes; }

}  // namespace lanyard::gpu

#endif  // LANYARD_DETAIL_LANE_END_H_
