// The parameters of the kernels (kernels.cu), one plain struct each, as host and device both see them.
#ifndef LANYARD_GPU_DEVICE_KERNEL_ARGUMENTS_H_
#define LANYARD_GPU_DEVICE_KERNEL_ARGUMENTS_H_

#include <stdint.h>

namespace lanyard::gpu {

// One word, of host or device memory, and what to do with it.
struct WordEntry {
  uint64_t word;   // its address
  uint64_t value;  // ring: is added; store: is stored; wait: is waited for; wait_next: the address of the count
  uint64_t extra;  // wait: the bits of the word that count; wait_next: what is added to the count first
};

// Of ring, store, wait and wait_next. One thread an entry.
struct WordArguments {
  static constexpr uint32_t kEntries = 64;
  uint32_t count;
  uint32_t reserved;
  uint64_t released;  // the address of a word: once it is not 0, waits pass
  uint64_t marker;    // 0, or the address of a word that becomes `number` at the end
  uint64_t number;
  WordEntry entries[kEntries];
};

// Of copy.
struct CopyArguments {
  uint64_t to;
  uint64_t from;
  uint64_t bytes;
  uint64_t arrivals;    // the address of a 32-bit word of device memory, 0 between copies; for more than one block
  uint64_t completion;  // the address of a word that becomes `number` when all is visible to everybody
  uint64_t number;
};

constexpr uint32_t kCopyThreads = 512;  // a block

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_KERNEL_ARGUMENTS_H_
