// Stream: an in-order stream, of a GPU or of the host, and the benchmarks' kernels as their
// arguments: plain data that host streams take by address and GPUs by value. No MPI: vendors'
// compilers read this file too.
#ifndef LANYARD_BENCH_STREAM_H_
#define LANYARD_BENCH_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <lanyard/lanyard_device.h>
#include "bench/halo/stream.h"

namespace lanyard::bench {

// ---- Kernels

struct CopyKernel {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t bytes = 0;
};

// One generation of the Game of Life, from `from`, whose ghosts are filled, to the owned cells of
// `to`. Both have ghosts, one around. A cell is an unsigned integer of 1 or 8 bytes: 0 dead, 1
// alive.
struct LifeKernel {
  const void* from = nullptr;
  void* to = nullptr;
  int cell_bytes = 1;
  long rows = 0;  // owned, as are the columns
  long columns = 0;
};

// Slabs of one step of Jacobi's method: of a plane its rows, of a cube its planes. Slabs `first`,
// `first` + `step` and so on, `count` of them, from `from`, whose ghosts are filled, to `to`.
struct JacobiKernel {
  const void* from = nullptr;  // the first owned cell, as of `to`
  void* to = nullptr;
  int dims = 2;
  int cell_bytes = 8;                    // float or double
  long slab_stride = 0, row_stride = 0;  // in cells
  long rows = 1, columns = 0;            // of a slab; in two dimensions it has one row
  long first = 0, step = 1, count = 0;
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

// ---- Streams

// Work that was captured and can be enqueued again and again.
using Graph = std::shared_ptr<void>;

using halo::AlignedBuffer;

// What a GPU's stream has beyond the host's: memory of its own, and graphs.
class Gpu : public halo::Device {
 public:
  virtual std::string device_name() const = 0;
  // Its place on the host's bus.
  virtual std::string device_place() const = 0;

  // What is enqueued between the two is captured, not run.
  virtual void begin_capture() = 0;
  virtual Graph end_capture() = 0;
  // Enqueues a graph that was captured from this stream.
  virtual void replay(const Graph& graph) = 0;
};

// One thread at a time. Errors of the stream end the job.
class Stream : public halo::Stream {
 public:
  enum class Kind { kHost, kCuda, kHip };

  virtual Kind kind() const = 0;
  // Of a GPU, as MPIX_Queue_init takes it; null for a host stream.
  virtual void* address() { return nullptr; }

  // Enqueue a kernel. Its arguments must live until it has run. All memory is the GPU's where there
  // is one.
  using halo::Stream::launch;
  virtual void launch(const CopyKernel& kernel) = 0;
  virtual void launch(const JacobiKernel& kernel) = 0;
  virtual void launch(const LifeKernel& kernel) = 0;
  virtual void launch(const TripsKernel& kernel) = 0;

  // Null for a host stream.
  Gpu* gpu() override { return nullptr; }
};

// A new stream on the GPU with the number local_rank modulo their number, which is current for the
// calling thread from then on. Null, and `why` says why: the build has no code for GPUs, or the
// machine has none.
std::unique_ptr<Stream> open_gpu_stream(int local_rank, std::string& why);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAM_H_
