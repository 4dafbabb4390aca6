// Jacobi's method on 2D and 3D grids, a halo exchange every step: CPU-driven, stream-triggered, and in one kernel,
// after the CPU-free model. See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bench/halo_run.h"
#include "bench/jacobi_layout.h"
#include "bench/jacobi_oracle.h"
#include "bench/jacobi_run.h"
#include "bench/mpi_process.h"
#include "bench/options.h"
#include "bench/step_report.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

// The baseline first: it runs before there is a network card, as do those without one.
constexpr NamedMode kModes[] = {
    {"mpi", HaloMode::kPersistent},
    {"mpi-gpu", HaloMode::kMpiGpu, false, true},
    {"nccl", HaloMode::kNccl, false, true},
    {"nccl-graph", HaloMode::kNccl, true, true},
    {"send", HaloMode::kSend},
    {"rsend", HaloMode::kRsend},
    {"graph", HaloMode::kSend, true, true},
    {"kernel", HaloMode::kKernel, false, true},
};

struct Options {
  int dims = 2;
  std::vector<long> size;
  std::vector<int> split;
  std::string scaling = "strong";
  std::string type = "double";
  long steps = 100;
  std::vector<std::string> modes = {"all"};
  bool no_compute = false;
  std::string exchange = "off";
  uint64_t seed = 1;
  std::string verify = "full";
  long warmup = 8;
  long batch = 12;
  std::string memory = "host";
  Format format = Format::kText;

  bool wants(const NamedMode& m, bool on_device) const {
    const auto has = [this](const char* mode) { return std::find(modes.begin(), modes.end(), mode) != modes.end(); };
    return has(m.name) || (has("all") && (on_device || !m.needs_device));
  }
};

