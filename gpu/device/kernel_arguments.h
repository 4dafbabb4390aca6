// The parameters of the kernels in kernels.cu, one plain struct each, for host and device.
#ifndef LANYARD_GPU_DEVICE_KERNEL_ARGUMENTS_H_
#define LANYARD_GPU_DEVICE_KERNEL_ARGUMENTS_H_

#include <stdint.h>

namespace lanyard::gpu {

// A word of host or device memory, and its operands.
struct WordEntry {
  uint64_t word;  // its address
  // ring: added; store: stored; wait: waited for; store_next, wait_next: the count's address
  uint64_t value;
  uint64_t extra;  // store_next, wait_next: added to the count first
};

// For ring, store, wait, store_next and wait_next. One thread per entry.
struct WordArguments {
  static constexpr uint32_t kEntries = 16;
  uint32_t count;
  uint32_t reserved;
  uint64_t released;  // the address of a word: once it is not 0, waits pass
  uint64_t marker;    // 0, or the address of a word that becomes `number` at the end
  uint64_t number;
  WordEntry entries[kEntries];
};

// For copy, any number of blocks.
struct CopyArguments {
  uint64_t to;
  uint64_t from;
  uint64_t bytes;
  // With several blocks: the address of a 32-bit word of device memory, 0 between copies.
  uint64_t arrivals;
  // The address of a word that becomes `number` once the copy is visible to everybody.
  uint64_t completion;
  uint64_t number;
};

constexpr uint32_t kCopyThreads = 512;  // a block

// For pack, any number of blocks.
struct PackArguments {
  uint64_t memory;  // the address that the layout is used with
  uint64_t packed;  // the address of the packed memory
  uint64_t loops;   // the address of the layout's LayoutLoops
  uint64_t bytes;   // packed bytes, from the beginning
  // Bytes copied at a time, 1 to 16. Divides `bytes`, and all addresses and lengths.
  uint32_t unit;
  uint32_t unpack;  // 1: unpack
};

constexpr uint32_t kPackThreads = 256;  // a block

// Threads of a block of reduce, which takes CombineArguments (gpu/combine.h).
constexpr uint32_t kReduceThreads = 256;

// A ring of copy commands for serve. Command n (from 0) is at n % kCommands. The host writes the
// three words of a command while the device reads them. So the top bit of each word tells its lap:
// set in the first lap, clear in the second, and so on. A command is there once all three words
// have its lap's bit. Memory of zeros holds no command of the first lap. A command of 0 bytes ends
// the kernel.
struct CopyCommands {
  static constexpr uint32_t kCommands = 64;
  static constexpr uint64_t kLapBit = uint64_t{1} << 63;
  // Arrays, so that one load over the bus brings a word of several commands.
  uint64_t to[kCommands];
  uint64_t from[kCommands];
  uint64_t bytes[kCommands];
};

// For serve, one block.
struct ServeArguments {
  static constexpr uint32_t kAtOnce = 8;  // copies made at the same time
  uint64_t commands;                      // the address of CopyCommands
  uint64_t first;                         // the first command to look for
  // The address of a word: the number of commands whose copies are visible to everybody.
  uint64_t ended;
  uint64_t left;  // the address of a word that becomes `launch` at the end
  uint64_t launch;
  uint64_t linger_ns;  // the kernel ends after this time without a command
  uint64_t life_ns;    // and after this time in any case, between commands
};

// For lanes, any number of blocks, with at least as many threads as lanes. Starts each lane, or
// waits for its last start (gpu/lane_protocol.h).
struct LaneArguments {
  static constexpr uint32_t kLanes = 32;
  uint32_t count;
  uint32_t wait;      // 1: wait; 0: start
  uint64_t released;  // as in WordArguments
  uint64_t marker;    // likewise
  uint64_t number;
  uint64_t ends[kLanes];  // addresses of LaneEnds, all different
};

constexpr uint32_t kLaneThreads = 1024;  // most for a block; at least two a lane

constexpr uint32_t kServeThreads = 1024;
constexpr uint32_t kTeamThreads = 64;  // make one copy together

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_KERNEL_ARGUMENTS_H_
