// What bench/jacobi computes and what it is checked by: the reference against the closed form, and the kernels of many
// blocks, whose messages are moved by hand, against the reference.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "bench/jacobi_host.h"
#include "bench/jacobi_kernels.h"
#include "bench/jacobi_layout.h"
#include "bench/jacobi_oracle.h"

namespace lanyard::bench {
namespace {

// ---- The oracle

template <class T>
class JacobiOracle : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(JacobiOracle, Types);

TYPED_TEST(JacobiOracle, TheReferenceIsNearTheClosedForm) {
  using T = TypeParam;
  for (const JacobiProblem& problem :
       {JacobiProblem(2, {1, 17, 23}, 1), JacobiProblem(3, {5, 7, 9}, 2), JacobiProblem(3, {1, 3, 1}, 3)}) {
    for (long steps : {0, 1, 2, 500}) {
      const double error = problem.error(problem.reference<T>(steps), steps);
      EXPECT_LE(error, JacobiProblem::tolerance<T>(steps)) << steps;
      // Rounding adds up to little: the mean contracts.
      EXPECT_LE(error, 20 * std::numeric_limits<T>::epsilon()) << steps;
    }
  }
}

TYPED_TEST(JacobiOracle, AStepIsTheMeanOfTheNeighbours) {
  using T = TypeParam;
  const JacobiProblem problem(2, {1, 3, 2}, 1);
  const std::vector<T> before = problem.reference<T>(0), after = problem.reference<T>(1);
  const T boundary = problem.start<T>(problem.wave(0, 1), -1);
  // Row 1, column 0: rows 0 and 2 below and above it, the boundary to its left.
  EXPECT_EQ(after[2], ((before[0] + before[4]) + (boundary + before[3])) * T(0.25));
  // Row 0: row 2 is below it.
  EXPECT_EQ(after[0], ((before[4] + before[2]) + (problem.start<T>(problem.wave(0, 0), -1) + before[1])) * T(0.25));
}

TYPED_TEST(JacobiOracle, TheBoundaryIsTheSine) {
  const JacobiProblem problem(2, {1, 8, 5}, 1);
  EXPECT_EQ(problem.amplitude(-1), 1);
  EXPECT_EQ(problem.amplitude(5), 1);
  EXPECT_NEAR(problem.wave(0, 2), 1, 1e-15);
  EXPECT_NEAR(problem.wave(0, 7), -std::sqrt(0.5), 1e-15);
}

TYPED_TEST(JacobiOracle, OtherGridsAreFound) {
  using T = TypeParam;
  const JacobiProblem problem(3, {4, 6, 5}, 1);
  const std::vector<T> right = problem.reference<T>(10);
  EXPECT_EQ(problem.first_difference(right, right), "");
  std::vector<T> wrong = right;
  wrong[(2 * 6 + 3) * 5 + 4] = std::nextafter(right[(2 * 6 + 3) * 5 + 4], T(2));
  EXPECT_NE(problem.first_difference(wrong, right).find("cell (2, 3, 4) is"), std::string::npos);
  wrong[7] = std::numeric_limits<T>::quiet_NaN();
  EXPECT_NE(problem.first_difference(wrong, right).find("is nan"), std::string::npos);
  EXPECT_GT(problem.error(wrong, 10), JacobiProblem::tolerance<T>(10));
  // As with a ghost that is one step old.
  EXPECT_GT(problem.error(problem.reference<T>(9), 10), JacobiProblem::tolerance<T>(10));
}

// ---- The kernels

struct Split {
  int dims;
  std::array<int, 3> ranks;
  std::array<long, 3> cells;
};

// One rank of a job whose messages a test moves.
template <class T>
class JacobiBlock {
 public:
  JacobiBlock(const JacobiLayout& layout, const JacobiProblem& problem, long steps)
      : layout_(layout), parts_(parts(layout)) {
    loop_.shape = layout.shape(sizeof(T));
    loop_.steps = static_cast<uint64_t>(steps);
    loop_.inner = parts_.inner;
    for (size_t i = 0; i < 2; ++i) {
      cells_[i].assign(static_cast<size_t>(loop_.shape.all_cells()), std::numeric_limits<T>::quiet_NaN());
      loop_.cells[i] = reinterpret_cast<std::byte*>(cells_[i].data());
    }
    for (long p = 0; p < loop_.shape.planes; ++p) {
      for (long r = 0; r < loop_.shape.rows; ++r) {
        const double wave = problem.wave(layout.mine(0).first + p, layout.mine(1).first + r);
        for (long c = 0; c < loop_.shape.columns; ++c)
          at(0, p, r, c) = problem.start<T>(wave, layout.mine(2).first + c);
        for (size_t i = 0; i < 2; ++i) {
          if (layout.is_fixed(2))
            at(i, p, r, -1) = problem.start<T>(wave, -1);
          if (layout.is_fixed(3))
            at(i, p, r, loop_.shape.columns) = problem.start<T>(wave, problem.columns());
        }
      }
    }
    for (int face = 0; face < kFaces; ++face) {
      loop_.wraps[face] = layout.wraps(face);
      if (layout.neighbour(face) == JacobiLayout::kNobody)
        continue;
      const auto f = static_cast<size_t>(face);
      const auto items = static_cast<size_t>(layer(whole(layout), face).cells());
      out_[f].assign(items, std::numeric_limits<T>::quiet_NaN());
      loop_.messages.out[face] = reinterpret_cast<std::byte*>(out_[f].data());
      for (size_t set = 0; set < 2; ++set) {
        in_[set][f].assign(items, std::numeric_limits<T>::quiet_NaN());
        loop_.messages.in[set][face] = reinterpret_cast<std::byte*>(in_[set][f].data());
      }
    }
  }

