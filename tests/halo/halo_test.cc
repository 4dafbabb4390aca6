// Halo<Dim>: what each ghost and each owned cell holds after a gather and a scatter, from the
// coordinates alone.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bench/halo/halo.h"
#include "bench/payload.h"
#include "tests/api/mpi_suite.h"

namespace lanyard::halo {
namespace {

constexpr Combine kCombines[] = {Combine::kSum, Combine::kMin, Combine::kMax, Combine::kReplace};
constexpr int kRounds = 5;      // odd, and enough to use both sets of receive buffers twice
constexpr int kDrainAfter = 2;  // begins anew in the middle

template <class T>
T small_number(uint64_t hash) {
  return static_cast<T>(bench::mix(hash) >> 58);
}
// Sums of these are rounded, so that their order matters.
template <>
float small_number<float>(uint64_t hash) {
  return static_cast<float>(bench::mix(hash) >> 40) / 3;
}
template <>
double small_number<double>(uint64_t hash) {
  return static_cast<double>(bench::mix(hash) >> 11) / 3;
}

// One halo of two arrays, in which everything is worked out once more cell by cell.
template <int Dim, class A, class B>
class Checked {
 public:
  using Cell = std::array<long, Dim>;

  Checked(const std::array<bool, Dim>& periodic, const Options& options) : options_(options) {
    grid_ = make_grid<Dim>(MPI_COMM_WORLD, {}, periodic);
    for (size_t d = 0; d < Dim; ++d)  // some blocks are longer
      grid_.cells[d] = grid_.ranks[d] * options.width + (grid_.ranks[d] > 2 ? 2 : 1);
    halo_.emplace(grid_, options, std::vector{cell_type<A>(), cell_type<B>()}, MPI_COMM_WORLD, kernels_,
                  options.mode.way == Mode::kMpi ? LANYARD_QUEUE_NULL : queue_.handle());
    a_.resize(halo_->shape().size());
    b_.resize(halo_->shape().size());
    fields_ = &halo_->bind(a_.data(), b_.data());
  }

  void drain() { halo_->drain(); }

  // Ghosts with an owner have the owner's value, all others their poison.
  void gather(int round) {
    fill([&](const Cell& global) { return key(global, round); }, [](const Cell&) { return ~uint64_t{0}; });
    halo_->enqueue_gather(*fields_);
    halo_->synchronize();
    for_each_cell(grid_, [&](const Cell& local) {
      Cell global;
      const bool has_value = owner_cell(grid_, local, global);
      expect_cell("gather", local, has_value ? key(global, round) : ~uint64_t{0});
    });
  }

  // Each owned cell is 1 and as many as ghosts lie on it.
  void scatter_ones() {
    std::fill(a_.begin(), a_.end(), A(1));
    std::fill(b_.begin(), b_.end(), B(1));
    halo_->enqueue_scatter(*fields_, Combine::kSum);
    halo_->synchronize();
    for_each_cell(grid_, [&](const Cell& local) {
      long expected = 1;
      for (size_t d = 0; is_owned(grid_, local) && d < Dim; ++d) {
        const long ghosts = ghosts_on(d, grid_.mine(d).first + local[d]);
        expected = options_.has_corners ? expected * (1 + ghosts) : expected + ghosts;
      }
      expect_values("scatter of ones", local, A(expected), B(expected));
    });
  }

  // Owned cells are combined with ghosts in the order of ranks; ghosts keep their values.
  void scatter(Combine combine, int round) {
    fill([&](const Cell& global) { return key(global, round); },
         [&](const Cell& local) { return ghost_key(grid_.rank, local, round); });
    halo_->enqueue_scatter(*fields_, combine);
    halo_->synchronize();
    std::vector<A> a(a_.size());
    std::vector<B> b(b_.size());
    for_each_cell(grid_, [&](const Cell& local) {
      const uint64_t k = is_owned(grid_, local) ? key(to_global(local), round) : ghost_key(grid_.rank, local, round);
      a[at(local)] = small_number<A>(k);
      b[at(local)] = small_number<B>(k);
    });
    const int ranks = std::accumulate(grid_.ranks.begin(), grid_.ranks.end(), 1, std::multiplies<>());
    for (int rank = 0; rank < ranks; ++rank) {
      // By the direction in which they lie from here, so from the last that their rank has to its
      // first.
      std::vector<std::tuple<Cell, Cell, Cell>> ghosts;
      const Grid<Dim> other = grid_.of_rank(rank);
      for_each_cell(other, [&](const Cell& local) {
        Cell global;
        if (is_owned(other, local) || !owner_cell(other, local, global))
          return;
        for (size_t d = 0; d < Dim; ++d)
          global[d] -= grid_.mine(d).first;
        if (is_owned(grid_, global))
          ghosts.emplace_back(side(other, local), local, global);
      });
      std::sort(ghosts.begin(), ghosts.end(), std::greater<>());
      for (const auto& [direction, local, here] : ghosts) {
        const uint64_t k = ghost_key(rank, local, round);
        a[at(here)] = combined(combine, a[at(here)], small_number<A>(k));
        b[at(here)] = combined(combine, b[at(here)], small_number<B>(k));
      }
    }
    for_each_cell(grid_, [&](const Cell& local) { expect_values("scatter", local, a[at(local)], b[at(local)]); });
  }

