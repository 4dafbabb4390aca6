// Conjugate gradients and pipelined conjugate gradients of a sparse matrix, stream-triggered and CPU-driven, after
// Trotter et al. See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/cg_input.h"
#include "bench/cg_problem.h"
#include "bench/cg_report.h"
#include "bench/cg_run.h"
#include "bench/local_matrix.h"
#include "bench/mpi_process.h"
#include "bench/options.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

struct NamedMode {
  const char* name;
  CgMode mode;
  bool is_captured = false;
  bool needs_device = false;  // else part of "all" on the host, too
};
// The baseline first: it runs before there is a network card, as do those without one.
constexpr NamedMode kModes[] = {
    {"mpi", CgMode::kMpi},       {"nccl", CgMode::kNccl, false, true},   {"nccl-graph", CgMode::kNccl, true, true},
    {"stream", CgMode::kStream}, {"graph", CgMode::kStream, true, true},
};

struct Options {
  std::string poisson;
  int64_t size = 4000;
  std::string matrix;
  std::string partition = "rows";
  std::string side = "unit";
  std::vector<std::string> modes = {"all"};
  std::string solver = "both";
  std::string exchange = "off";
  std::string memory = "host";
  int64_t expected = 0;
  CgRunOptions run;
  Format format = Format::kText;

  bool has(const char* mode) const { return std::find(modes.begin(), modes.end(), mode) != modes.end(); }
  bool wants(const NamedMode& m, bool on_device) const {
    return has(m.name) || (has("all") && (on_device || !m.needs_device));
  }
  bool wants(CgSolver s) const { return solver == "both" || solver == name_of(s); }
  // Graphs are of single requests: they start no exchange of the card's.
  Merging merging(const NamedMode& m) const {
    if (m.mode != CgMode::kStream || m.is_captured || exchange == "off")
      return Merging::kSingle;
    return exchange == "1" ? Merging::kOneSet : Merging::kTwoSets;
  }
};