  const JacobiLayout& layout() const { return layout_; }
  JacobiLoop& loop() { return loop_; }
  T& at(size_t generation, long p, long r, long c) {
    const JacobiShape& shape = loop_.shape;
    return cells_[generation][static_cast<size_t>(shape.origin() + p * shape.plane_stride() + r * shape.stride() + c)];
  }

  void send_first() {
    const JacobiCells<T> cells(loop_, 0);
    for (const Region& slab : parts_.slabs)
      for_cells(slab, [&](long p, long r, long c) { cells.send_first(p, r, c); });
  }
  void step(uint64_t k) {
    const JacobiCells<T> cells(loop_, k);
    const auto visit = [&](long p, long r, long c) { cells.visit(p, r, c); };
    for (const Region& slab : parts_.slabs)
      for_cells(slab, visit);
    if (loop_.computes)
      for_cells(parts_.inner, visit);
  }
  const std::vector<T>& out(int face) const { return out_[static_cast<size_t>(face)]; }
  // Of step k; what it read before is no number any more.
  void receive(uint64_t k, int face, const std::vector<T>& message) {
    in_[k % 2][static_cast<size_t>(face)] = message;
    loop_.messages.in[k % 2][face] = reinterpret_cast<std::byte*>(in_[k % 2][static_cast<size_t>(face)].data());
  }
  long cells_in_parts() const {
    long cells = parts_.inner.cells();
    for (const Region& slab : parts_.slabs)
      cells += slab.cells();
    return cells;
  }

  template <class F>
  static void for_cells(const Region& region, F&& f) {
    for (long p = region.plane; p < region.plane + region.planes; ++p)
      for (long r = region.row; r < region.row + region.rows; ++r)
        for (long c = region.column; c < region.column + region.columns; ++c)
          f(p, r, c);
  }