 private:
  template <class T>
  static T combined(Combine combine, T old, T value) {
    return combine == Combine::kSum   ? static_cast<T>(old + value)
           : combine == Combine::kMin ? std::min(old, value)
           : combine == Combine::kMax ? std::max(old, value)
                                      : value;
  }
  static uint64_t key(const Cell& cell, int round) {
    uint64_t hash = static_cast<uint64_t>(round);
    for (long c : cell)
      hash = bench::mix(hash) ^ static_cast<uint64_t>(c + 100);
    return hash;
  }
  static uint64_t ghost_key(int rank, const Cell& local, int round) { return key(local, 1000 * (rank + 1) + round); }

  size_t at(const Cell& local) const { return halo_->shape().at(local); }
  Cell to_global(Cell local) const {
    for (size_t d = 0; d < Dim; ++d)
      local[d] += grid_.mine(d).first;
    return local;
  }
  // All cells and ghosts of a rank's block.
  template <class F>
  void for_each_cell(const Grid<Dim>& grid, F&& f) const {
    Box<Dim> box = grid.owned();
    for (Extent& extent : box)
      extent = {-options_.width, extent.count + 2 * options_.width};
    Cell cell;
    for (size_t d = 0; d < Dim; ++d)
      cell[d] = box[d].first;
    for (long left = box.cells(); left > 0; --left) {
      f(cell);
      for (size_t d = Dim; d-- > 0 && ++cell[d] == box[d].end();)
        cell[d] = box[d].first;
    }
  }
  // -1, 0 or 1 in each dimension: on which side of the owned cells it lies.
  static Cell side(const Grid<Dim>& grid, const Cell& local) {
    Cell side;
    for (size_t d = 0; d < Dim; ++d)
      side[d] = local[d] < 0 ? -1 : local[d] < grid.mine(d).count ? 0 : 1;
    return side;
  }
  static bool is_owned(const Grid<Dim>& grid, const Cell& local) { return side(grid, local) == Cell{}; }
  // Which cell of the whole grid lies there, if the halo reaches it: not behind walls, nor at
  // corners without corners.
  bool owner_cell(const Grid<Dim>& grid, const Cell& local, Cell& global) const {
    const Cell sides = side(grid, local);
    for (size_t d = 0; d < Dim; ++d) {
      global[d] = grid.mine(d).first + local[d];
      if (!grid.periodic[d] && (global[d] < 0 || global[d] >= grid.cells[d]))
        return false;
      global[d] = (global[d] + grid.cells[d]) % grid.cells[d];
    }
    return options_.has_corners || Dim - std::count(sides.begin(), sides.end(), 0) <= 1;
  }
  // How many ghosts of all blocks lie on a coordinate.
  long ghosts_on(size_t d, long coordinate) const {
    long ghosts = 0;
    for (int part = 0; part < grid_.ranks[d]; ++part) {
      const Extent extent = split(grid_.cells[d], grid_.ranks[d], part);
      for (long i = 1; i <= options_.width; ++i)
        for (long ghost : {extent.first - i, extent.end() - 1 + i})
          ghosts += grid_.periodic[d] ? (ghost - coordinate) % grid_.cells[d] == 0 : ghost == coordinate;
    }
    return ghosts;
  }

  template <class Owned, class Ghost>
  void fill(const Owned& owned, const Ghost& ghost) {
    for_each_cell(grid_, [&](const Cell& local) {
      const uint64_t k = is_owned(grid_, local) ? owned(to_global(local)) : ghost(local);
      a_[at(local)] = small_number<A>(k);
      b_[at(local)] = small_number<B>(k);
    });
  }
  void expect_cell(const char* what, const Cell& local, uint64_t key) {
    expect_values(what, local, small_number<A>(key), small_number<B>(key));
  }
  void expect_values(const char* what, const Cell& local, A a, B b) {
    if (wrong_ || (a_[at(local)] == a && b_[at(local)] == b))
      return;
    wrong_ = true;  // the first one tells
    ADD_FAILURE() << what << ", width " << options_.width << ", corners " << options_.has_corners << ", mode "
                  << options_.mode.way << " sets " << options_.mode.sets << ", periodic "
                  << ::testing::PrintToString(grid_.periodic) << ", rank " << grid_.rank << ": local cell "
                  << ::testing::PrintToString(local) << " is " << +a_[at(local)] << " and " << +b_[at(local)]
                  << ", should be " << +a << " and " << +b;
  }

