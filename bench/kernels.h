// The benchmarks' kernels as their arguments: plain data that host streams take by address and GPUs
// by value. No MPI: vendors' compilers read it too.
#ifndef LANYARD_BENCH_KERNELS_H_
#define LANYARD_BENCH_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include <lanyard/lanyard_device.h>
#include "bench/halo/block.h"

namespace lanyard::bench {

struct CopyKernel {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t bytes = 0;
};

// Moves eight rectangles of a block into eight messages or back, all in one kernel.
struct HaloKernel {
  std::byte* cells = nullptr;  // of the block, with its ghosts
  long stride = 0;             // cells of a row, ghosts included
  int cell_bytes = 1;          // on GPUs 1, 4 or 8
  bool is_pack = true;         // into the messages
  Region regions[kDirections];
  std::byte* messages[kDirections] = {};
  // What host streams run, on a HaloKernel: only there may it do anything but copy.
  void (*on_host)(void* halo_kernel) = nullptr;
};

using Cell = uint8_t;  // of the Game of Life: 0 dead, 1 alive

// One generation from `from`, whose ghosts are filled, to the owned cells of `to`. Both have
// ghosts.
struct LifeKernel {
  const Cell* from = nullptr;
  Cell* to = nullptr;
  long rows = 0;  // owned, as are the columns
  long columns = 0;
};

// All round trips of a trial, in one kernel that starts and waits for the messages itself.
struct TripsKernel {
  struct Slot {
    const MPIX_Device_requests* receive = nullptr;  // null: is in the other set
    const MPIX_Device_requests* send = nullptr;
    CopyKernel pack, unpack;  // of 0 bytes: none
  };
  Slot first, middle, last;  // of the iterations
  uint64_t iterations = 0;
  bool is_pinging = true;  // else it answers
};

// The body of that kernel, for each of its threads. `thread` knows whether it is the one that talks
// to the card, is_leader(), and copies together with the others, copy(CopyKernel), which begins and
// ends with a barrier of all.
template <class Thread>
LANYARD_DEVICE_FUNCTION void make_trips(const TripsKernel& kernel, const Thread& thread) {
  const auto start = [&](const MPIX_Device_requests* set) {
    if (thread.is_leader() && set != nullptr)
      MPIX_Device_startall(set);
  };
  const auto wait = [&](const MPIX_Device_requests* set) {
    if (thread.is_leader() && set != nullptr)
      MPIX_Device_waitall(set);
  };
  const auto copy = [&](const CopyKernel& what) {
    if (what.bytes > 0)
      thread.copy(what);
  };
  const auto slot = [&](uint64_t i) -> const TripsKernel::Slot& {
    return i == 0 ? kernel.first : i + 1 == kernel.iterations ? kernel.last : kernel.middle;
  };
  if (!kernel.is_pinging)
    start(kernel.first.receive);
  for (uint64_t i = 0; i < kernel.iterations; ++i) {
    const TripsKernel::Slot& s = slot(i);
    if (kernel.is_pinging) {
      start(s.receive);
      copy(s.pack);
      start(s.send);
      wait(s.send);
      wait(s.receive);
      copy(s.unpack);
    } else {
      wait(s.receive);
      copy(s.unpack);
      // Before the pong, so that the clear-to-send does not lie on the path.
      if (i + 1 < kernel.iterations)
        start(slot(i + 1).receive);
      copy(s.pack);
      start(s.send);
      wait(s.send);
    }
  }
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_KERNELS_H_
