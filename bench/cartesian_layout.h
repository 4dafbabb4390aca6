// Ranks in a periodic rectangle, and the rows and columns of a global grid that each of them owns.
//
// rank = y * ranks_x + x; x counts columns of ranks, y rows. Row and column counts need not divide
// evenly: the first ranks of a direction own one more. Any shape is allowed, 1 x 1 included: then a
// rank is its own neighbour in all eight directions, and in general several directions may lead to
// one rank.
#ifndef LANYARD_BENCH_CARTESIAN_LAYOUT_H_
#define LANYARD_BENCH_CARTESIAN_LAYOUT_H_

#include <array>
#include <cstddef>

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

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CARTESIAN_LAYOUT_H_
