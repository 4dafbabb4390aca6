// A rank's part of a two-dimensional grid: owned cells in row-major order, with a ring of ghost
// cells of depth 1.
//
// Row -1, row rows(), column -1 and column columns() are ghosts.
#ifndef LANYARD_BENCH_BLOCK_H_
#define LANYARD_BENCH_BLOCK_H_

#include <cstddef>
#include <vector>

#include "bench/cartesian_layout.h"

namespace lanyard::bench {

template <class T>
class Block {
 public:
  Block(long rows, long columns)
      : rows_(rows), columns_(columns), cells_(static_cast<size_t>((rows + 2) * (columns + 2)), T{}) {}

  long rows() const { return rows_; }
  long columns() const { return columns_; }
  long stride() const { return columns_ + 2; }
  // Also for ghosts.
  T& at(long row, long column) { return cells_[offset(row, column)]; }
  const T& at(long row, long column) const { return cells_[offset(row, column)]; }
  T* data() { return cells_.data(); }

 private:
  size_t offset(long row, long column) const { return static_cast<size_t>((row + 1) * stride() + column + 1); }

  long rows_;
  long columns_;
  std::vector<T> cells_;
};

// A rectangle of a block, in the block's rows and columns; of a three-dimensional one the same in several planes.
struct Region {
  long row = 0;
  long column = 0;
  long rows = 0;
  long columns = 0;
  long plane = 0;
  long planes = 1;
  long cells() const { return planes * rows * columns; }
};

namespace block_detail {
// Rows (or columns) of a strip: all of them where the direction is 0, else one at the edge.
constexpr Extent owned_extent(int direction, long count) {
  if (direction == 0)
    return {0, count};
  return {direction < 0 ? 0 : count - 1, 1};
}
constexpr Extent ghost_extent(int direction, long count) {
  if (direction == 0)
    return {0, count};
  return {direction < 0 ? -1 : count, 1};
}
}  // namespace block_detail

// The owned cells that the neighbour in a direction has as ghosts.
inline Region owned_region(int direction, long rows, long columns) {
  const Direction d = kDirection[static_cast<size_t>(direction)];
  const Extent y = block_detail::owned_extent(d.dy, rows);
  const Extent x = block_detail::owned_extent(d.dx, columns);
  return {.row = y.first, .column = x.first, .rows = y.count, .columns = x.count};
}
// The ghost cells that the neighbour in a direction owns.
inline Region ghost_region(int direction, long rows, long columns) {
  const Direction d = kDirection[static_cast<size_t>(direction)];
  const Extent y = block_detail::ghost_extent(d.dy, rows);
  const Extent x = block_detail::ghost_extent(d.dx, columns);
  return {.row = y.first, .column = x.first, .rows = y.count, .columns = x.count};
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_BLOCK_H_