void declare(CLI::App& app, Options& o) {
  constexpr int64_t kMany = int64_t{1} << 31;
  constexpr int64_t kMostIterations = 10'000'000;  // whose residuals are kept
  CLI::Option* const poisson =
      app.add_option("--poisson", o.poisson, "1d, 2d or 3d: tridiag(-1, 2, -1), and its like with 5 and 7 points")
          ->check(CLI::IsMember({"1d", "2d", "3d"}));
  CLI::Option* const size = app.add_option("--size", o.size, "of --poisson: points a dimension (default: 4000)")
                                ->check(CLI::Range(int64_t{1}, kMany));
  app.add_option("--matrix", o.matrix,
                 "in place of --poisson: a Matrix Market file, compressed by gzip or not, of a symmetric matrix")
      ->excludes(poisson)
      ->excludes(size);
  app.add_option("--partition", o.partition, "rows: contiguous; metis: few entries between ranks (default: rows)")
      ->check(CLI::IsMember({"rows", "metis"}));
  app.add_option("--rhs", o.side,
                 "unit: the solution is the unit vector in the middle; ones: the right-hand side is 1 (default: unit)")
      ->check(CLI::IsMember({"unit", "ones"}));
  app.add_option("--solver", o.solver, "cg, pipelined or both (default: both)")
      ->check(CLI::IsMember({"cg", "pipelined", "both"}));
  app.add_option("--mode", o.modes,
                 "all, or a comma list of mpi, nccl, nccl-graph, stream, graph; all has none that needs a GPU on the "
                 "host (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "mpi", "nccl", "nccl-graph", "stream", "graph"}));
  app.add_option("--tolerance", o.run.tolerance,
                 "of the residual relative to the first, from 1e-15 to below 1 (default: 1e-6)");
  o.run.most_iterations = 10000;
  app.add_option("--max-iterations", o.run.most_iterations, "that must be enough (default: 10000)")
      ->check(CLI::Range(int64_t{1}, kMostIterations));
  app.add_option("--expect-iterations", o.expected, "each run must take so many, or is called wrong")
      ->check(CLI::Range(int64_t{1}, kMostIterations));
  o.run.check_every = 50;
  app.add_option("--check-every", o.run.check_every,
                 "where the host does not send: iterations enqueued before it looks whether it is over (default: 50)")
      ->check(CLI::Range(int64_t{1}, kMany));
  o.run.trials = 3;
  app.add_option("--trials", o.run.trials, "for mean and interval (default: 3)")->check(CLI::Range(1, 1000));
  o.run.warmup = 20;
  app.add_option("--warmup", o.run.warmup, "iterations before the trials (default: 20)")
      ->check(CLI::Range(int64_t{0}, kMany));
  o.run.measured = 50;
  app.add_option("--measure", o.run.measured,
                 "iterations after the trials whose pieces are timed one by one; 0: none (default: 50)")
      ->check(CLI::Range(int64_t{0}, kMany));
  app.add_option("--exchange", o.exchange,
                 "mode stream: off; or 1: the messages of a multiplication are an exchange; or 2: one with two sets, "
                 "for multiplications in turn (default: off)")
      ->check(CLI::IsMember({"off", "1", "2"}));
  add_memory(app, o.memory);
  add_format(app, o.format);
}

// What is wrong with the options; empty when nothing is.
std::string mistake(const Options& o, int ranks) {
  constexpr int64_t kMostRows = INT32_MAX;  // as columns are stored
  constexpr double kLeastTolerance = 1e-15;
  // NaN is not in any range.
  if (!(o.run.tolerance >= kLeastTolerance && o.run.tolerance < 1))
    return fmt::format("--tolerance {}, expected at least {} and below 1", o.run.tolerance, kLeastTolerance);
  if (o.poisson.empty() == o.matrix.empty())
    return "--poisson or --matrix is needed";
  if (o.poisson.empty())
    return "";
  int64_t rows = 1;
  for (int d = 0; d < o.poisson[0] - '0'; ++d) {
    if (rows > kMostRows / o.size)
      return fmt::format("--size {} has more than {} rows with --poisson {}", o.size, kMostRows, o.poisson);
    rows *= o.size;
  }
  if (rows < ranks)
    return fmt::format("{} rows are too few for {} ranks, expected a row for each", rows, ranks);
  return "";
}

class ConjugateGradients {
 public:
  ConjugateGradients(const Options& options, const CgProblem& problem, const RowPartition& partition,
                     const MpiProcess& process)
      : options_(options),
        streams_(options.memory == "device", "cg", process),
        process_(process),
        system_(system(problem, partition, process.rank())) {}

  CgReport run() {
    CgReport report;
    report.place = streams_.place();
    report.ranks = process_.ranks();
    report.matrix = options_.matrix.empty()
                        ? fmt::format("Poisson {}, {} points a dimension", options_.poisson, options_.size)
                        : options_.matrix;
    report.rows = system_.problem.matrix().rows();
    report.nonzeros = system_.problem.matrix().nonzeros();
    report.partition = options_.partition;
    report.side = options_.side;
    report.exchange = options_.exchange;
    report.tolerance = options_.run.tolerance;
    report.check_every = options_.run.check_every;
    auto ghosts = static_cast<int64_t>(system_.local.ghosts.size());
    check(MPI_Allreduce(MPI_IN_PLACE, &ghosts, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    report.ghosts = ghosts;
    double baseline[2] = {};
    for (const NamedMode& mode : kModes)
      for (const CgSolver solver : {CgSolver::kCg, CgSolver::kPipelined}) {
        const bool is_baseline = mode.mode == CgMode::kMpi;
        const bool wanted = options_.wants(mode, streams_.has_device());
        if (!options_.wants(solver) || !(is_baseline || wanted))
          continue;
        std::optional<CgRow> row = measure(mode, solver, report);
        if (!row)
          continue;
        double& of_solver = baseline[static_cast<size_t>(solver)];
        if (is_baseline)
          of_solver = row->seconds().mean;
        row->baseline_seconds = of_solver;
        if (wanted)
          report.runs.push_back(std::move(*row));
        else
          report.baseline_is_right = report.baseline_is_right && row->is_right();
      }
    if (report.runs.empty() && process_.is_first())
      fmt::print(stderr, "cg: nothing was run, as every mode of --mode {} was skipped, expected one that can run\n",
                 fmt::join(options_.modes, ","));
    return report;
  }

 private:
  static CgSystem system(const CgProblem& problem, const RowPartition& partition, int rank) {
    LocalMatrix local = local_matrix(problem.matrix(), partition, rank);
    std::vector<double> side;
    for (const int64_t row : local.rows)
      side.push_back(problem.at(row));
    return {problem, partition, std::move(local), std::move(side)};
  }

  // Nothing where the mode cannot run.
  std::optional<CgRow> measure(const NamedMode& mode, CgSolver solver, CgReport& report) {
    CgRow row;
    row.mode = mode.name;
    row.solver = solver;
    const std::string name = fmt::format("{}, mode {}", name_of(solver), mode.name);
    row.result = run_cg({solver, mode.mode, options_.merging(mode), mode.is_captured}, name, options_.run, system_,
                        streams_, process_);
    const CgResult& result = row.result;
    if (result.is_refused) {
      if (process_.is_first() && solver == (options_.wants(CgSolver::kCg) ? CgSolver::kCg : CgSolver::kPipelined))
        fmt::print(stderr, "cg: mode {} skipped: {}\n", mode.name,
                   result.refusal.empty() ? "not possible on another rank" : result.refusal);
      return std::nullopt;
    }
    if (!result.nccl.empty())
      report.nccl = result.nccl;
    if (process_.is_first())
      for (const std::string& wrong : result.findings.mistakes)
        fmt::print(stderr, "cg: {}: {}\n", name, wrong);
    return row;
  }

  const Options& options_;
  const Streams streams_;
  const MpiProcess& process_;
  const CgSystem system_;
};

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{"Conjugate gradients and pipelined ones of a sparse symmetric matrix, checked against known solutions."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  if (options.expected > 0)
    options.run.expected_iterations = options.expected;
  if (const std::string what = mistake(options, process.ranks()); !what.empty())
    return usage_error(process, "cg", what);
  std::string why;
  std::unique_ptr<const SparseMatrix> matrix;
  const PoissonMatrix* poisson = nullptr;
  if (options.matrix.empty()) {
    auto made = std::make_unique<PoissonMatrix>(options.poisson[0] - '0', options.size);
    poisson = made.get();
    matrix = std::move(made);
  } else {
    matrix = load_matrix(options.matrix, process, why);
  }
  if (matrix != nullptr && matrix->rows() < process.ranks())
    return usage_error(
        process, "cg",
        fmt::format("{} rows are too few for {} ranks, expected a row for each", matrix->rows(), process.ranks()));
  std::optional<RowPartition> partition;
  if (matrix != nullptr)
    partition = partition_rows(*matrix, options.partition == "metis", process, why);
  if (!partition)
    return usage_error(process, "cg", why);
  const CgProblem problem(std::move(matrix), poisson,
                          options.side == "ones" ? CgProblem::Side::kOnes : CgProblem::Side::kUnit);
  ConjugateGradients solvers(options, problem, *partition, process);
  const CgReport report = solvers.run();
  if (process.is_first())
    report.print(options.format);
  return report.verified() ? 0 : kExitMismatch;
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
