// Conway's Game of Life with a halo exchange every step, stream-triggered and CPU-driven, after
// CabanaGhost's benchmark (Bridges et al., section VI.A.3). See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/collect.h"
#include "bench/halo/halo.h"
#include "bench/life.h"
#include "bench/program.h"
#include "bench/queue.h"
#include "bench/report.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

using halo::Extent;
using halo::Mode;
using Grid = halo::Grid<2>;

struct NamedMode {
  const char* name;
  Mode::Way way;
};
// The baseline first: it runs before there is a network card.
constexpr NamedMode kModes[] = {{"mpi", Mode::kMpi}, {"send", Mode::kSend}, {"rsend", Mode::kReadySend}};

struct Options {
  std::vector<long> size = {512};
  long steps = 100;
  std::string mode = "all";
  uint64_t seed = 1;
  double density = 0.35;
  std::string pattern = "random";
  std::string verify = "full";
  long warmup = 8;
  long batch = 12;
  int cell_bytes = 1;
  std::string memory = "host";
  std::string exchange = "off";
  bool collective = false;
  std::string format = "text";

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
  constexpr long kMany = std::numeric_limits<int>::max();
  app.add_option("--size", o.size, "rows and columns of the grid, or one number for both (default: 512)")
      ->expected(1, 2)
      ->check(CLI::Range(1L, kMany));
  app.add_option("--steps", o.steps, "timed generations (default: 100)")->check(CLI::Range(1L, kMany));
  app.add_option("--mode", o.mode, "mpi, send, rsend or all (default: all)")
      ->check(CLI::IsMember({"mpi", "send", "rsend", "all"}));
  app.add_option("--seed", o.seed, "of the random pattern (default: 1)");
  app.add_option("--density", o.density, "share of live cells in the random pattern (default: 0.35)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--pattern", o.pattern, "random or gliders (default: random)")
      ->check(CLI::IsMember({"random", "gliders"}));
  app.add_option("--verify", o.verify, "full: every cell against a serial reference; none (default: full)")
      ->check(CLI::IsMember({"full", "none"}));
  app.add_option("--warmup", o.warmup, "generations before the timed ones (default: 8)")->check(CLI::Range(0L, kMany));
  app.add_option("--batch", o.batch, "stream modes: steps enqueued before the host waits (default: 12)")
      ->check(CLI::Range(1L, kMany));
  app.add_option("--cell-bytes", o.cell_bytes, "bytes of a cell, 1 or 8 (default: 1)")->check(CLI::IsMember({1, 8}));
  app.add_option(
         "--exchange", o.exchange,
         "stream modes: off; or 1: the messages of a step are an exchange; or 2: one with two sets, for steps in "
         "turn (default: off)")
      ->check(CLI::IsMember({"off", "1", "2"}));
  app.add_flag("--collective", o.collective,
               "mode send: the messages of a step are one neighbour collective; all has no rsend then");
  add_memory(app, o.memory);
  add_format(app, o.format);
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
  if (std::min(o.rows(), o.columns()) < LifePattern::kGliderSpacing)
    return fmt::format("--pattern gliders needs at least {} rows and columns", LifePattern::kGliderSpacing);
  if (o.steps % 4 != 0)
    return "--pattern gliders needs --steps that are a multiple of 4";
  return "";
}

