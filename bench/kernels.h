// The benchmarks' kernels as their arguments: plain data that host streams take by address and GPUs
// by value. No MPI: vendors' compilers read it too.
#ifndef LANYARD_BENCH_KERNELS_H_
#define LANYARD_BENCH_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include <lanyard/lanyard_device.h>

namespace lanyard::bench {

struct CopyKernel {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t bytes = 0;
};

// One generation of the Game of Life, from `from`, whose ghosts are filled, to the owned cells of
// `to`. Both have ghosts, one around. A cell is an unsigned integer of 1 or 8 bytes: 0 dead, 1
// alive.
struct LifeKernel {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int cell_bytes = 1;
  long rows = 0;  // owned, as are the columns
  long columns = 0;
};

// Slabs of one step of Jacobi's method: of a plane its rows, of a cube its planes. Slabs `first`,
// `first` + `step` and so on, `count` of them, from `from`, whose ghosts are filled, to `to`.
struct JacobiKernel {
  const std::byte* from = nullptr;  // the first owned cell, as of `to`
  std::byte* to = nullptr;
  int dims = 2;
  int cell_bytes = 8;                    // float or double
  long slab_stride = 0, row_stride = 0;  // in cells
  long rows = 1, columns = 0;            // of a slab; in two dimensions it has one row
  long first = 0, step = 1, count = 0;
  void (*on_host)(void* jacobi_kernel) = nullptr;  // what host streams run
};

// A cell's next value. The sums have one order everywhere, so results are the same bit by bit.
template <class T>
LANYARD_DEVICE_FUNCTION T jacobi_next(const T* cell, const JacobiKernel& kernel) {
  const long slab = kernel.slab_stride, row = kernel.row_stride;
  if (kernel.dims == 2)
    return (((cell[1] + cell[-1]) + cell[-slab]) + cell[slab]) * T(0.25);
  return (((((cell[1] + cell[-1]) + cell[-row]) + cell[row]) + cell[-slab]) + cell[slab]) / T(6);
}

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
