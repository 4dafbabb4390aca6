// Jacobi's kernels as their arguments and the bodies that host streams and GPUs share. No MPI: vendors' compilers read
// it too.
//
// A cell's next value is the mean of its neighbours, summed up in one order everywhere, so that results are equal bit
// by bit: (below + above) + (left + right) in a plane, in three dimensions (before + behind) first. It is multiplied by
// the rounded 1/4 or 1/6; no product is followed by a sum that a compiler might fuse it with.
#ifndef LANYARD_BENCH_JACOBI_KERNELS_H_
#define LANYARD_BENCH_JACOBI_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include <lanyard/lanyard_device.h>
#include "bench/kernels.h"

namespace lanyard::bench {

// The faces of a block: towards lower planes, rows, columns, then higher columns, rows, planes. A direction's opposite
// is kFaces - 1 less it.
constexpr int kFaces = 6;

// A block of cells with ghosts: a ring around each plane, and in three dimensions a plane before and one behind.
struct JacobiShape {
  int dims = 2;
  int item_bytes = 8;  // float or double
  long planes = 1;     // owned, as are rows and columns; one plane in two dimensions
  long rows = 0;
  long columns = 0;

  LANYARD_HOST_AND_DEVICE long stride() const { return columns + 2; }
  LANYARD_HOST_AND_DEVICE long plane_stride() const { return dims == 3 ? (rows + 2) * stride() : 0; }
  LANYARD_HOST_AND_DEVICE long origin() const { return plane_stride() + stride() + 1; }
  LANYARD_HOST_AND_DEVICE long cells() const { return planes * rows * columns; }
  // Ghosts included.
  long all_cells() const { return (dims == 3 ? planes + 2 : 1) * (rows + 2) * stride(); }
};

// One step from `from`, whose ghosts are filled, to the owned cells of `to`.
struct JacobiKernel {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  JacobiShape shape;
  void (*on_host)(void* jacobi_kernel) = nullptr;
};

template <class T>
LANYARD_DEVICE_FUNCTION T jacobi_weight(int dims) {
  return dims == 3 ? T(1) / T(6) : T(1) / T(4);
}

template <class T>
LANYARD_DEVICE_FUNCTION T jacobi_next(const T* here, long stride, long plane_stride) {
  if (plane_stride == 0)
    return ((here[-stride] + here[stride]) + (here[-1] + here[1])) * jacobi_weight<T>(2);
  return (((here[-plane_stride] + here[plane_stride]) + (here[-stride] + here[stride])) + (here[-1] + here[1])) *
         jacobi_weight<T>(3);
}

// All steps in one kernel, by blocks of threads of two kinds, after the CPU-free model: some wait for the neighbours'
// faces, compute the cells that lie at those, put them into messages and start these; the others compute the rest
// meanwhile. Then all blocks meet.
//
// Step k waits for exchange k, reads the ghosts where they have come, and writes the messages of exchange k + 1 as it
// computes; the first one's are written before. The receives of k + 1 are started before: they are of the other set,
// whose messages all have read in step k - 1, before the blocks met.
struct JacobiLoop {
  std::byte* cells[2] = {};  // of the two generations in turn, the first one's ghosts at fixed boundaries filled
  JacobiShape shape;
  KernelMessages messages;  // by face
  // Of faces without a message: whether the block goes on at its other end. Else the ghosts there are a fixed boundary.
  bool wraps[kFaces] = {};
  // What the blocks with messages compute, which does not overlap, and the rest; in the block's places.
  int slab_count = 0;
  Region slabs[kFaces];
  Region inner;
  uint64_t steps = 0;
  bool computes = true;     // else messages and ghosts move and cells stay, all of them in the first generation's place
  uint64_t* met = nullptr;  // how often blocks have come to meet: 0 when the kernel begins
  void (*on_host)(void* jacobi_loop) = nullptr;
};

// One step of one thread, or of several in turn.
template <class T>
class JacobiCells {
 public:
  LANYARD_HOST_AND_DEVICE JacobiCells(const JacobiLoop& loop, uint64_t step)
      : loop_(loop),
        from_(reinterpret_cast<T*>(loop.cells[loop.computes ? step % 2 : 0])),
        to_(reinterpret_cast<T*>(loop.cells[loop.computes ? (step + 1) % 2 : 0])),
        set_(static_cast<int>(step % 2)),
        sends_(step + 1 < loop.steps) {}

  // A cell of a slab or the rest, in the next generation and in the messages; or these alone.
  LANYARD_HOST_AND_DEVICE void visit(long plane, long row, long column) const {
    const Place here = place(plane, row, column);
    if (loop_.computes && is_inside(here)) {
      to_[here.offset] = jacobi_next(from_ + here.offset, loop_.shape.stride(), loop_.shape.plane_stride());
      return;
    }
    if (loop_.computes)
      to_[here.offset] = next(here);
    else
      fill_ghosts(here);
    if (sends_)
      put_into_messages(here, to_[here.offset]);
  }
  // A cell of the first generation, into the messages.
  LANYARD_HOST_AND_DEVICE void send_first(long plane, long row, long column) const {
    const Place here = place(plane, row, column);
    put_into_messages(here, from_[here.offset]);
  }

 private:
  struct Place {
    long at[3];   // plane, row, column
    long offset;  // in the block
  };