// The two generations of a rank, in the stream's memory, and the loop over them.
class LifeLoop {
 public:
  LifeLoop(Mode mode, const Options& options, const Grid& grid, const Streams& streams)
      : options_(options), grid_(grid), shape_(grid, 1), stream_(streams.make()) {
    if (mode.way != Mode::kMpi)
      queue_.emplace(*stream_);
    const halo::CellType type = is_small() ? halo::cell_type<uint8_t>() : halo::cell_type<uint64_t>();
    halo_.emplace(grid, halo::Options{.mode = mode}, std::vector{type}, MPI_COMM_WORLD, *stream_,
                  queue_ ? queue_->handle() : MPIX_QUEUE_NULL);
    for (AlignedBuffer& generation : generations_)
      generation = AlignedBuffer(shape_.size() * static_cast<size_t>(options.cell_bytes), stream_->gpu());
    for (size_t i = 0; i < 2; ++i) {
      std::byte* const from = generations_[i].data();
      fields_[i] =
          is_small() ? &halo_->bind(reinterpret_cast<uint8_t*>(from)) : &halo_->bind(reinterpret_cast<uint64_t*>(from));
      steps_[i] = {from, generations_[1 - i].data(), options.cell_bytes, shape_.counts[0], shape_.counts[1]};
    }
  }

  void fill(const LifePattern& pattern) { is_small() ? fill_cells<uint8_t>(pattern) : fill_cells<uint64_t>(pattern); }

  // In the stream modes the host only enqueues, and waits after every batch.
  void run(long steps, Progress& progress) {
    for (long step = 0; step < steps; ++step) {
      halo_->enqueue_gather(*fields_[step % 2]);
      stream_->launch(steps_[step % 2]);
      if ((step + 1) % options_.batch != 0)
        continue;
      if (queue_)
        halo_->synchronize();
      progress.at(step + 1);
    }
    halo_->synchronize();
  }

  // Of the queue; null in mode mpi.
  Json info() const { return queue_ ? queue_->info() : Json(); }
  // The grid after so many steps, on rank 0. Requires that the stream is empty. Collective.
  std::optional<LifeGrid> collect(long steps) const {
    return is_small() ? collect_cells<uint8_t>(steps) : collect_cells<uint64_t>(steps);
  }

 private:
  bool is_small() const { return options_.cell_bytes == 1; }

  // Requires an empty stream. Fills all but the owned cells of the first generation with a value
  // that no cell ever has: ghosts left dead by mistake could go unnoticed.
  template <class T>
  void fill_cells(const LifePattern& pattern) {
    constexpr std::byte kPoison{0x55};
    const Extent rows = grid_.mine(0), columns = grid_.mine(1);
    for (AlignedBuffer& generation : generations_)
      generation.write([&](std::span<std::byte> bytes) {
        std::fill(bytes.begin(), bytes.end(), kPoison);
        T* const cells = reinterpret_cast<T*>(bytes.data());
        for (long r = 0; &generation == &generations_[0] && r < rows.count; ++r)
          for (long c = 0; c < columns.count; ++c)
            cells[shape_.at(r, c)] = pattern.at(rows.first + r, columns.first + c, grid_.cells[1]);
      });
  }
  template <class T>
  std::optional<LifeGrid> collect_cells(long steps) const {
    const std::vector<T> cells =
        generations_[static_cast<size_t>(steps % 2)].read([&](std::span<const std::byte> block) {
          return bench::collect(reinterpret_cast<const T*>(block.data()), shape_, grid_, MPI_COMM_WORLD);
        });
    if (cells.empty())
      return std::nullopt;
    LifeGrid grid(grid_.cells[0], grid_.cells[1]);
    // What no cell ever holds must not become one that it does.
    std::transform(cells.begin(), cells.end(), grid.cells.begin(),
                   [](T cell) { return static_cast<Cell>(std::min<T>(cell, 2)); });
    return grid;
  }

  const Options& options_;
  const Grid& grid_;
  const halo::Shape<2> shape_;
  std::unique_ptr<Stream> stream_;
  std::optional<StreamQueue> queue_;
  std::array<AlignedBuffer, 2> generations_;
  std::array<LifeKernel, 2> steps_;
  std::optional<halo::Halo<2>> halo_;
  std::array<const halo::Halo<2>::Fields*, 2> fields_{};
};

