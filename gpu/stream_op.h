// One operation of a stream: plain data. gpu/stream.h says what streams promise of them.
#ifndef LANYARD_GPU_STREAM_OP_H_
#define LANYARD_GPU_STREAM_OP_H_

#include <cstdint>

namespace lanyard::gpu {

// Of a counter's copy the bits that count what succeeded; those above mark failures (transport/nic/nic.h, N10).
inline constexpr uint64_t kCountBits = (uint64_t{1} << 48) - 1;

struct Lane;     // gpu/lane.h
struct Packing;  // gpu/packing.h

struct StreamOp {
  enum class Kind : uint8_t {
    kWrite64,      // *word = value
    kWriteNext64,  // *count += value, then *word = *count
    kAdd64,        // atomic *word += value
    kCall,         // call(object, argument, value) on a host thread; must not block
    kWait64,       // block the stream until *word >= value
    kWaitCount64,  // block until (*word & kCountBits) >= value: *word is the copy of a device's counter
    kWaitNext64,   // *count += value, then block until (*word & kCountBits) >= *count
    kPack,         // the first `value` bytes of the packing, from the memory that its layout names to the packed
    kUnpack,       // the other way
    kStartLane,    // the next start of a side of a lane
    kWaitLane,     // block until the last start of a side of a lane has been copied
  };
  Kind kind = Kind::kWait64;
  uint64_t* word = nullptr;  // 8-aligned; outlives the operation's execution
  uint64_t value = 0;
  void (*call)(void* object, uint32_t argument, uint64_t value) = nullptr;
  // kPack, kUnpack: the Packing, kStartLane, kWaitLane: the Lane, which outlives the operation's execution and is not
  // changed.
  void* object = nullptr;
  uint32_t argument = 0;
  uint64_t* count = nullptr;  // kWriteNext64, kWaitNext64: from take_count() of this stream
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_STREAM_OP_H_
