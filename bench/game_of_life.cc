// Conway's Game of Life with a halo exchange every step, stream-triggered and CPU-driven, after
// CabanaGhost's benchmark (Bridges et al., section VI.A.3). See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/generations.h"
#include "bench/halo/halo.h"
#include "bench/payload.h"
#include "bench/program.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

// ---- How a grid starts, and an independent serial reference

using Cell = uint8_t;  // 0 dead, 1 alive

// How a grid starts, by row and column. Any rank can tell any cell.
using LifePattern = std::function<Cell(long, long)>;

// Alive with probability `density`, by a hash of seed and cell.
LifePattern random_life(uint64_t seed, double density, long columns) {
  const auto threshold = static_cast<uint64_t>(density * 0x1p53);  // of the hash's upper 53 bits
  return [=, mixed = mix(seed)](long row, long column) -> Cell {
    return mix(mixed ^ static_cast<uint64_t>(row * columns + column)) >> 11 < threshold;
  };
}

// One glider a kGliderSpacing x kGliderSpacing tile, all flying down and right: one row and one
// column in four generations. They keep their distance, so they never meet. Requires at least
// kGliderSpacing rows and columns.
constexpr long kGliderSpacing = 8;
LifePattern gliders(long rows, long columns) {
  return [=](long row, long column) -> Cell {
    constexpr Cell kGlider[3][3] = {{0, 1, 0}, {0, 0, 1}, {1, 1, 1}};
    if (row / kGliderSpacing >= rows / kGliderSpacing || column / kGliderSpacing >= columns / kGliderSpacing)
      return 0;
    const long r = row % kGliderSpacing, c = column % kGliderSpacing;
    return r < 3 && c < 3 ? kGlider[r][c] : Cell{0};
  };
}

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

