// Conway's Game of Life with a halo exchange every step, stream-triggered and CPU-driven, after
// CabanaGhost's benchmark (Bridges et al., section VI.A.3). See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bench/halo_check.h"
#include "bench/life.h"
#include "bench/life_run.h"
#include "bench/mpi_process.h"
#include "bench/options.h"
#include "bench/results.h"
#include "bench/step_report.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

// The baseline first: it runs before there is a network card, as do those without one.
constexpr NamedMode kModes[] = {
    {"mpi", HaloMode::kMpi},
    {"mpi-gpu", HaloMode::kMpiGpu, false, true},
    {"nccl", HaloMode::kNccl, false, true},
    {"nccl-graph", HaloMode::kNccl, true, true},
    {"send", HaloMode::kSend},
    {"rsend", HaloMode::kRsend},
    {"graph", HaloMode::kSend, true, true},
};

struct Options {
  std::vector<long> size = {512};
  long steps = 100;
  std::vector<std::string> modes = {"all"};
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
  Format format = Format::kText;

  long rows() const { return size.front(); }
  long columns() const { return size.back(); }
  bool has(const char* mode) const { return std::find(modes.begin(), modes.end(), mode) != modes.end(); }
  // A collective has no ready sends, and is not captured.
  bool wants(const NamedMode& m, bool on_device) const {
    const bool is_other = collective && (m.mode == HaloMode::kRsend || (m.mode == HaloMode::kSend && m.is_captured));
    return has(m.name) || (has("all") && (on_device || !m.needs_device) && !is_other);
  }
  HaloMode halo(const NamedMode& m) const {
    if (collective && !m.is_captured)
      return lanyard::bench::collective(m.mode);
    return exchanged(m, exchange);
  }
};

