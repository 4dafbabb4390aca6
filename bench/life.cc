#include "bench/life.h"

#include <fmt/format.h>

#include "bench/payload.h"

namespace lanyard::bench {

void life_kernel(void* argument) {
  const LifeKernel& step = *static_cast<const LifeKernel*>(argument);
  const long columns = step.columns, stride = columns + 2;
  for (long r = 0; r < step.rows; ++r) {
    const Cell* __restrict above = step.from + r * stride + 1;
    const Cell* __restrict here = above + stride;
    const Cell* __restrict below = here + stride;
    Cell* __restrict out = step.to + (r + 1) * stride + 1;
    for (long c = 0; c < columns; ++c) {
      const int neighbours =
          above[c - 1] + above[c] + above[c + 1] + here[c - 1] + here[c + 1] + below[c - 1] + below[c] + below[c + 1];
      out[c] = static_cast<Cell>((neighbours | here[c]) == 3);  // 3, or 2 and alive
    }
  }
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

using Words = std::vector<uint64_t>;

// A row of cells as bits, cell c in bit c % 64 of word c / 64; bits beyond the last cell are 0.
class BitRows {
 public:
  explicit BitRows(const LifeGrid& grid)
      : rows_(grid.rows),
        columns_(grid.columns),
        row_words_((grid.columns + 63) / 64),
        words_(static_cast<size_t>(rows_ * row_words_)) {
    for (long r = 0; r < rows_; ++r)
      for (long c = 0; c < columns_; ++c)
        row(r)[c / 64] |= static_cast<uint64_t>(grid.at(r, c)) << (c % 64);
  }

  LifeGrid grid() const {
    LifeGrid grid(rows_, columns_);
    for (long r = 0; r < rows_; ++r)
      for (long c = 0; c < columns_; ++c)
        grid.at(r, c) = row(r)[c / 64] >> (c % 64) & 1;
    return grid;
  }

  long rows() const { return rows_; }
  long row_words() const { return row_words_; }
  const uint64_t* row(long r) const { return &words_[static_cast<size_t>(r * row_words_)]; }
  uint64_t* row(long r) { return &words_[static_cast<size_t>(r * row_words_)]; }

  // Of each cell of row r, itself and its neighbours left and right added up: ones + 2 twos.
  void add_up(long r, Words& ones, Words& twos) const {
    const uint64_t* x = row(r);
    const long last = row_words_ - 1, last_bit = (columns_ - 1) % 64;
    for (long w = 0; w <= last; ++w) {
      const uint64_t before = w > 0 ? x[w - 1] >> 63 : x[last] >> last_bit & 1;
      uint64_t left = x[w] << 1 | before;
      uint64_t right = x[w] >> 1;
      if (w < last)
        right |= x[w + 1] << 63;
      else
        right |= (x[0] & 1) << last_bit;
      if (w == last)
        left &= last_mask();
      ones[static_cast<size_t>(w)] = left ^ x[w] ^ right;
      twos[static_cast<size_t>(w)] = (left & x[w]) | (x[w] & right) | (left & right);
    }
  }

 private:
  uint64_t last_mask() const { return columns_ % 64 == 0 ? ~uint64_t{0} : (uint64_t{1} << (columns_ % 64)) - 1; }

  long rows_;
  long columns_;
  long row_words_;
  Words words_;
};

struct RowSums {
  explicit RowSums(long words) : ones(static_cast<size_t>(words)), twos(ones.size()) {}
  Words ones, twos;
};

// Alive next: three alive of the nine cells around and in the middle, or four and the middle one
// among them.
void next_row(const RowSums& above, const RowSums& here, const RowSums& below, const uint64_t* x, uint64_t* out) {
  for (size_t w = 0; w < here.ones.size(); ++w) {
    const uint64_t a = above.ones[w], b = here.ones[w], c = below.ones[w];
    const uint64_t odd = a ^ b ^ c;
    // The sum is odd + 2 n, where n counts the set among these four.
    const uint64_t p = (a & b) | (b & c) | (a & c), q = above.twos[w];
    const uint64_t r = here.twos[w], s = below.twos[w];
    const uint64_t pq = p ^ q, pq2 = p & q, rs = r ^ s, rs2 = r & s;
    const uint64_t n_is_1 = (pq ^ rs) & ~(pq2 | rs2);
    const uint64_t n_is_2 = (pq & rs) | ((pq2 ^ rs2) & ~(pq | rs));
    out[w] = (odd & n_is_1) | (~odd & n_is_2 & x[w]);
  }
}

}  // namespace

LifeGrid life_reference(const LifeGrid& start, long steps) {
  BitRows now(start), next(start);
  const long rows = now.rows();
  RowSums first(now.row_words()), above(now.row_words()), here(now.row_words()), below(now.row_words());
  for (long step = 0; step < steps; ++step) {
    now.add_up(rows - 1, above.ones, above.twos);
    now.add_up(0, here.ones, here.twos);
    first = here;
    for (long r = 0; r < rows; ++r) {
      if (r + 1 < rows)
        now.add_up(r + 1, below.ones, below.twos);
      else
        below = first;
      next_row(above, here, below, now.row(r), next.row(r));
      std::swap(above, here);
      std::swap(here, below);
    }
    std::swap(now, next);
  }
  return now.grid();
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
