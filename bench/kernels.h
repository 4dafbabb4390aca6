// The benchmarks' kernels as their arguments: plain data that host streams take by address and GPUs
// by value. No MPI: vendors' compilers read it too.
#ifndef LANYARD_BENCH_KERNELS_H_
#define LANYARD_BENCH_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include <lanyard/lanyard_device.h>
#include "bench/block.h"

namespace lanyard::bench {

struct CopyKernel {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t bytes = 0;
};

// Moves up to eight rectangles of a block into messages or back, all in one kernel.
struct HaloKernel {
  std::byte* cells = nullptr;  // of the block, with its ghosts
  long origin = 0;             // the cells before the first one that is owned
  long stride = 0;             // cells of a row, ghosts included
  long plane_stride = 0;       // cells of a plane, likewise
  int cell_bytes = 1;          // on GPUs 1, 4 or 8
  bool is_pack = true;         // into the messages
  Region regions[kDirections];
  std::byte* messages[kDirections] = {};
  // What host streams run, on a HaloKernel: only there may it do anything but copy.
  void (*on_host)(void* halo_kernel) = nullptr;
};

// An exchange that a kernel makes itself, by sets of requests, null where there is none; exchange i has set i mod 2 of
// the receives. Each set is waited for before it is started again.
struct KernelMessages {
  const MPIX_Device_requests* receives[2] = {};
  const MPIX_Device_requests* sends[2] = {};
  std::byte* in[2][kDirections] = {};  // by direction; null: no message
  std::byte* out[kDirections] = {};
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

// All round trips of a trial, in one kernel of one block that starts and waits for the messages itself.
struct TripsKernel {
  struct Slot {
    const MPIX_Device_requests* receive = nullptr;  // null: is in the other set
    const MPIX_Device_requests* send = nullptr;
    CopyKernel pack, unpack;  // of 0 bytes: none
  };
  Slot first, middle, last;  // of the iterations
  uint64_t iterations = 0;
  bool is_pinging = true;  // else it answers
  size_t bytes = 0;        // of a message
};

// Arithmetic that needs no memory: what a program computes beside its messages.
struct ComputeKernel {
  uint64_t rounds = 0;
  float* result = nullptr;  // written only so that there is one
};

// Of one thread. Each round waits for the one before.
LANYARD_DEVICE_FUNCTION float compute(uint64_t rounds) {
  float x = 1;
  for (uint64_t i = 0; i < rounds; ++i)
    x = x * 0.999f + 1;
  return x;
}

// What a rank has for a collective, which changes with each: whole numbers, whose sums over thousands of ranks a double
// holds exactly.
LANYARD_DEVICE_FUNCTION double contribution(uint64_t round, uint64_t rank, uint64_t element) {
  constexpr uint64_t kRounds = uint64_t{1} << 20;
  return static_cast<double>(round % kRounds * 1000003 + rank * 7919 + element);
}

// Writes it. Rounds are counted in the stream's memory, as the kernel's arguments are the same whenever a graph replays
// it.
struct ContributionKernel {
  double* to = nullptr;
  size_t count = 0;
  uint64_t rank = 0;
  uint64_t* rounds = nullptr;       // so far; this one is the next
  uint32_t* blocks_done = nullptr;  // 0 between kernels; GPUs only
};

// Packs a message, into the receiver's buffer where it may, and starts it; by several blocks.
struct SendKernel {
  size_t bytes = 0;                               // of the message
  const MPIX_Device_requests* receive = nullptr;  // started too; null: none
  const MPIX_Device_requests* send = nullptr;     // of one message; null: none
  CopyKernel pack{};                              // into the send's buffer; of 0 bytes: it is there
};

// Waits for messages, and unpacks one; by several blocks.
struct WaitKernel {
  size_t bytes = 0;                                // of the longest message
  const MPIX_Device_requests* sent = nullptr;      // waited for; null: none
  const MPIX_Device_requests* received = nullptr;  // likewise
  CopyKernel unpack{};                             // of 0 bytes: none
};

// The body of that kernel, for each of its threads. `thread` copies together with the others, copy(CopyKernel), which
// begins and ends with a barrier of all.
template <class Thread>
LANYARD_DEVICE_FUNCTION void make_trips(const TripsKernel& kernel, const Thread& thread) {
  const auto start = [&](const MPIX_Device_requests* set) {
    if (set != nullptr)
      MPIX_Device_block_startall(set, 0, 1);
  };
  const auto wait = [&](const MPIX_Device_requests* set) {
    if (set != nullptr)
      MPIX_Device_block_waitall(set, 1);
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
      copy(s.pack);
      start(s.send);
      start(s.receive);
      wait(s.send);
      wait(s.receive);
      copy(s.unpack);
    } else {
      wait(s.receive);
      copy(s.unpack);
      copy(s.pack);
      start(s.send);
      // Off the way of the pong; and here before the other side has seen that.
      if (i + 1 < kernel.iterations)
        start(slot(i + 1).receive);
      wait(s.send);
    }
  }
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_KERNELS_H_