void declare(CLI::App& app, Options& o) {
  constexpr long kMany = 1L << 31;
  app.add_option("--dims", o.dims, "2: the mean of four neighbours; 3: of six (default: 2)")->check(CLI::Range(2, 3));
  app.add_option("--size", o.size, "[planes] rows columns of the grid, or one number for all (default: 512, in 3D 64)")
      ->expected(1, 3)
      ->check(CLI::Range(1L, kMany));
  app.add_option("--scaling", o.scaling, "strong; weak: --size is that of each rank (default: strong)")
      ->check(CLI::IsMember({"strong", "weak"}));
  app.add_option("--split", o.split, "ranks along [planes] rows columns; 0: as MPI_Dims_create has it (default: 0)")
      ->expected(2, 3)
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--type", o.type, "float or double (default: double)")->check(CLI::IsMember({"float", "double"}));
  app.add_option("--steps", o.steps, "timed steps (default: 100)")->check(CLI::Range(1L, kMany));
  app.add_option(
         "--mode", o.modes,
         "all, or a comma list of mpi, mpi-gpu, nccl, nccl-graph, send, rsend, graph, kernel; all has only mpi, "
         "send and rsend on the host (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "mpi", "mpi-gpu", "nccl", "nccl-graph", "send", "rsend", "graph", "kernel"}));
  app.add_flag("--no-compute", o.no_compute, "measure each mode's halo exchanges alone, too");
  app.add_option("--exchange", o.exchange,
                 "modes send and rsend: off; or 1: the messages of a step are an exchange; or 2: one with two sets, "
                 "for steps in turn (default: off)")
      ->check(CLI::IsMember({"off", "1", "2"}));
  app.add_option("--seed", o.seed, "of the start (default: 1)");
  app.add_option("--verify", o.verify,
                 "full: every cell against a serial reference and the closed form; none (default: full)")
      ->check(CLI::IsMember({"full", "none"}));
  app.add_option("--warmup", o.warmup, "steps before the timed ones (default: 8)")->check(CLI::Range(0L, kMany));
  app.add_option("--batch", o.batch,
                 "where the host does not send: steps enqueued before the host waits (kernel: all; graphs: whole ones) "
                 "(default: 12)")
      ->check(CLI::Range(1L, kMany));
  add_memory(app, o.memory);
  add_format(app, o.format);
}

std::string text_of(const JacobiLayout& layout, const auto& counts) {
  return layout.dims == 3 ? fmt::format("{} x {} x {}", counts[0], counts[1], counts[2])
                          : fmt::format("{} x {}", counts[1], counts[2]);
}

// What is too large for a rank; empty if nothing is.
std::string oversize(const JacobiLayout& layout, int item_bytes) {
  using Wide = __int128;  // what overflows must not seem small
  constexpr Wide kMostBytes = Wide{1} << 40;
  const JacobiShape shape = layout.of_rank(0).shape(item_bytes);  // none has more cells
  const Wide counts[] = {shape.planes, shape.rows, shape.columns};
  const Wide planes = layout.dims == 3 ? counts[0] + 2 : 1;
  const Wide bytes = planes * (counts[1] + 2) * (counts[2] + 2) * item_bytes;
  if (bytes > kMostBytes)
    return fmt::format("{} cells on {} ranks are, with ghosts, {} bytes a rank: at most {}",
                       text_of(layout, layout.cells), text_of(layout, layout.ranks), bytes, kMostBytes);
  for (size_t a = 0; a < 3; ++a) {
    const Wide face = counts[(a + 1) % 3] * counts[(a + 2) % 3] * item_bytes;
    if (layout.ranks[a] > 1 && face > std::numeric_limits<int>::max())
      return fmt::format("{} cells on {} ranks have faces of {} bytes: a message has at most {}",
                         text_of(layout, layout.cells), text_of(layout, layout.ranks), face,
                         std::numeric_limits<int>::max());
  }
  return "";
}

// What is wrong with the options; else empty, and `layout` is made.
std::string make_layout(const Options& o, const MpiProcess& process, JacobiLayout& layout) {
  const auto first = static_cast<size_t>(3 - o.dims);  // axis; before it there is one plane
  const auto dims = static_cast<size_t>(o.dims);
  if (o.size.size() > 1 && o.size.size() != dims)
    return fmt::format("--size has {} numbers, which --dims {} does not take: 1 or {}", o.size.size(), o.dims, o.dims);
  if (!o.split.empty() && o.split.size() != dims)
    return fmt::format("--split has {} numbers, and --dims {} takes {}", o.split.size(), o.dims, o.dims);
  layout.dims = o.dims;
  layout.rank = process.rank();
  int product = 1;
  for (size_t i = 0; i < dims; ++i) {
    layout.ranks[first + i] = o.split.empty() ? 0 : o.split[i];
    product *= std::max(layout.ranks[first + i], 1);
    if (product > process.ranks() || process.ranks() % product != 0)
      return fmt::format("--split: {} ranks cannot be placed so", process.ranks());
  }
  if (std::count(layout.ranks.begin(), layout.ranks.end(), 0) == 0 && product != process.ranks())
    return fmt::format("--split is of {} ranks, and there are {}", product, process.ranks());
  check(MPI_Dims_create(process.ranks(), o.dims, &layout.ranks[first]), "MPI_Dims_create");
  for (size_t i = 0; i < dims; ++i) {
    const long size = o.size.empty() ? (o.dims == 3 ? 64 : 512) : o.size[o.size.size() == 1 ? 0 : i];
    layout.cells[first + i] = size * (o.scaling == "weak" ? layout.ranks[first + i] : 1);
  }
  if (!layout.is_valid())
    return fmt::format("{} cells are too few for {} ranks", text_of(layout, layout.cells),
                       text_of(layout, layout.ranks));
  if (layout.cells[JacobiLayout::kRows] < 3)
    return fmt::format("{} rows are too few for the boundary's sine: 3 or more", layout.cells[JacobiLayout::kRows]);
  return oversize(layout, o.type == "float" ? sizeof(float) : sizeof(double));
}

template <class T>
class Jacobi {
 public:
  Jacobi(const Options& options, const JacobiLayout& layout, const MpiProcess& process)
      : options_(options),
        layout_(layout),
        streams_(options.memory == "device", "jacobi", process),
        process_(process),
        problem_(layout.dims, layout.cells, options.seed) {}

  // The exit status.
  int run() {
    StepReport report = empty_report();
    double baseline = 0;
    for (const NamedMode& mode : kModes) {
      const bool is_baseline = mode.mode == HaloMode::kPersistent;
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
    if (process_.is_first())
      report.print(options_.format);
    return report.verified().value_or(true) ? 0 : kExitMismatch;
  }

 private:
  StepReport empty_report() const {
    StepReport report;
    report.benchmark = "jacobi";
    report.title = fmt::format("Jacobi in {} dimensions, {} cells of {}, {} steps", layout_.dims,
                               text_of(layout_, layout_.cells), options_.type, options_.steps);
    report.headings = {fmt::format("scaling: {}, exchange: {}", options_.scaling, options_.exchange)};
    report.place = streams_.place();
    report.ranks = process_.ranks();
    report.ranks_text = text_of(layout_, layout_.ranks);
    report.steps = options_.steps;
    report.facts = {{"dims", layout_.dims},        {"type", options_.type},         {"ranks_z", layout_.ranks[0]},
                    {"ranks_y", layout_.ranks[1]}, {"ranks_x", layout_.ranks[2]},   {"planes", layout_.cells[0]},
                    {"rows", layout_.cells[1]},    {"columns", layout_.cells[2]},   {"steps", options_.steps},
                    {"scaling", options_.scaling}, {"exchange", options_.exchange}, {"batch", options_.batch}};
    return report;
  }

  bool verifies() const { return options_.verify == "full"; }
  JacobiResult<T> run_once(const NamedMode& mode, bool computes) {
    const HaloRunOptions halo{options_.steps, options_.warmup, options_.batch, mode.is_captured};
    const std::string what = fmt::format("jacobi: mode {}{}", mode.name, computes ? "" : ", without computing");
    return run_jacobi<T>(exchanged(mode, options_.exchange), what, {halo, computes, verifies()}, layout_, problem_,
                         streams_, process_);
  }

  // Nothing where the mode cannot run.
  std::optional<StepRow> measure(const NamedMode& mode, StepReport& report) {
    const JacobiResult<T> result = run_once(mode, true);
    if (result.is_refused) {
      say_skipped("jacobi", mode.name, result, process_);
      return std::nullopt;
    }
    if (!result.nccl.empty())
      report.nccl = result.nccl;
    StepRow row(mode.name, result, options_.steps);
    say_overflowed("jacobi", row, process_);
    if (verifies())
      row.verified = process_.all(!process_.is_first() || is_right(mode, result, row));
    if (options_.no_compute)
      measure_exchanges(mode, row);
    return row;
  }

  // Rank 0: whether the grid is what it should be; else it says what is not.
  bool is_right(const NamedMode& mode, const JacobiResult<T>& result, StepRow& row) {
    if (reference_.empty())
      reference_ = problem_.template reference<T>(options_.steps);
    const double error = problem_.error(result.grid, options_.steps);
    const double tolerance = JacobiProblem::tolerance<T>(options_.steps);
    row.more["error"] = error;
    std::string wrong = problem_.first_difference(result.grid, reference_);
    if (wrong.empty() && error > tolerance)
      wrong =
          fmt::format("the grid differs by {:.3g} from the closed form, by rounding at most {:.3g}", error, tolerance);
    if (!wrong.empty())
      fmt::print(stderr, "jacobi: mode {}: after {} steps {}\n", mode.name, options_.steps, wrong);
    return wrong.empty();
  }

  void measure_exchanges(const NamedMode& mode, StepRow& row) {
    const JacobiResult<T> result = run_once(mode, false);
    if (result.is_refused) {
      say_skipped("jacobi", fmt::format("{}, without computing,", mode.name).c_str(), result, process_);
      row.more["us_per_step_no_compute"] = nullptr;
      return;
    }
    row.more["us_per_step_no_compute"] = result.us_per_step(options_.steps);
    if (!result.wrong.empty())
      fmt::print(stderr, "jacobi: mode {}, without computing: {}\n", mode.name, result.wrong);
    if (verifies())
      row.verified = process_.all(result.wrong.empty()) && *row.verified;
  }

  const Options& options_;
  const JacobiLayout& layout_;
  const Streams streams_;
  const MpiProcess& process_;
  const JacobiProblem problem_;
  std::vector<T> reference_;  // rank 0
};

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{"Jacobi's method: a halo exchange of up to six neighbours every step, verified bit by bit."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  JacobiLayout layout;
  if (const std::string what = make_layout(options, process, layout); !what.empty())
    return usage_error(process, "jacobi", what);
  if (options.type == "float")
    return Jacobi<float>(options, layout, process).run();
  return Jacobi<double>(options, layout, process).run();
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
