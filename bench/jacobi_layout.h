// No MPI. Ranks in a box, and the cells of a global grid that each of them owns: two-dimensional grids are of one
// plane.
//
// Axes are planes, rows and columns; rank = (plane * ranks[1] + row) * ranks[2] + column. Counts need not divide
// evenly: the first ranks of an axis own one more. Planes and rows are periodic; columns end at a fixed boundary.
#ifndef LANYARD_BENCH_JACOBI_LAYOUT_H_
#define LANYARD_BENCH_JACOBI_LAYOUT_H_

#include <array>
#include <cstddef>

#include "bench/block.h"
#include "bench/jacobi_kernels.h"

namespace lanyard::bench {

struct JacobiLayout {
  static constexpr size_t kPlanes = 0, kRows = 1, kColumns = 2;  // axes
  static constexpr int kNobody = -1;

  int dims = 2;
  std::array<int, 3> ranks = {1, 1, 1};
  std::array<long, 3> cells = {1, 1, 1};  // of the global grid
  int rank = 0;                           // this process

  JacobiLayout of_rank(int other) const {
    JacobiLayout layout = *this;
    layout.rank = other;
    return layout;
  }
  // Whether every rank owns at least one cell.
  bool is_valid() const {
    return cells[kPlanes] >= ranks[kPlanes] && cells[kRows] >= ranks[kRows] && cells[kColumns] >= ranks[kColumns];
  }

  std::array<int, 3> place() const {
    return {rank / (ranks[kRows] * ranks[kColumns]), rank / ranks[kColumns] % ranks[kRows], rank % ranks[kColumns]};
  }
  Extent mine(size_t axis) const { return split(cells[axis], ranks[axis], place()[axis]); }
  JacobiShape shape(int item_bytes) const {
    return {dims, item_bytes, mine(kPlanes).count, mine(kRows).count, mine(kColumns).count};
  }

  static size_t axis(int face) { return static_cast<size_t>(face < kFaces / 2 ? face : kFaces - 1 - face); }
  static bool is_low(int face) { return face < kFaces / 2; }
  // Two-dimensional grids have nothing before and behind.
  bool is_periodic(int face) const { return axis(face) == kRows || (axis(face) == kPlanes && dims == 3); }
  // Whether this rank's cells go on at their own other end there.
  bool wraps(int face) const { return is_periodic(face) && ranks[axis(face)] == 1; }
  // kNobody where there is no other rank, or a fixed boundary.
  int neighbour(int face) const {
    const size_t a = axis(face);
    std::array<int, 3> there = place();
    there[a] += is_low(face) ? -1 : 1;
    const bool is_outside = there[a] < 0 || there[a] == ranks[a];
    if (wraps(face) || (is_outside && !is_periodic(face)))
      return kNobody;
    there[a] = (there[a] + ranks[a]) % ranks[a];
    return (there[kPlanes] * ranks[kRows] + there[kRows]) * ranks[kColumns] + there[kColumns];
  }
  // Whether a column of ghosts there is a fixed boundary.
  bool is_fixed(int face) const { return axis(face) == kColumns && neighbour(face) == kNobody; }
};

// All that a rank owns.
inline Region whole(const JacobiLayout& layout) {
  const JacobiShape shape = layout.shape(1);
  return {.row = 0, .column = 0, .rows = shape.rows, .columns = shape.columns, .plane = 0, .planes = shape.planes};
}

// Of a region the layer at a face.
inline Region layer(const Region& region, int face) {
  Region layer = region;
  const auto only = [&](long& first, long& count) {
    first += JacobiLayout::is_low(face) ? 0 : count - 1;
    count = 1;
  };
  switch (JacobiLayout::axis(face)) {
    case JacobiLayout::kPlanes: only(layer.plane, layer.planes); break;
    case JacobiLayout::kRows: only(layer.row, layer.rows); break;
    default: only(layer.column, layer.columns); break;
  }
  return layer;
}

// The cells of a block in parts that do not overlap: those at faces with messages, by face (a cell at several is of the
// first), and the rest.
struct JacobiParts {
  std::array<Region, kFaces> slabs;
  Region inner;
};
inline JacobiParts parts(const JacobiLayout& layout) {
  JacobiParts parts{{}, whole(layout)};
  for (int face = 0; face < kFaces; ++face) {
    if (layout.neighbour(face) == JacobiLayout::kNobody || parts.inner.cells() == 0)
      continue;
    parts.slabs[static_cast<size_t>(face)] = layer(parts.inner, face);
    const auto peel = [&](long& first, long& count) {
      first += JacobiLayout::is_low(face) ? 1 : 0;
      --count;
    };
    switch (JacobiLayout::axis(face)) {
      case JacobiLayout::kPlanes: peel(parts.inner.plane, parts.inner.planes); break;
      case JacobiLayout::kRows: peel(parts.inner.row, parts.inner.rows); break;
      default: peel(parts.inner.column, parts.inner.columns); break;
    }
  }
  return parts;
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_JACOBI_LAYOUT_H_