// The whole grid after `steps` generations, row-major, computed on one core from sums of three
// cells of a row. Shares neither code nor method with the kernels.
std::vector<Cell> life_reference(const LifePattern& pattern, long rows, long columns, long steps) {
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

// ---- Options

using halo::Mode;
using Grid = halo::Grid<2>;

struct NamedMode {
  const char* name;
  Mode::Way way;
};
// The baseline first: it runs before there is a network card.
constexpr NamedMode kModes[] = {{"mpi", Mode::kMpi}, {"send", Mode::kSend}, {"rsend", Mode::kReadySend}};

struct Options : LoopOptions {
  std::vector<long> size = {512};
  std::string mode = "all";
  uint64_t seed = 1;
  double density = 0.35;
  std::string pattern = "random";
  std::string verify = "full";
  int cell_bytes = 1;
  std::string exchange = "off";
  bool collective = false;

  long rows() const { return size.front(); }
  long columns() const { return size.back(); }
  // A collective has no ready sends.
  bool wants(const NamedMode& m) const {
    return mode == m.name || (mode == "all" && !(collective && m.way == Mode::kReadySend));
  }
  Mode halo(const NamedMode& m) const {
    if (m.way == Mode::kMpi)
      return {m.way, 0};
    if (collective && m.way == Mode::kSend)
      return {Mode::kCollective, 0};
    return {m.way, exchange == "off" ? 0 : std::stoi(exchange)};
  }
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--size", o.size, "rows and columns of the grid, or one number for both (default: 512)")
      ->expected(1, 2)
      ->check(CLI::Range(1L, kMany));
  app.add_option("--mode", o.mode, "mpi, send, rsend or all (default: all)")
      ->check(CLI::IsMember({"mpi", "send", "rsend", "all"}));
  app.add_option("--seed", o.seed, "of the random pattern (default: 1)");
  app.add_option("--density", o.density, "share of live cells in the random pattern (default: 0.35)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--pattern", o.pattern, "random or gliders (default: random)")
      ->check(CLI::IsMember({"random", "gliders"}));
  app.add_option("--verify", o.verify, "full: every cell against a serial reference; none (default: full)")
      ->check(CLI::IsMember({"full", "none"}));
  app.add_option("--cell-bytes", o.cell_bytes, "bytes of a cell, 1 or 8 (default: 1)")->check(CLI::IsMember({1, 8}));
  app.add_option(
         "--exchange", o.exchange,
         "stream modes: off; or 1: the messages of a step are an exchange; or 2: one with two sets, for steps in "
         "turn (default: off)")
      ->check(CLI::IsMember({"off", "1", "2"}));
  app.add_flag("--collective", o.collective,
               "mode send: the messages of a step are one neighbour collective; all has no rsend then");
  add_loop_options(app, o);
}

// Ranks in a rectangle, the longer side along the longer side of the grid if that fits.
Grid make_grid(const Options& o) {
  Grid grid = halo::make_grid<2>(MPI_COMM_WORLD, {o.rows(), o.columns()}, {true, true});
  std::sort(grid.ranks.begin(), grid.ranks.end(), std::greater<>());
  Grid turned = grid;
  std::swap(turned.ranks[0], turned.ranks[1]);
  const bool fits = grid.mistake(1).empty(), turned_fits = turned.mistake(1).empty();
  return (o.columns() > o.rows() ? turned_fits : !fits) ? turned : grid;
}

// What is wrong with the options; empty when nothing is.
std::string mistake(const Options& o, const Grid& grid) {
  if (!grid.mistake(1).empty())
    return fmt::format("{} x {} cells are too few for {} x {} ranks", o.rows(), o.columns(), grid.ranks[0],
                       grid.ranks[1]);
  if (o.collective && o.mode != "all" && o.mode != "send")
    return fmt::format("--collective is for mode send, not for mode {}", o.mode);
  if (o.collective && o.exchange != "off")
    return "--collective and --exchange exclude each other: a collective's messages are an exchange by themselves";
  if (o.pattern != "gliders")
    return "";
  if (std::min(o.rows(), o.columns()) < kGliderSpacing)
    return fmt::format("--pattern gliders needs at least {} rows and columns", kGliderSpacing);
  if (o.steps % 4 != 0)
    return "--pattern gliders needs --steps that are a multiple of 4";
  return "";
}

// ---- The runs

// T: an unsigned integer, the cell of a block.
template <class T>
class GameOfLife {
 public:
  GameOfLife(const Options& options, const Grid& grid, const MpiProcess& process)
      : options_(options),
        grid_(grid),
        streams_(options.memory == "device", "game_of_life", process),
        process_(process),
        pattern_(options.pattern == "gliders" ? gliders(options.rows(), options.columns())
                                              : random_life(options.seed, options.density, options.columns())) {}

  // The exit status.
  int run() {
    Report report("game_of_life");
    report.fact("mpi", mpi_library());
    report.fact("ranks", process_.ranks());
    report.fact("ranks_y", grid_.ranks[0]);
    report.fact("ranks_x", grid_.ranks[1]);
    streams_.describe(report);
    report.fact("rows", options_.rows());
    report.fact("columns", options_.columns());
    report.fact("cell_bytes", options_.cell_bytes);
    report.fact("steps", options_.steps);
    report.fact("pattern", options_.pattern);
    report.fact("exchange", options_.exchange);
    report.fact("collective", options_.collective);
    double baseline = 0;
    bool is_right = true;  // an unlisted baseline
    for (const NamedMode& mode : kModes) {
      const bool is_baseline = mode.way == Mode::kMpi, is_listed = options_.wants(mode);
      if (!is_baseline && !is_listed)
        continue;
      Json row = measure(mode);
      const double us = row["us_per_step"];
      baseline = is_baseline ? us : baseline;
      row["baseline_us_per_step"] = baseline;
      row["ratio"] = us / baseline;
      // The last column.
      row["verified"] = options_.verify == "full" ? Json(measured_right_) : Json();
      if (is_listed)
        report.add(row);
      else
        is_right = measured_right_;
    }
    add_nic(report, nic_);
    return finish(report, options_.format, process_, is_right);
  }

 private:
  // Returns a row without the columns of the baseline and the check. Sets measured_right_.
  Json measure(const NamedMode& mode) {
    Generations<2, T> cells(grid_, {.mode = options_.halo(mode)}, streams_, options_.batch, MPI_COMM_WORLD);
    const halo::Shape<2>& shape = cells.shape();
    std::array<LifeKernel, 2> kernels;
    for (size_t i = 0; i < 2; ++i)
      kernels[i] = {cells.cells(i), cells.cells(1 - i), sizeof(T), shape.counts[0], shape.counts[1]};
    const auto step = [&](long i) {
      cells.halo().enqueue_gather(cells.fields(i % 2));
      cells.stream().launch(kernels[i % 2]);
    };
    // All but the owned cells of the first generation get a value that no cell ever has: ghosts
    // left dead by mistake could go unnoticed.
    const auto start = [&](size_t generation, T* to) {
      std::memset(to, 0x55, shape.size() * sizeof(T));
      for (long r = 0; generation == 0 && r < shape.counts[0]; ++r)
        for (long c = 0; c < shape.counts[1]; ++c)
          to[shape.at(r, c)] = pattern_(grid_.mine(0).first + r, grid_.mine(1).first + c);
    };
    Progress progress(fmt::format("game_of_life: mode {}", mode.name), options_.steps, process_.is_first());
    cells.fill(start);
    cells.run(options_.warmup, progress, step);
    cells.fill(start);
    const Json before = cells.info();
    const double seconds = cells.timed(options_.steps, progress, step), steps = static_cast<double>(options_.steps);
    const Json after = cells.info();
    Json row = {{"mode", mode.name}, {"seconds", seconds}, {"us_per_step", seconds * 1e6 / steps}};
    add_entries(row, before, after);
    row["entries_per_step"] = after.is_null() ? Json() : Json(row["entries_posted"].get<double>() / steps);
    if (!after.is_null())
      nic_ = after;
    if (options_.verify != "full")
      return row;
    const std::vector<T> found = cells.collect(options_.steps % 2);
    const std::string wrong = process_.is_first() ? difference(found) : "";
    if (!wrong.empty())
      fmt::print(stderr, "game_of_life: mode {}: after {} steps {}\n", mode.name, options_.steps, wrong);
    measured_right_ = process_.all(wrong.empty());
    return row;
  }

  // The first cell in row-major order that is not as the reference has it, or where a glider should
  // be, in words; empty when all are. Rank 0.
  std::string difference(const std::vector<T>& found) {
    const long rows = options_.rows(), columns = options_.columns(), flown = options_.steps / 4;
    if (reference_.empty())
      reference_ = life_reference(pattern_, rows, columns, options_.steps);
    const auto first_difference = [&](const LifePattern& expected) -> std::string {
      for (long r = 0; r < rows; ++r)
        for (long c = 0; c < columns; ++c)
          if (const T cell = found[static_cast<size_t>(r * columns + c)]; cell != expected(r, c))
            return fmt::format("cell ({}, {}) is {}, should be {}", r, c, cell, expected(r, c));
      return "";
    };
    const std::string wrong =
        first_difference([&](long r, long c) { return reference_[static_cast<size_t>(r * columns + c)]; });
    if (!wrong.empty() || options_.pattern != "gliders")
      return wrong;
    const std::string unshifted = first_difference([&](long r, long c) {
      return pattern_((r + rows - flown % rows) % rows, (c + columns - flown % columns) % columns);
    });
    return unshifted.empty() ? "" : "gliders are not where they should be: " + unshifted;
  }

  const Options& options_;
  const Grid& grid_;
  const Streams streams_;
  const MpiProcess& process_;
  const LifePattern pattern_;
  std::vector<Cell> reference_;
  Json nic_;  // of the last mode that has a queue
  bool measured_right_ = true;
};

int run(const Options& options, const MpiProcess& process) {
  const Grid grid = make_grid(options);
  if (const std::string what = mistake(options, grid); !what.empty())
    return usage_error(process, "game_of_life", what);
  return options.cell_bytes == 1 ? GameOfLife<uint8_t>(options, grid, process).run()
                                 : GameOfLife<uint64_t>(options, grid, process).run();
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  using namespace lanyard::bench;
  return run_program(argc, argv, "Game of Life: a halo exchange of eight neighbours every step, verified cell by cell.",
                     declare, run);
}