 private:
  const JacobiLayout layout_;
  const JacobiParts parts_;
  std::array<std::vector<T>, 2> cells_;
  std::array<std::vector<T>, kFaces> out_;
  std::array<std::array<std::vector<T>, kFaces>, 2> in_;
  JacobiLoop loop_;
};

template <class T>
std::vector<JacobiBlock<T>> make_blocks(const Split& split, const JacobiProblem& problem, long steps) {
  std::vector<JacobiBlock<T>> blocks;
  const int ranks = split.ranks[0] * split.ranks[1] * split.ranks[2];
  blocks.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    blocks.emplace_back(JacobiLayout{split.dims, split.ranks, split.cells, rank}, problem, steps);
  return blocks;
}

template <class T>
void move_messages(std::vector<JacobiBlock<T>>& blocks, uint64_t k) {
  for (JacobiBlock<T>& block : blocks)
    for (int face = 0; face < kFaces; ++face)
      if (const int from = block.layout().neighbour(face); from != JacobiLayout::kNobody)
        block.receive(k, face, blocks[static_cast<size_t>(from)].out(kFaces - 1 - face));
}

template <class T>
std::vector<T> grid_of(std::vector<JacobiBlock<T>>& blocks, const JacobiProblem& problem, size_t generation) {
  std::vector<T> grid(static_cast<size_t>(problem.count()));
  for (JacobiBlock<T>& block : blocks) {
    const JacobiLayout& layout = block.layout();
    JacobiBlock<T>::for_cells(whole(layout), [&](long p, long r, long c) {
      const long row = (layout.mine(0).first + p) * problem.rows() + layout.mine(1).first + r;
      grid[static_cast<size_t>(row * problem.columns() + layout.mine(2).first + c)] = block.at(generation, p, r, c);
    });
  }
  return grid;
}

template <class T>
void expect_right(const Split& split) {
  constexpr long kSteps = 9;
  SCOPED_TRACE(testing::Message() << split.dims << " dimensions, " << split.ranks[0] << " x " << split.ranks[1] << " x "
                                  << split.ranks[2] << " ranks");
  const JacobiProblem problem(split.dims, split.cells, 4);
  std::vector<JacobiBlock<T>> blocks = make_blocks<T>(split, problem, kSteps);
  for (JacobiBlock<T>& block : blocks) {
    EXPECT_EQ(block.cells_in_parts(), block.loop().shape.cells());
    block.send_first();
  }
  for (uint64_t k = 0; k < kSteps; ++k) {
    move_messages(blocks, k);
    for (JacobiBlock<T>& block : blocks)
      block.step(k);
  }
  EXPECT_EQ(problem.first_difference(grid_of(blocks, problem, kSteps % 2), problem.reference<T>(kSteps)), "");
}

constexpr Split kSplits[] = {
    {2, {1, 1, 1}, {1, 5, 7}}, {2, {1, 2, 1}, {1, 5, 7}}, {2, {1, 1, 3}, {1, 4, 7}},
    {2, {1, 3, 2}, {1, 7, 5}}, {2, {1, 5, 4}, {1, 5, 4}},  // of one cell each
    {3, {1, 1, 1}, {2, 3, 4}}, {3, {2, 2, 2}, {5, 7, 9}}, {3, {3, 1, 2}, {4, 3, 5}},
    {3, {1, 2, 1}, {1, 5, 3}}, {3, {2, 3, 2}, {2, 3, 2}},
};

TEST(JacobiLoop, BlocksAreAsTheWholeGrid) {
  for (const Split& split : kSplits) {
    expect_right<float>(split);
    expect_right<double>(split);
  }
}

TEST(JacobiLoop, AMessageThatIsOneStepOldShows) {
  const Split split = {2, {1, 2, 1}, {1, 8, 9}};
  const JacobiProblem problem(2, split.cells, 4);
  std::vector<JacobiBlock<double>> blocks = make_blocks<double>(split, problem, 2);
  for (JacobiBlock<double>& block : blocks)
    block.send_first();
  move_messages(blocks, 0);
  move_messages(blocks, 1);
  for (uint64_t k = 0; k < 2; ++k)
    for (JacobiBlock<double>& block : blocks)
      block.step(k);
  EXPECT_NE(problem.first_difference(grid_of(blocks, problem, 0), problem.reference<double>(2)), "");
}

// Without computing the ghosts are filled, and the cells stay.
TEST(JacobiLoop, ExchangesAlone) {
  const Split split = {3, {2, 2, 2}, {5, 7, 9}};
  const JacobiProblem problem(3, split.cells, 4);
  std::vector<JacobiBlock<float>> blocks = make_blocks<float>(split, problem, 3);
  for (JacobiBlock<float>& block : blocks) {
    block.loop().computes = false;
    block.send_first();
  }
  for (uint64_t k = 0; k < 3; ++k) {
    move_messages(blocks, k);
    for (JacobiBlock<float>& block : blocks)
      block.step(k);
  }
  EXPECT_EQ(problem.first_difference(grid_of(blocks, problem, 0), problem.reference<float>(0)), "");
  // Block 0 has the first four of nine columns plus one, its neighbour in rows begins at row 4, in planes at plane 3.
  EXPECT_EQ(blocks[0].at(0, 3, 1, 2), problem.start<float>(problem.wave(3, 1), 2));
  EXPECT_EQ(blocks[0].at(0, 1, -1, 2), problem.start<float>(problem.wave(1, 6), 2));
  EXPECT_EQ(blocks[0].at(0, 1, 1, 5), problem.start<float>(problem.wave(1, 1), 5));
}

// The kernel of host streams as it is run, without anybody to exchange with.
TEST(JacobiLoop, OnAHostStream) {
  const Split split = {3, {1, 1, 1}, {4, 5, 6}};
  const JacobiProblem problem(3, split.cells, 4);
  std::vector<JacobiBlock<double>> blocks = make_blocks<double>(split, problem, 7);
  jacobi_loop_kernel<double>(&blocks[0].loop());
  EXPECT_EQ(problem.first_difference(grid_of(blocks, problem, 1), problem.reference<double>(7)), "");
}

}  // namespace
}  // namespace lanyard::bench
