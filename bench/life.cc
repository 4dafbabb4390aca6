#include "bench/life.h"

#include <fmt/format.h>

#include <utility>

#include "bench/payload.h"

namespace lanyard::bench {

namespace {

template <class T>
void next_generation(const LifeKernel& step) {
  const long columns = step.columns, stride = columns + 2;
  for (long r = 0; r < step.rows; ++r) {
    const T* __restrict above = reinterpret_cast<const T*>(step.from) + r * stride + 1;
    const T* __restrict here = above + stride;
    const T* __restrict below = here + stride;
    T* __restrict out = reinterpret_cast<T*>(step.to) + (r + 1) * stride + 1;
    for (long c = 0; c < columns; ++c) {
      const auto neighbours =
          above[c - 1] + above[c] + above[c + 1] + here[c - 1] + here[c + 1] + below[c - 1] + below[c] + below[c + 1];
      out[c] = static_cast<T>((neighbours | here[c]) == 3);  // 3, or 2 and alive
    }
  }
}

}  // namespace

void life_kernel(void* argument) {
  const LifeKernel& step = *static_cast<const LifeKernel*>(argument);
  step.cell_bytes == 1 ? next_generation<uint8_t>(step) : next_generation<uint64_t>(step);
}

LifePattern LifePattern::random(uint64_t seed, double density) {
  LifePattern pattern;
  pattern.seed_ = mix(seed);
  pattern.threshold_ = static_cast<uint64_t>(density * static_cast<double>(uint64_t{1} << 53));
  return pattern;
}

LifePattern LifePattern::gliders(long rows, long columns) {
  LifePattern pattern;
  pattern.is_random_ = false;
  pattern.glider_rows_ = rows / kGliderSpacing;
  pattern.glider_columns_ = columns / kGliderSpacing;
  return pattern;
}

Cell LifePattern::at(long row, long column, long columns) const {
  if (is_random_) {
    const uint64_t cell = static_cast<uint64_t>(row) * static_cast<uint64_t>(columns) + static_cast<uint64_t>(column);
    return mix(seed_ ^ cell) >> 11 < threshold_;
  }
  if (row / kGliderSpacing >= glider_rows_ || column / kGliderSpacing >= glider_columns_)
    return 0;
  static constexpr Cell kGlider[3][3] = {{0, 1, 0}, {0, 0, 1}, {1, 1, 1}};
  const long r = row % kGliderSpacing, c = column % kGliderSpacing;
  return r < 3 && c < 3 ? kGlider[r][c] : Cell{0};
}

LifeGrid LifePattern::grid(long rows, long columns) const {
  LifeGrid grid(rows, columns);
  for (long r = 0; r < rows; ++r)
    for (long c = 0; c < columns; ++c)
      grid.at(r, c) = at(r, c, columns);
  return grid;
}

namespace {

// Of each cell of a row, the sum of itself and its neighbours left and right.
void add_up(const Cell* __restrict row, Cell* __restrict sums, long columns) {
  for (long c = 1; c + 1 < columns; ++c)
    sums[c] = static_cast<Cell>(row[c - 1] + row[c] + row[c + 1]);
  for (const long c : {0L, columns - 1})
    sums[c] = static_cast<Cell>(row[(c + columns - 1) % columns] + row[c] + row[(c + 1) % columns]);
}

// A cell is alive next if three cells of its 3x3 block are alive, or four with itself among them.
void next_row(const Cell* __restrict above, const Cell* __restrict here, const Cell* __restrict below,
              const Cell* __restrict row, Cell* __restrict out, long columns) {
  for (long c = 0; c < columns; ++c) {
    const int sum = above[c] + here[c] + below[c];
    out[c] = static_cast<Cell>((sum == 3) | ((sum == 4) & row[c]));
  }
}

}  // namespace

LifeGrid life_reference(const LifeGrid& start, long steps) {
  LifeGrid now = start, next = start, sums = start;
  for (long step = 0; step < steps; ++step) {
    for (long r = 0; r < now.rows; ++r)
      add_up(&now.at(r, 0), &sums.at(r, 0), now.columns);
    for (long r = 0; r < now.rows; ++r)
      next_row(&sums.at((r + now.rows - 1) % now.rows, 0), &sums.at(r, 0), &sums.at((r + 1) % now.rows, 0),
               &now.at(r, 0), &next.at(r, 0), now.columns);
    std::swap(now, next);
  }
  return now;
}

LifeGrid life_shifted(const LifeGrid& grid, long by) {
  LifeGrid shifted(grid.rows, grid.columns);
  for (long r = 0; r < grid.rows; ++r)
    for (long c = 0; c < grid.columns; ++c)
      shifted.at((r + by) % grid.rows, (c + by) % grid.columns) = grid.at(r, c);
  return shifted;
}

std::string first_difference(const LifeGrid& found, const LifeGrid& expected) {
  for (long r = 0; r < found.rows; ++r)
    for (long c = 0; c < found.columns; ++c)
      if (found.at(r, c) != expected.at(r, c))
        return fmt::format("cell ({}, {}) is {}, should be {}", r, c, found.at(r, c), expected.at(r, c));
  return "";
}

}  // namespace lanyard::bench