class GameOfLife {
 public:
  GameOfLife(const Options& options, const Grid& grid, const MpiProcess& process)
      : options_(options),
        grid_(grid),
        streams_(options.memory == "device", "game_of_life", process),
        process_(process),
        pattern_(options.pattern == "gliders" ? LifePattern::gliders(options.rows(), options.columns())
                                              : LifePattern::random(options.seed, options.density)) {}

  Report run() {
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
    for (const NamedMode& mode : kModes) {
      const bool is_baseline = mode.way == Mode::kMpi;
      if (!is_baseline && !options_.wants(mode))
        continue;
      Json row = measure(mode);
      const double us = row["us_per_step"];
      if (is_baseline)
        baseline = us;
      row["baseline_us_per_step"] = baseline;
      row["ratio"] = us / baseline;
      // The last column.
      const Json verified = options_.verify == "full" ? Json(measured_right_) : Json();
      row["verified"] = verified;
      if (options_.wants(mode))
        report.add(row);
      else
        baseline_is_right_ = measured_right_;
    }
    add_nic(report, nic_);
    return report;
  }
  // Whether an unlisted baseline was right.
  bool baseline_is_right() const { return baseline_is_right_; }

 private:
  // Returns a row without the columns of the baseline and the check. Sets measured_right_.
  Json measure(const NamedMode& mode) {
    LifeLoop loop(options_.halo(mode), options_, grid_, streams_);
    Progress progress(fmt::format("game_of_life: mode {}", mode.name), options_.steps, process_.is_first());
    loop.fill(pattern_);
    loop.run(options_.warmup, progress);
    loop.fill(pattern_);
    const Json before = loop.info();

    process_.barrier();
    const auto begin = std::chrono::steady_clock::now();
    loop.run(options_.steps, progress);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;

    const double seconds = process_.largest(elapsed.count()), steps = static_cast<double>(options_.steps);
    const Json after = loop.info();
    Json row = {{"mode", mode.name}, {"seconds", seconds}, {"us_per_step", seconds * 1e6 / steps}};
    add_entries(row, before, after);
    row["entries_per_step"] = after.is_null() ? Json() : Json(row["entries_posted"].get<double>() / steps);
    if (!after.is_null())
      nic_ = after;
    measured_right_ = options_.verify != "full" || is_right(mode, loop.collect(options_.steps));
    return row;
  }

  // Collective; rank 0 has the grid.
  bool is_right(const NamedMode& mode, const std::optional<LifeGrid>& grid) {
    const std::string wrong = grid ? difference(*grid) : "";
    if (!wrong.empty())
      fmt::print(stderr, "game_of_life: mode {}: after {} steps {}\n", mode.name, options_.steps, wrong);
    return process_.all(wrong.empty());
  }

  // Rank 0.
  std::string difference(const LifeGrid& found) {
    const LifeGrid start = pattern_.grid(options_.rows(), options_.columns());
    if (!reference_)
      reference_ = life_reference(start, options_.steps);
    const std::string wrong = first_difference(found, *reference_);
    if (!wrong.empty() || options_.pattern != "gliders")
      return wrong;
    const std::string unshifted = first_difference(found, life_shifted(start, options_.steps / 4));
    return unshifted.empty() ? "" : "gliders are not where they should be: " + unshifted;
  }

  const Options& options_;
  const Grid& grid_;
  const Streams streams_;
  const MpiProcess& process_;
  const LifePattern pattern_;
  std::optional<LifeGrid> reference_;
  Json nic_;  // of the last mode that has a queue
  bool measured_right_ = true;
  bool baseline_is_right_ = true;
};

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{"Game of Life: a halo exchange of eight neighbours every step, verified cell by cell."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  const Grid grid = make_grid(options);
  if (const std::string what = mistake(options, grid); !what.empty())
    return usage_error(process, "game_of_life", what);
  GameOfLife game(options, grid, process);
  const Report report = game.run();
  if (process.is_first())
    report.print(options.format);
  return report.verified() && game.baseline_is_right() ? 0 : kExitMismatch;
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
