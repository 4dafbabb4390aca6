// Lanes: matched pairs whose messages GPUs carry themselves. Kernels store into the memory of the
// peer's device. No NIC and no host thread takes part.
//
// Each side has a LaneEnd in memory of its own device, which the peer's device reaches too.
// Start i of a pair:
//
//   sender's start:    copies the message if the receiver has started; else leaves it open
//   receiver's start:  tells the sender's end that it has started; copies an open message
//   a wait:            copies chunks of an open message once both sides have started;
//                      passes when all chunks are copied
//
// Either side may copy an open message. So a start waits for nothing, and a wait only for both
// starts: not for the peer's wait, nor for a host. Each chunk is claimed at the sender's end before
// it is copied. The side that copies the last chunk tells both ends.
//
// All words but the claims only grow as long as the pair exists, and have one writer at a time. A
// start counts by itself. So starts may be enqueued, captured and replayed in any mixture.
//
// gpu/lane_protocol.h has the steps; tests/interleaving explores their orders.
#ifndef LANYARD_GPU_LANE_H_
#define LANYARD_GPU_LANE_H_

#include <cstdint>
#include <memory>

#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// One side of a lane, as streams see it.
struct Lane {
  int device = 0;       // runs the starts and waits
  uint64_t end = 0;     // the address of its LaneEnd on that device
  uint64_t chunks = 1;  // in each message
  uint64_t chunk_bytes = 0;
};

// Sent to the peer, which needs it to connect. Plain data.
struct LaneOffer {
  DeviceMemory::Loan end;
  DeviceMemory::Loan buffer;
};

// Makes lanes. Any thread may call it.
class Lanes {
 public:
  virtual ~Lanes() = default;

  struct Opened {
    std::shared_ptr<Lane> lane;
    LaneOffer offer;
  };
  // Opens one side for `bytes` bytes at `buffer`. May wait for the device, not for its streams.
  // Before the last reference to the lane goes, nothing enqueued may name it and the peer must have
  // stopped starting it. kUnsupported: not device memory, memory that cannot be lent, or a device
  // that other processes use too.
  virtual Result<Opened> open(bool sends, void* buffer, uint64_t bytes) = 0;

  struct Terms {
    uint64_t bytes = 0;  // of the message
    bool ready = false;  // a ready send: the sender need not know of the receiver's starts
    // Host words, which must outlive the lane:
    uint64_t* begun = nullptr;  // grows by one with each start
    uint64_t* done = nullptr;   // grows by one with each wait that passes
    uint64_t* gone = nullptr;   // once it has grown, waits pass
    bool may_wait = false;      // for the device: no stream waits for what the caller does next
  };
  // Connects the lane, once. May wait as open() does. kUnsupported: the peer's memory is on another
  // host, or this device cannot reach it. kFailed: the memory could not be mapped.
  virtual Status connect(Lane& lane, const LaneOffer& other, const Terms& terms) = 0;

  // This side no longer touches the peer's memory. Requires: nothing enqueued names the lane.
  virtual void disconnect(Lane& lane) = 0;
  // may_unmap() tells whether memory of peers is mapped that no lane uses; unmap() unmaps it. That
  // may wait for devices: do not call it while a stream may wait for what the caller does next.
  virtual bool may_unmap() const = 0;
  virtual void unmap() = 0;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_LANE_H_
