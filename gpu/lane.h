// Lanes: matched pairs whose messages devices carry themselves, by kernels that store into each other's memory. No card
// and no host thread takes part.
//
// Each side has a LaneEnd in memory of its own device, which the other side's device reaches as well. Start i of a
// pair:
//
//   sender's start:    copies, where the receiver has said that it has started; else leaves it to whoever comes first
//   receiver's start:  says at the sender that it has started; copies, where the sender has left it
//   the wait of either: copies what nobody has copied yet, once the other side has started; until all is copied
//
// So neither start waits for anything, and a wait for nothing but both starts: not for the other side's wait, nor for a
// host. Of a message that was left, pieces (chunks) are claimed one by one at the sender's end. Whoever copies the last
// one tells both ends.
//
// A small message may go another way, by a slot at the receiver (LaneEnd::slots), whose words say by themselves that
// they have come. Its sender is through with it at once, before the receiver's start; it may be one start ahead of the
// receiver, who empties the slot into its buffer as it waits. Not a synchronous send's (Terms::synchronous).
//
// All words count on for as long as the pair lasts, and each has one writer at a time, but for those of the claims. A
// start knows its number by itself, as does a wait, so they may be enqueued, or captured and replayed, in any mixture.
// The host asks the devices how far they are (refresh()): to tell it took a kernel's start 0.6 to 1.1 us.
//
// lanyard/detail/lane_protocol.h has the steps; tests/interleaving tries their orders.
#ifndef LANYARD_GPU_LANE_H_
#define LANYARD_GPU_LANE_H_

#include <cstdint>
#include <memory>

#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// One side of a lane, as streams see it.
struct Lane {
  int device = 0;       // that starts and waits run on
  uint64_t end = 0;     // the address of its LaneEnd there
  uint64_t chunks = 1;  // of a message, in which it is copied
  uint64_t chunk_bytes = 0;
};

// What the other side needs. Plain data, carried as it stands.
struct LaneOffer {
  DeviceMemory::Loan end;
  DeviceMemory::Loan buffer;
  // A receive's, of so many bytes; 0: it has none.
  DeviceMemory::Loan slots;
  uint64_t slots_bytes = 0;
};

// Makes lanes. Threads: any.
class Lanes {
 public:
  virtual ~Lanes() = default;

  struct Opened {
    std::shared_ptr<Lane> lane;
    LaneOffer offer;
  };
  // One side, for `bytes` at `buffer`. May wait for the device, not for its streams. Whoever lets go of the lane
  // requires that nothing that was enqueued names it, and that the other side starts it no more. kUnsupported: the
  // memory is not a device's, or cannot be lent, or the device is shared with other processes.
  virtual Result<Opened> open(bool sends, void* buffer, uint64_t bytes) = 0;
  // The same for a message of no bytes, which has no memory that says which device it is of.
  virtual Result<Opened> open_empty(bool sends, int device) = 0;

  struct Terms {
    uint64_t bytes = 0;        // of the message
    bool ready = false;        // a ready send's: the sender need not be told of starts
    bool synchronous = false;  // this side's send is not complete before the receive was started
    // Words of the host's, which outlive the lane. refresh() makes two of them grow:
    uint64_t* begun = nullptr;  // by one for each start that the device has made
    uint64_t* done = nullptr;   // by one for each wait that has passed as its message was there
    uint64_t* gone = nullptr;   // once it has grown waits pass
    bool may_wait = false;      // for the device: no stream waits for what the caller does next
  };
  // Makes it usable, once. As open(). kUnsupported: the other side's memory is on another host, or this device has no
  // way to it; kFailed: the memory could not be mapped.
  virtual Status connect(Lane& lane, const LaneOffer& other, const Terms& terms) = 0;

  // Asks the devices how far the starts and waits of all lanes are, as Terms says. Waits for devices, not for streams.
  // What cannot be asked stays as it was.
  virtual void refresh() = 0;

  // This side touches the other's memory no more: requires that nothing that was enqueued names the lane.
  virtual void disconnect(Lane& lane) = 0;
  // Whether memory of others is mapped that nobody touches, and unmaps it. To unmap may wait for the devices: not to be
  // called while a stream may wait for what the caller does next.
  virtual bool may_unmap() const = 0;
  virtual void unmap() = 0;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_LANE_H_