  const Options options_;
  Grid<Dim> grid_;
  lanyard::HostStream stream_;
  lanyard::Queue queue_{stream_};
  HostStream kernels_{stream_};
  std::vector<A> a_;
  std::vector<B> b_;
  std::optional<Halo<Dim>> halo_;
  const typename Halo<Dim>::Fields* fields_ = nullptr;
  bool wrong_ = false;
};

// Every width, every mix of periodic dimensions and walls, with corners and without.
template <int Dim>
void check_geometries() {
  for (int width = 1; width <= 3; ++width)
    for (int mix = 0; mix < 1 << Dim; ++mix)
      for (bool has_corners : {false, true}) {
        std::array<bool, Dim> periodic;
        for (size_t d = 0; d < Dim; ++d)
          periodic[d] = (mix >> d & 1) != 0;
        const Options options{
            .width = width, .has_corners = has_corners, .mode = {Mode::kSend, 2}, .has_scatter = true};
        Checked<Dim, float, double> checked(periodic, options);
        checked.gather(0);
        checked.scatter_ones();
        for (Combine combine : kCombines)
          checked.scatter(combine, static_cast<int>(combine));
      }
}
TEST(HaloGeometries, TwoDimensions) { check_geometries<2>(); }
TEST(HaloGeometries, ThreeDimensions) { check_geometries<3>(); }

// Every mode, several rounds of each, and integers.
template <int Dim>
void check_modes(const std::array<bool, Dim>& periodic) {
  constexpr Mode kModes[] = {{Mode::kMpi, 0},       {Mode::kSend, 0},      {Mode::kSend, 1},
                             {Mode::kSend, 2},      {Mode::kReadySend, 0}, {Mode::kReadySend, 1},
                             {Mode::kReadySend, 2}, {Mode::kCollective, 0}};
  for (const Mode& mode : kModes) {
    Checked<Dim, uint8_t, int64_t> checked(periodic, {.width = 1, .mode = mode, .has_scatter = true, .first_tag = 300});
    for (int round = 0; round < kRounds; ++round) {
      checked.gather(round);
      checked.scatter(kCombines[round % 4], round);
      if (round == kDrainAfter)
        checked.drain();
    }
  }
}
TEST(HaloModes, TwoDimensions) { check_modes<2>({true, true}); }
TEST(HaloModes, ThreeDimensions) { check_modes<3>({false, true, true}); }

std::string refusal(const Options& options, long cells, std::vector<CellType> types) {
  lanyard::HostStream stream;
  HostStream kernels(stream);
  try {
    Halo<2> halo(make_grid<2>(MPI_COMM_WORLD, {cells, 100}, {true, true}), options, types, MPI_COMM_WORLD, kernels);
    float array[1];
    halo.enqueue_scatter(halo.bind(array), Combine::kSum);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// On every rank alike, so that none is left waiting for the others to match.
TEST(HaloMistakes, AreRefusedByName) {
  const Options host{.width = 3, .mode = {Mode::kMpi, 0}};
  const int rows = make_grid<2>(MPI_COMM_WORLD, {}, {}).ranks[0];
  EXPECT_EQ(refusal(host, 3 * rows - 1, {CellType::kFloat}), "halo: dimension 0: " + std::to_string(3 * rows - 1) +
                                                                 " cells on " + std::to_string(rows) +
                                                                 " ranks leave a block with fewer than 3");
  EXPECT_EQ(refusal({.width = 0, .mode = host.mode}, 100, {CellType::kFloat}),
            "halo: a halo is at least 1 cell wide, not 0");
  EXPECT_EQ(refusal({}, 100, {CellType::kFloat}), "halo: this mode needs a queue");
  EXPECT_EQ(refusal(host, 100, {}), "halo: a halo without types of cells");
  for (const Mode mode : {Mode{Mode::kCollective, 2}, Mode{Mode::kMpi, 1}, Mode{Mode::kSend, 3}})
    EXPECT_EQ(refusal({.mode = mode}, 100, {CellType::kFloat}), "halo: this mode has not so many sets");
  EXPECT_EQ(refusal(host, 100, {CellType::kDouble}), "halo: array 0 is not of this halo's type");
  EXPECT_EQ(refusal(host, 100, {CellType::kFloat, CellType::kFloat}),
            "halo: not as many arrays as this halo has types");
  EXPECT_EQ(refusal(host, 100, {CellType::kFloat}), "halo: a scatter of a halo without Options::has_scatter");
}

}  // namespace
}  // namespace lanyard::halo

int main(int argc, char** argv) { return lanyard::mpi_suite::run(&argc, &argv); }
