// Conway's Game of Life with a halo exchange every step, stream-triggered and CPU-driven, after
// CabanaGhost's benchmark (Bridges et al., section VI.A.3). See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/halo/block.h"
#include "bench/halo/stream_halo.h"
#include "bench/life.h"
#include "bench/program.h"
#include "bench/report.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

struct NamedMode {
  const char* name;
  HaloMode::Way way;
};
// The baseline first: it runs before there is a network card.
constexpr NamedMode kModes[] = {{"mpi", HaloMode::kMpi}, {"send", HaloMode::kSend}, {"rsend", HaloMode::kRsend}};

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
  bool scatter_check = false;
  std::string memory = "host";
  std::string exchange = "off";
  bool collective = false;
  std::string format = "text";

  long rows() const { return size.front(); }
  long columns() const { return size.back(); }
  // A collective has no ready sends.
  bool wants(const NamedMode& m) const {
    return mode == m.name || (mode == "all" && !(collective && m.way == HaloMode::kRsend));
  }
  HaloMode halo(const NamedMode& m) const {
    if (m.way == HaloMode::kMpi)
      return {m.way, 0};
    if (collective && m.way == HaloMode::kSend)
      return {HaloMode::kCollective, 0};
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
  app.add_flag("--scatter-check", o.scatter_check,
               "check gather and scatter of the halo against closed forms instead of playing");
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
CartesianLayout make_layout(const Options& o, const MpiProcess& process) {
  int sides[2] = {0, 0};
  check(MPI_Dims_create(process.ranks(), 2, sides), "MPI_Dims_create");
  const int most = std::max(sides[0], sides[1]), least = std::min(sides[0], sides[1]);
  CartesianLayout layout{least, most, process.rank(), o.rows(), o.columns()};
  const CartesianLayout turned{most, least, process.rank(), o.rows(), o.columns()};
  if (o.columns() > o.rows() ? turned.is_valid() : !layout.is_valid())
    layout = turned;
  return layout;
}

// What is wrong with the options; empty when nothing is.
std::string mistake(const Options& o, const CartesianLayout& layout) {
  if (!layout.is_valid())
    return fmt::format("{} x {} cells are too few for {} x {} ranks", o.rows(), o.columns(), layout.ranks_y,
                       layout.ranks_x);
  if (o.scatter_check && o.memory == "device")
    return "--scatter-check runs on host streams only: --memory must be host";
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

constexpr int kResultTag = 1000;  // beyond StreamHalo's

// A rectangle of so many rows and columns of cells.
MPI_Datatype part_of(long rows, long columns, const Extent& of_rows, const Extent& of_columns) {
  const auto number = [](long x) { return static_cast<int>(x); };
  const int sizes[] = {number(rows), number(columns)};
  const int counts[] = {number(of_rows.count), number(of_columns.count)};
  const int firsts[] = {number(of_rows.first), number(of_columns.first)};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check(MPI_Type_create_subarray(2, sizes, counts, firsts, MPI_ORDER_C, MPI_BYTE, &type), "MPI_Type_create_subarray");
  check(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

// On rank 0 what all ranks own, from their blocks with ghosts. Collective.
std::optional<LifeGrid> collect_blocks(const std::byte* block, const CartesianLayout& layout,
                                       const MpiProcess& process) {
  const long rows = layout.my_rows().count, columns = layout.my_columns().count;
  MPI_Datatype mine = part_of(rows + 2, columns + 2, {1, rows}, {1, columns});
  MPI_Request sent = MPI_REQUEST_NULL;
  check(MPI_Isend(block, 1, mine, 0, kResultTag, MPI_COMM_WORLD, &sent), "MPI_Isend");
  std::optional<LifeGrid> grid;
  if (process.is_first())
    grid.emplace(layout.rows, layout.columns);
  for (int rank = 0; grid && rank < process.ranks(); ++rank) {
    const CartesianLayout owner = layout.of_rank(rank);
    MPI_Datatype theirs = part_of(layout.rows, layout.columns, owner.my_rows(), owner.my_columns());
    check(MPI_Recv(grid->cells.data(), 1, theirs, rank, kResultTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    check(MPI_Type_free(&theirs), "MPI_Type_free");
  }
  check(MPI_Wait(&sent, MPI_STATUS_IGNORE), "MPI_Wait");
  check(MPI_Type_free(&mine), "MPI_Type_free");
  return grid;
}

// The two generations of a rank, in the stream's memory, and the loop over them.
class LifeLoop {
 public:
  LifeLoop(HaloMode mode, long batch, const CartesianLayout& layout, const Streams& streams)
      : batch_(batch), layout_(layout), stream_(streams.make()), halo_(mode, MPI_COMM_WORLD, layout, *stream_) {
    const long rows = layout.my_rows().count, columns = layout.my_columns().count;
    for (AlignedBuffer& generation : generations_)
      generation = AlignedBuffer(static_cast<size_t>((rows + 2) * (columns + 2)), stream_->gpu());
    for (size_t i = 0; i < 2; ++i)
      steps_[i] = {cells(i), cells(1 - i), rows, columns};
  }

  // Requires that the stream is empty. Dead ghosts would be plausible, so all but the owned cells of the first
  // generation hold what no cell ever holds.
  void fill(const LifePattern& pattern) {
    constexpr std::byte kPoison{0x55};
    const Extent rows = layout_.my_rows(), columns = layout_.my_columns();
    for (AlignedBuffer& generation : generations_)
      generation.write([&](std::span<std::byte> bytes) {
        std::fill(bytes.begin(), bytes.end(), kPoison);
        for (long r = 0; &generation == &generations_[0] && r < rows.count; ++r)
          for (long c = 0; c < columns.count; ++c)
            bytes[static_cast<size_t>((r + 1) * (columns.count + 2) + c + 1)] =
                std::byte{pattern.at(rows.first + r, columns.first + c, layout_.columns)};
      });
  }

  // In the stream modes the host only enqueues, and waits after every batch.
  void run(long steps, Progress& progress) {
    for (long step = 0; step < steps; ++step) {
      halo_.enqueue_gather(cells(static_cast<size_t>(step % 2)));
      stream_->launch(steps_[step % 2]);
      if ((step + 1) % batch_ != 0)
        continue;
      if (halo_.has_queue())
        halo_.synchronize();
      progress.at(step + 1);
    }
    halo_.synchronize();
  }

  Json info() const { return halo_.info(); }
  // The grid after so many steps, on rank 0. Requires that the stream is empty. Collective.
  std::optional<LifeGrid> collect(long steps, const MpiProcess& process) const {
    return generations_[static_cast<size_t>(steps % 2)].read(
        [&](std::span<const std::byte> block) { return collect_blocks(block.data(), layout_, process); });
  }

 private:
  Cell* cells(size_t generation) { return reinterpret_cast<Cell*>(generations_[generation].data()); }

  const long batch_;
  const CartesianLayout& layout_;
  std::unique_ptr<Stream> stream_;
  std::array<AlignedBuffer, 2> generations_;
  std::array<LifeKernel, 2> steps_;
  StreamHalo<Cell> halo_;
};

class GameOfLife {
 public:
  GameOfLife(const Options& options, const CartesianLayout& layout, const MpiProcess& process)
      : options_(options),
        layout_(layout),
        streams_(options.memory == "device", "game_of_life", process),
        process_(process),
        pattern_(options.pattern == "gliders" ? LifePattern::gliders(options.rows(), options.columns())
                                              : LifePattern::random(options.seed, options.density)) {}

  Report run() {
    Report report("game_of_life");
    report.fact("mpi", mpi_library());
    report.fact("ranks", process_.ranks());
    report.fact("ranks_y", layout_.ranks_y);
    report.fact("ranks_x", layout_.ranks_x);
    streams_.describe(report);
    report.fact("rows", layout_.rows);
    report.fact("columns", layout_.columns);
    report.fact("steps", options_.steps);
    report.fact("pattern", options_.pattern);
    report.fact("exchange", options_.exchange);
    report.fact("collective", options_.collective);
    double baseline = 0;
    for (const NamedMode& mode : kModes) {
      const bool is_baseline = mode.way == HaloMode::kMpi;
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
  // A row that lacks what the baseline and the check say. Whether the result was right is in measured_right_.
  Json measure(const NamedMode& mode) {
    const HaloMode halo = options_.halo(mode);
    LifeLoop loop(halo, options_.batch, layout_, streams_);
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
    measured_right_ = options_.verify != "full" || is_right(mode, loop.collect(options_.steps, process_));
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
    const LifeGrid start = pattern_.grid(layout_.rows, layout_.columns);
    if (!reference_)
      reference_ = life_reference(start, options_.steps);
    const std::string wrong = first_difference(found, *reference_);
    if (!wrong.empty() || options_.pattern != "gliders")
      return wrong;
    const std::string unshifted = first_difference(found, life_shifted(start, options_.steps / 4));
    return unshifted.empty() ? "" : "gliders are not where they should be: " + unshifted;
  }

  const Options& options_;
  const CartesianLayout& layout_;
  const Streams streams_;
  const MpiProcess& process_;
  const LifePattern pattern_;
  std::optional<LifeGrid> reference_;
  Json nic_;  // of the last mode that has a queue
  bool measured_right_ = true;
  bool baseline_is_right_ = true;
};

int run_scatter_check(const Options& options, const CartesianLayout& layout, const MpiProcess& process) {
  Report report("scatter_check");
  report.fact("ranks", process.ranks());
  report.fact("rows", layout.rows);
  report.fact("columns", layout.columns);
  for (const NamedMode& mode : kModes) {
    if (!options.wants(mode))
      continue;
    const std::string wrong = check_halo(options.halo(mode), layout, process.ranks());
    if (!wrong.empty())
      fmt::print(stderr, "game_of_life: mode {}: {}\n", mode.name, wrong);
    report.add({{"mode", mode.name}, {"verified", process.all(wrong.empty())}});
  }
  if (process.is_first())
    report.print(options.format);
  return report.verified() ? 0 : kExitMismatch;
}

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{"Game of Life: a halo exchange of eight neighbours every step, verified cell by cell."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  const CartesianLayout layout = make_layout(options, process);
  if (const std::string what = mistake(options, layout); !what.empty())
    return usage_error(process, "game_of_life", what);
  if (options.scatter_check)
    return run_scatter_check(options, layout, process);
  GameOfLife game(options, layout, process);
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
