// Conway's Game of Life on a torus: how a grid starts, and an independent serial reference.
#ifndef LANYARD_BENCH_LIFE_H_
#define LANYARD_BENCH_LIFE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "bench/payload.h"

namespace lanyard::bench {

using Cell = uint8_t;  // 0 dead, 1 alive

// How a grid starts, by row and column. Any rank can tell any cell.
using LifePattern = std::function<Cell(long, long)>;

// Alive with probability `density`, by a hash of seed and cell.
inline LifePattern random_life(uint64_t seed, double density, long columns) {
  const auto threshold = static_cast<uint64_t>(density * 0x1p53);  // of the hash's upper 53 bits
  return [=, mixed = mix(seed)](long row, long column) -> Cell {
    return mix(mixed ^ static_cast<uint64_t>(row * columns + column)) >> 11 < threshold;
  };
}

// One glider a kGliderSpacing x kGliderSpacing tile, all flying down and right: one row and one
// column in four generations. They keep their distance, so they never meet. Requires at least
// kGliderSpacing rows and columns.
constexpr long kGliderSpacing = 8;
inline LifePattern gliders(long rows, long columns) {
  return [=](long row, long column) -> Cell {
    constexpr Cell kGlider[3][3] = {{0, 1, 0}, {0, 0, 1}, {1, 1, 1}};
    if (row / kGliderSpacing >= rows / kGliderSpacing || column / kGliderSpacing >= columns / kGliderSpacing)
      return 0;
    const long r = row % kGliderSpacing, c = column % kGliderSpacing;
    return r < 3 && c < 3 ? kGlider[r][c] : Cell{0};
  };
}

// Of each cell of a row, the sum of itself and its neighbours left and right.
inline void add_up(const Cell* __restrict row, Cell* __restrict sums, long columns) {
  for (long c = 1; c + 1 < columns; ++c)
    sums[c] = static_cast<Cell>(row[c - 1] + row[c] + row[c + 1]);
  for (const long c : {0L, columns - 1})
    sums[c] = static_cast<Cell>(row[(c + columns - 1) % columns] + row[c] + row[(c + 1) % columns]);
}

// A cell is alive next if three cells of its 3x3 block are alive, or four with itself among them.
inline void next_row(const Cell* __restrict above, const Cell* __restrict here, const Cell* __restrict below,
                     const Cell* __restrict row, Cell* __restrict out, long columns) {
  for (long c = 0; c < columns; ++c) {
    const int sum = above[c] + here[c] + below[c];
    out[c] = static_cast<Cell>((sum == 3) | ((sum == 4) & row[c]));
  }
}

// The whole grid after `steps` generations, row-major, computed on one core from sums of three
// cells of a row. Shares neither code nor method with the kernels.
inline std::vector<Cell> life_reference(const LifePattern& pattern, long rows, long columns, long steps) {
  std::vector<Cell> now;
  for (long r = 0; r < rows; ++r)
    for (long c = 0; c < columns; ++c)
      now.push_back(pattern(r, c));
  std::vector<Cell> next(now.size()), sums(now.size());
  for (long step = 0; step < steps; ++step) {
    const auto sum = [&](long r) { return &sums[static_cast<size_t>((r + rows) % rows * columns)]; };
    for (long r = 0; r < rows; ++r)
      add_up(&now[static_cast<size_t>(r * columns)], sum(r), columns);
    for (long r = 0; r < rows; ++r)
      next_row(sum(r - 1), sum(r), sum(r + 1), &now[static_cast<size_t>(r * columns)],
               &next[static_cast<size_t>(r * columns)], columns);
    std::swap(now, next);
  }
  return now;
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_LIFE_H_
