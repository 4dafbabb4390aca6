// The parameters of the kernels (kernels.cu), one plain struct each, as host and device both see them.
#ifndef LANYARD_GPU_DEVICE_KERNEL_ARGUMENTS_H_
#define LANYARD_GPU_DEVICE_KERNEL_ARGUMENTS_H_

#include <stdint.h>

namespace lanyard::gpu {

// One word, of host or device memory, and what to do with it.
struct WordEntry {
  uint64_t word;   // its address
  uint64_t value;  // ring: is added; store: is stored; wait: is waited for; of those that count on: the count's address
  uint64_t extra;  // store_next, wait_next: what is added to the count first
};

// Of ring, store and wait, and of store_next and wait_next, which count on. As many threads as entries.
struct WordArguments {
  static constexpr uint32_t kEntries = 16;
  uint32_t count;
  uint32_t reserved;
  uint64_t released;  // the address of a word: once it is not 0, waits pass
  uint64_t marker;    // 0, or the address of a word that becomes `number` at the end
  uint64_t number;
  WordEntry entries[kEntries];
};

// Of copy, any number of blocks.
struct CopyArguments {
  uint64_t to;
  uint64_t from;
  uint64_t bytes;
  uint64_t arrivals;    // the address of a 32-bit word of device memory, 0 between copies; for more than one block
  uint64_t completion;  // the address of a word that becomes `number` when all is visible to everybody
  uint64_t number;
};

constexpr uint32_t kCopyThreads = 512;  // a block

// Of pack, any number of blocks.
struct PackArguments {
  uint64_t memory;  // the address that the layout is used with
  uint64_t packed;  // the address of the packed memory
  uint64_t loops;   // the address of the layout's LayoutLoops
  uint64_t bytes;   // packed, from the beginning
  uint32_t unit;    // so many bytes at a time, 1 to 16: divides `bytes`, and all addresses and lengths
  uint32_t unpack;  // 1: the other way
};

constexpr uint32_t kPackThreads = 256;  // a block

constexpr uint32_t kReduceThreads = 256;  // a block, of reduce, which takes CombineArguments (gpu/combine.h)

// The commands for serve, a ring of copies: the nth ever, from 0, is at n % kCommands. The host writes the words while
// the device reads them. So the top bit of each says which lap of the ring it is of, and a command is there once all
// three are of its own: those of the first lap have it, those of the second do not, and so on. Memory of zeros holds no
// command of the first lap. A command of 0 bytes ends the kernel.
struct CopyCommands {
  static constexpr uint32_t kCommands = 64;
  static constexpr uint64_t kLapBit = uint64_t{1} << 63;
  // Arrays, so that one load over the bus brings a word of several commands.
  uint64_t to[kCommands];
  uint64_t from[kCommands];
  uint64_t bytes[kCommands];
};

// Of serve, one block.
struct ServeArguments {
  static constexpr uint32_t kAtOnce = 8;  // are made at the same time
  uint64_t commands;                      // the address of CopyCommands
  uint64_t first;                         // the first command to look for
  uint64_t ended;  // the address of a word that becomes the number of commands whose copies are visible to everybody
  uint64_t left;   // the address of a word that becomes `launch` at the end
  uint64_t launch;
  uint64_t linger_ns;  // ends after so long without a command
  uint64_t life_ns;    // and after so long in any case, between commands
};

// Of lanes, any number of blocks, with as many threads as lanes at least: of each the start, or the wait for what was
// started last (gpu/lane_protocol.h).
struct LaneArguments {
  static constexpr uint32_t kLanes = 32;
  uint32_t count;
  uint32_t wait;      // 1: the waits
  uint64_t released;  // as in WordArguments
  uint64_t marker;    // likewise
  uint64_t number;
  uint64_t ends[kLanes];  // addresses of LaneEnds, different ones
};

constexpr uint32_t kLaneThreads = 1024;  // a block, at most; at least two for each lane

constexpr uint32_t kServeThreads = 1024;
constexpr uint32_t kTeamThreads = 64;  // that make one copy together

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_KERNEL_ARGUMENTS_H_