void declare(CLI::App& app, Options& o) {
  constexpr long kMany = 1L << 31;
  app.add_option("--size", o.size, "rows and columns of the grid, or one number for both (default: 512)")
      ->expected(1, 2)
      ->check(CLI::Range(1L, kMany));
  app.add_option("--steps", o.steps, "timed generations (default: 100)")->check(CLI::Range(1L, kMany));
  app.add_option(
         "--mode", o.modes,
         "all, or a comma list of mpi, mpi-gpu, nccl, nccl-graph, send, rsend, graph; all has none that needs a GPU "
         "on the host (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "mpi", "mpi-gpu", "nccl", "nccl-graph", "send", "rsend", "graph"}));
  app.add_option("--seed", o.seed, "of the random pattern (default: 1)");
  app.add_option("--density", o.density, "share of live cells in the random pattern (default: 0.35)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--pattern", o.pattern, "random or gliders (default: random)")
      ->check(CLI::IsMember({"random", "gliders"}));
  app.add_option("--verify", o.verify, "full: every cell against a serial reference; none (default: full)")
      ->check(CLI::IsMember({"full", "none"}));
  app.add_option("--warmup", o.warmup, "generations before the timed ones (default: 8)")->check(CLI::Range(0L, kMany));
  app.add_option("--batch", o.batch, "where the host does not send: steps enqueued before the host waits (default: 12)")
      ->check(CLI::Range(1L, kMany));
  app.add_flag("--scatter-check", o.scatter_check,
               "check gather and scatter of the halo against closed forms instead of playing");
  app.add_option("--exchange", o.exchange,
                 "modes send and rsend: off; or 1: the messages of a step are an exchange; or 2: one with two sets, "
                 "for steps in turn (default: off)")
      ->check(CLI::IsMember({"off", "1", "2"}));
  app.add_flag("--collective", o.collective,
               "mode send: the messages of a step are one neighbour collective; all has no rsend and graph then");
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
  for (const NamedMode& mode : kModes)
    if (o.scatter_check && mode.needs_device && o.has(mode.name))
      return fmt::format("--scatter-check runs on host streams only, and mode {} on none", mode.name);
  if (o.collective && (o.has("rsend") || o.has("graph") || !(o.has("send") || o.has("all"))))
    return "--collective is for mode send, and not for modes rsend and graph";
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

class GameOfLife {
 public:
  GameOfLife(const Options& options, const CartesianLayout& layout, const MpiProcess& process)
      : options_(options),
        layout_(layout),
        streams_(options.memory == "device", "game_of_life", process),
        process_(process),
        pattern_(options.pattern == "gliders" ? LifePattern::gliders(options.rows(), options.columns())
                                              : LifePattern::random(options.seed, options.density)) {}

  StepReport run() {
    StepReport report;
    report.benchmark = "game_of_life";
    report.title = fmt::format("Game of Life, {} x {} cells, {} steps, pattern {}", layout_.rows, layout_.columns,
                               options_.steps, options_.pattern);
    report.headings = {
        fmt::format("exchange: {}, collective: {}", options_.exchange, options_.collective ? "on" : "off")};
    report.place = streams_.place();
    report.ranks = process_.ranks();
    report.ranks_text = fmt::format("{} x {}", layout_.ranks_y, layout_.ranks_x);
    report.steps = options_.steps;
    report.facts = {{"ranks_y", layout_.ranks_y},    {"ranks_x", layout_.ranks_x},        {"rows", layout_.rows},
                    {"columns", layout_.columns},    {"steps", options_.steps},           {"pattern", options_.pattern},
                    {"exchange", options_.exchange}, {"collective", options_.collective}, {"batch", options_.batch}};
    double baseline = 0;
    for (const NamedMode& mode : kModes) {
      const bool is_baseline = mode.mode == HaloMode::kMpi;
      const bool wanted = options_.wants(mode, streams_.has_device());
      if (!is_baseline && !wanted)
        continue;
      std::optional<StepRow> row = measure(mode, report);
      if (!row)
        continue;
      if (is_baseline)
        baseline = row->us_per_step;
      row->baseline_us_per_step = baseline;
      if (wanted)
        report.runs.push_back(*row);
      else
        report.baseline_verified = row->verified;
    }
    return report;
  }

 private:
  // Nothing where the mode cannot run.
  std::optional<StepRow> measure(const NamedMode& mode, StepReport& report) {
    const bool verify = options_.verify == "full";
    LifeResult result =
        run_life(options_.halo(mode), mode.name, {options_.steps, options_.warmup, options_.batch, mode.is_captured},
                 verify, layout_, pattern_, streams_, process_);
    if (result.is_refused) {
      say_skipped("game_of_life", mode.name, result, process_);
      return std::nullopt;
    }
    if (!result.nccl.empty())
      report.nccl = result.nccl;
    StepRow row(mode.name, result, options_.steps);
    say_overflowed("game_of_life", row, process_);
    if (verify) {
      const std::string wrong = process_.is_first() ? difference(*result.grid) : "";
      if (!wrong.empty())
        fmt::print(stderr, "game_of_life: mode {}: after {} steps {}\n", mode.name, options_.steps, wrong);
      row.verified = process_.all(wrong.empty());
    }
    return row;
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
};

int run_scatter_check(const Options& options, const CartesianLayout& layout, const MpiProcess& process) {
  bool all_right = true;
  Results results("scatter_check", process.ranks(), Place());
  results.set("rows", layout.rows);
  results.set("columns", layout.columns);
  for (const NamedMode& mode : kModes) {
    if (!options.wants(mode, false))
      continue;
    const std::string wrong = check_halo(options.halo(mode), layout, process.ranks());
    if (!wrong.empty())
      fmt::print(stderr, "game_of_life: mode {}: {}\n", mode.name, wrong);
    const bool is_right = process.all(wrong.empty());
    all_right = all_right && is_right;
    results.add({{"mode", mode.name}, {"verified", is_right}});
    if (process.is_first() && options.format == Format::kText)
      fmt::print("scatter check, mode {}, {} x {} cells, {} x {} ranks: {}\n", mode.name, layout.rows, layout.columns,
                 layout.ranks_y, layout.ranks_x, is_right ? "verified" : "WRONG");
  }
  if (process.is_first() && options.format == Format::kCsv)
    results.print_csv();
  if (process.is_first() && options.format == Format::kJson)
    results.print_json({{"verified", all_right}});
  return all_right ? 0 : kExitMismatch;
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
  const StepReport report = game.run();
  if (process.is_first())
    report.print(options.format);
  return report.verified().value_or(true) ? 0 : kExitMismatch;
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