  LANYARD_HOST_AND_DEVICE static int axis(int face) { return face < kFaces / 2 ? face : kFaces - 1 - face; }
  LANYARD_HOST_AND_DEVICE static bool is_low(int face) { return face < kFaces / 2; }
  LANYARD_HOST_AND_DEVICE long count(int axis) const {
    return axis == 0 ? loop_.shape.planes : axis == 1 ? loop_.shape.rows : loop_.shape.columns;
  }
  LANYARD_HOST_AND_DEVICE long step(int axis) const {
    return axis == 0 ? loop_.shape.plane_stride() : axis == 1 ? loop_.shape.stride() : 1;
  }
  LANYARD_HOST_AND_DEVICE Place place(long plane, long row, long column) const {
    return {{plane, row, column},
            loop_.shape.origin() + plane * loop_.shape.plane_stride() + row * loop_.shape.stride() + column};
  }
  LANYARD_HOST_AND_DEVICE bool is_at(const Place& here, int face) const {
    return here.at[axis(face)] == (is_low(face) ? 0 : count(axis(face)) - 1);
  }
  // At no face, as most cells are.
  LANYARD_HOST_AND_DEVICE bool is_inside(const Place& here) const {
    for (int a = loop_.shape.dims == 3 ? 0 : 1; a < 3; ++a)
      if (here.at[a] == 0 || here.at[a] == count(a) - 1)
        return false;
    return true;
  }
  // In that face's message, which has the face's cells by plane, row and column.
  LANYARD_HOST_AND_DEVICE long index(const Place& here, int face) const {
    const int a = axis(face);
    return a == 0   ? here.at[1] * loop_.shape.columns + here.at[2]
           : a == 1 ? here.at[0] * loop_.shape.columns + here.at[2]
                    : here.at[0] * loop_.shape.rows + here.at[1];
  }

  LANYARD_HOST_AND_DEVICE T neighbour(const Place& here, int face) const {
    const int a = axis(face);
    const long there = is_low(face) ? -step(a) : step(a);
    if (is_at(here, face)) {
      if (loop_.messages.in[set_][face] != nullptr)
        return reinterpret_cast<const T*>(loop_.messages.in[set_][face])[index(here, face)];
      if (loop_.wraps[face])
        return from_[here.offset + there - count(a) * there];
    }
    return from_[here.offset + there];
  }
  LANYARD_HOST_AND_DEVICE T pair(const Place& here, int face) const {
    return neighbour(here, face) + neighbour(here, kFaces - 1 - face);
  }
  // As jacobi_next.
  LANYARD_HOST_AND_DEVICE T next(const Place& here) const {
    if (loop_.shape.dims == 2)
      return (pair(here, 1) + pair(here, 2)) * jacobi_weight<T>(2);
    return ((pair(here, 0) + pair(here, 1)) + pair(here, 2)) * jacobi_weight<T>(3);
  }
  LANYARD_HOST_AND_DEVICE void fill_ghosts(const Place& here) const {
    for (int face = 0; face < kFaces; ++face)
      if (loop_.messages.in[set_][face] != nullptr && is_at(here, face))
        from_[here.offset + (is_low(face) ? -step(axis(face)) : step(axis(face)))] =
            reinterpret_cast<const T*>(loop_.messages.in[set_][face])[index(here, face)];
  }
  LANYARD_HOST_AND_DEVICE void put_into_messages(const Place& here, T value) const {
    for (int face = 0; face < kFaces; ++face)
      if (loop_.messages.out[face] != nullptr && is_at(here, face))
        reinterpret_cast<T*>(loop_.messages.out[face])[index(here, face)] = value;
  }

  const JacobiLoop& loop_;
  T* const from_;
  T* const to_;
  const int set_;
  const bool sends_;
};

// The body of that kernel, for each of its threads. `team` has
//   which(), blocks()         this block of those with messages, from 0; not one of these where which() >= blocks()
//   is_inner()                whether this block computes the rest
//   for_cells(region, visit)  visit(plane, row, column) by all threads of all blocks of this one's kind, each cell once
//   meet(times)               returns when all blocks have called it so often
template <class T, class Team>
LANYARD_DEVICE_FUNCTION void jacobi_loop(const JacobiLoop& loop, const Team& team) {
  const bool has_messages = team.which() < team.blocks();
  const auto start = [&](const MPIX_Device_requests* set) {
    if (set != nullptr)
      MPIX_Device_block_startall(set, team.which(), team.blocks());
  };
  const auto wait = [&](const MPIX_Device_requests* set) {
    if (set != nullptr)
      MPIX_Device_block_waitall(set, team.blocks());
  };
  if (has_messages) {
    const JacobiCells<T> cells(loop, 0);
    start(loop.messages.receives[0]);
    for (int i = 0; i < loop.slab_count; ++i)
      team.for_cells(loop.slabs[i], [&](long p, long r, long c) { cells.send_first(p, r, c); });
    start(loop.messages.sends[0]);
  }
  for (uint64_t k = 0; k < loop.steps; ++k) {
    const JacobiCells<T> cells(loop, k);
    const auto visit = [&](long p, long r, long c) { cells.visit(p, r, c); };
    if (has_messages) {
      if (k + 1 < loop.steps)
        start(loop.messages.receives[(k + 1) % 2]);
      wait(loop.messages.sends[k % 2]);
      wait(loop.messages.receives[k % 2]);
      for (int i = 0; i < loop.slab_count; ++i)
        team.for_cells(loop.slabs[i], visit);
      if (k + 1 < loop.steps)
        start(loop.messages.sends[(k + 1) % 2]);
    }
    if (team.is_inner() && loop.computes)
      team.for_cells(loop.inner, visit);
    team.meet(k + 1);
  }
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_JACOBI_KERNELS_H_
