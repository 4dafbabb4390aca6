// A periodic two-dimensional grid in the hands of several ranks: who owns which cells, who is whose neighbour, and a
// rank's block with its ghosts.
#ifndef LANYARD_BENCH_HALO_BLOCK_H_
#define LANYARD_BENCH_HALO_BLOCK_H_

#include <array>
#include <cstddef>
#include <vector>

namespace lanyard::bench {

// A part of a direction: `count` rows (or columns) from `first` on.
struct Extent {
  long first = 0;
  long count = 0;
};

// Part `index` of `total` split over `parts`.
constexpr Extent split(long total, int parts, int index) {
  const long least = total / parts;
  const long rest = total % parts;
  return {index * least + (index < rest ? index : rest), least + (index < rest ? 1 : 0)};
}

// The eight neighbours, row by row; the opposite of direction d is opposite(d).
struct Direction {
  int dy = 0;
  int dx = 0;
};
constexpr int kDirections = 8;
constexpr std::array<Direction, kDirections> kDirection = {
    {{-1, -1}, {-1, 0}, {-1, 1}, {0, -1}, {0, 1}, {1, -1}, {1, 0}, {1, 1}}};
constexpr int opposite(int direction) { return kDirections - 1 - direction; }

// Ranks in a periodic rectangle: rank = y * ranks_x + x. Counts of rows and columns need not divide evenly: the first
// ranks of a direction own one more. Any shape is allowed, 1 x 1 included: then a rank is its own neighbour in all
// eight directions. In general several directions may lead to one rank.
struct CartesianLayout {
  int ranks_x = 1;
  int ranks_y = 1;
  int rank = 0;   // this process
  long rows = 0;  // of the global grid
  long columns = 0;

  int x() const { return rank % ranks_x; }
  int y() const { return rank / ranks_x; }
  Extent my_rows() const { return split(rows, ranks_y, y()); }
  Extent my_columns() const { return split(columns, ranks_x, x()); }
  CartesianLayout of_rank(int other) const {
    CartesianLayout layout = *this;
    layout.rank = other;
    return layout;
  }
  int neighbour(int direction) const {
    const Direction d = kDirection[static_cast<size_t>(direction)];
    const int ny = (y() + d.dy + ranks_y) % ranks_y;
    const int nx = (x() + d.dx + ranks_x) % ranks_x;
    return ny * ranks_x + nx;
  }
  // Whether every rank owns at least one cell.
  bool is_valid() const { return rows >= ranks_y && columns >= ranks_x; }
};

// A rank's owned cells in row-major order, with a ring of ghost cells of depth 1: row -1, row rows(), column -1 and
// column columns().
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

// A rectangle of a block, in the block's rows and columns.
struct Region {
  long row = 0;
  long column = 0;
  long rows = 0;
  long columns = 0;
  long cells() const { return rows * columns; }
};

// The owned cells that the neighbour in a direction has as ghosts.
inline Region owned_region(int direction, long rows, long columns) {
  const Direction d = kDirection[static_cast<size_t>(direction)];
  const auto along = [](int to, long count) { return to == 0 ? Extent{0, count} : Extent{to < 0 ? 0 : count - 1, 1}; };
  const Extent y = along(d.dy, rows), x = along(d.dx, columns);
  return {y.first, x.first, y.count, x.count};
}
// The ghost cells that the neighbour in a direction owns.
inline Region ghost_region(int direction, long rows, long columns) {
  const Direction d = kDirection[static_cast<size_t>(direction)];
  Region region = owned_region(direction, rows, columns);
  region.row += d.dy;
  region.column += d.dx;
  return region;
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_HALO_BLOCK_H_
