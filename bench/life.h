// Conway's Game of Life on a torus: the step as a kernel on a block, and an independent serial
// reference.
#ifndef LANYARD_BENCH_LIFE_H_
#define LANYARD_BENCH_LIFE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/kernels.h"

namespace lanyard::bench {

// LifeKernel for host streams.
void life_kernel(void* argument);

using Cell = uint8_t;  // of a whole grid: 0 dead, 1 alive

// A whole grid in row-major order.
struct LifeGrid {
  long rows = 0;
  long columns = 0;
  std::vector<Cell> cells;

  LifeGrid(long r, long c) : rows(r), columns(c), cells(static_cast<size_t>(r * c)) {}
  Cell& at(long r, long c) { return cells[static_cast<size_t>(r * columns + c)]; }
  Cell at(long r, long c) const { return cells[static_cast<size_t>(r * columns + c)]; }
};

// How a grid starts. Any rank can tell any cell.
class LifePattern {
 public:
  // Alive with probability `density`, by a hash of seed and cell.
  static LifePattern random(uint64_t seed, double density);
  // One glider a kGliderSpacing x kGliderSpacing tile, all flying down and right: one row and one
  // column in four generations. They keep their distance, so they never meet. Requires at least
  // kGliderSpacing rows and columns.
  static LifePattern gliders(long rows, long columns);
  static constexpr long kGliderSpacing = 8;

  Cell at(long row, long column, long columns) const;
  LifeGrid grid(long rows, long columns) const;

 private:
  bool is_random_ = true;
  uint64_t seed_ = 0;
  uint64_t threshold_ = 0;  // alive where the hash's upper 53 bits are below
  long glider_rows_ = 0;
  long glider_columns_ = 0;
};

// Computes `steps` generations on one core, from sums of three cells of a row. Shares neither code
// nor method with the kernel above.
LifeGrid life_reference(const LifeGrid& start, long steps);

// The grid moved down and right by `by` on the torus.
LifeGrid life_shifted(const LifeGrid& grid, long by);

// The first cell in row-major order that differs, in words; empty when none does.
std::string first_difference(const LifeGrid& found, const LifeGrid& expected);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_LIFE_H_
