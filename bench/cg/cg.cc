// Conjugate gradients and pipelined conjugate gradients of a sparse matrix, stream-triggered and
// CPU-driven, after Trotter et al. See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cg/local_matrix.h"
#include "bench/cg/partition.h"
#include "bench/cg/solver.h"
#include "bench/cg/text_file.h"
#include "bench/cg/verdict.h"
#include "bench/cg/work.h"
#include "bench/program.h"
#include "bench/queue.h"
#include "bench/report.h"
#include "bench/streams.h"

namespace lanyard::bench::cg {
namespace {

struct Options {
  std::string poisson = "2d";
  int64_t n = 0;
  std::string matrix;
  std::string rhs = "unit";
  std::string partition = "rows";
  std::vector<std::string> solvers{"cg", "pipelined"};
  std::vector<std::string> ways{"mpi", "stream", "exchange"};
  double tolerance = 1e-6;
  int64_t fixed = 0;
  int64_t max_iterations = 10000;
  int64_t check_every = 10;
  int trials = 3;
  std::string residuals;
  std::string memory = "host";
  std::string format = "text";

  int dimensions() const { return matrix.empty() ? poisson[0] - '0' : 0; }
  int64_t most() const { return fixed > 0 ? fixed : max_iterations; }
};

void declare(CLI::App& app, Options& o) {
  constexpr int64_t kMost = 10'000'000;
  CLI::Option* const poisson =
      app.add_option("--poisson", o.poisson, "1d, 2d or 3d: the Laplacian with 3, 5 or 7 points (default: 2d)")
          ->check(CLI::IsMember({"1d", "2d", "3d"}));
  CLI::Option* const n = app.add_option("--n", o.n, "points a side (default: 100000 in 1d, 512 in 2d, 64 in 3d)")
                             ->check(CLI::Range(int64_t{1}, Matrix::kMostRows));
  app.add_option("--matrix", o.matrix, "a Matrix Market file of a symmetric matrix, plain or compressed by gzip")
      ->excludes(poisson)
      ->excludes(n);
  app.add_option("--rhs", o.rhs,
                 "unit: b = A e, e the unit vector in the middle; ones; random; or a Matrix Market file of a vector "
                 "(default: unit)");
  app.add_option("--solver", o.solvers, "a comma list of cg, pipelined (default: both)")
      ->delimiter(',')
      ->check(CLI::IsMember({"cg", "pipelined"}));
  app.add_option("--backend", o.ways, "a comma list of mpi, stream, exchange; the first is the baseline (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"mpi", "stream", "exchange"}));
  CLI::Option* const tolerance =
      app.add_option("--tolerance", o.tolerance, "of |b - A x| / |b|, between 0 and 1 (default: 1e-6)");
  app.add_option("--fixed", o.fixed, "makes so many iterations, converged or not")
      ->check(CLI::Range(int64_t{1}, kMost))
      ->excludes(tolerance);
  app.add_option("--max-iterations", o.max_iterations, "that must be enough (default: 10000)")
      ->check(CLI::Range(int64_t{1}, kMost));
  app.add_option("--check-every", o.check_every,
                 "stream, exchange: iterations after which the host looks for the end (default: 10)")
      ->check(CLI::Range(int64_t{1}, kMost));
  app.add_option("--partition", o.partition,
                 "rows: contiguous; metis: few entries between ranks; or a file with a rank a line (default: rows)");
  app.add_option("--trials", o.trials, "solves, for mean and interval (default: 3)")->check(CLI::Range(1, 1000));
  app.add_option("--residuals", o.residuals, "writes the residual of every iteration to this file, as CSV");
  add_memory(app, o.memory);
  add_format(app, o.format);
}

// What is wrong with the options; empty when nothing is. Sets the default of --n.
std::string mistake(Options& o) {
  if (!(o.tolerance > 0 && o.tolerance < 1))
    return fmt::format("--tolerance {}, expected a number between 0 and 1", o.tolerance);
  if (o.dimensions() == 0)
    return "";
  constexpr int64_t kDefaults[] = {100000, 512, 64};
  if (o.n == 0)
    o.n = kDefaults[o.dimensions() - 1];
  if (std::pow(static_cast<double>(o.n), o.dimensions()) > static_cast<double>(Matrix::kMostRows))
    return fmt::format("--poisson {} --n {} has more than {} rows", o.poisson, o.n, Matrix::kMostRows);
  return "";
}

// ---- The problem, which every rank knows

// Rank 0's vector, on every rank.
template <class T>
void from_first(std::vector<T>& values) {
  auto count = static_cast<int64_t>(values.size());
  check(MPI_Bcast(&count, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
  values.resize(static_cast<size_t>(count));
  constexpr int64_t kPiece = int64_t{1} << 27;  // an int counts its bytes
  for (int64_t done = 0; done < count; done += kPiece)
    check(MPI_Bcast(values.data() + done, static_cast<int>(std::min(kPiece, count - done) * sizeof(T)), MPI_BYTE, 0,
                    MPI_COMM_WORLD),
          "MPI_Bcast");
}

// Runs f, which reads files, on rank 0. If it throws BadInput, so does this on every rank.
template <class F>
void on_first(const MpiProcess& process, F&& f) {
  std::string why;
  if (process.is_first()) {
    try {
      f();
    } catch (const BadInput& bad) {
      why = bad.what();
    }
  }
  if (!process.all(why.empty()))
    throw BadInput(why);
}

// From -1 to 1; the same for every partition.
double random_value(uint64_t row) {
  uint64_t z = (row + 1) * 0x9e3779b97f4a7c15;  // SplitMix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>(z >> 11) * 0x1p-52 - 1;
}

Problem read_problem(const Options& o, const MpiProcess& process) {
  Problem p;
  p.dimensions = o.dimensions();
  p.n = o.n;
  p.rhs = o.rhs;
  if (p.dimensions > 0) {
    p.matrix = poisson(p.dimensions, o.n);
  } else {
    Csr csr;
    on_first(process, [&] { csr = read_matrix(o.matrix); });
    from_first(csr.starts);
    from_first(csr.columns);
    from_first(csr.values);
    p.matrix = from_csr(std::move(csr));
  }
  p.b.assign(static_cast<size_t>(p.matrix.rows), o.rhs == "ones" ? 1 : 0);
  if (o.rhs == "unit") {
    std::vector<Entry> column;  // a row, as A is symmetric
    p.matrix.row(p.matrix.centre, column);
    for (const Entry& entry : column)
      p.b[static_cast<size_t>(entry.column)] = entry.value;
  } else if (o.rhs == "random") {
    for (size_t row = 0; row < p.b.size(); ++row)
      p.b[row] = random_value(row);
  } else if (o.rhs != "ones") {
    on_first(process, [&] { p.b = read_vector(o.rhs, p.matrix.rows); });
    from_first(p.b);
  }
  return p;
}

Owners partition(const Options& o, const Matrix& matrix, const MpiProcess& process) {
  if (o.partition == "rows")
    return row_blocks(matrix.rows, process.ranks());
  Owners owners;
  on_first(process, [&] {
    owners = o.partition == "metis" ? metis_partition(matrix, process.ranks())
                                    : read_partition(o.partition, matrix.rows, process.ranks());
  });
  from_first(owners);
  return owners;
}

// ---- The runs

// On rank 0 the values of all rows, by row; elsewhere nothing. Collective.
std::vector<double> gather(const std::vector<double>& own, const Owners& owners, const MpiProcess& process) {
  const auto ranks = static_cast<size_t>(process.ranks());
  std::vector<int> counts(ranks, 0), next(ranks, 0);
  for (const int owner : owners)
    ++counts[static_cast<size_t>(owner)];
  for (size_t rank = 1; rank < ranks; ++rank)
    next[rank] = next[rank - 1] + counts[rank - 1];
  std::vector<double> by_rank(process.is_first() ? owners.size() : 0), by_row;
  check(MPI_Gatherv(own.data(), static_cast<int>(own.size()), MPI_DOUBLE, by_rank.data(), counts.data(), next.data(),
                    MPI_DOUBLE, 0, MPI_COMM_WORLD),
        "MPI_Gatherv");
  for (size_t row = 0; row < by_rank.size(); ++row)
    by_row.push_back(by_rank[static_cast<size_t>(next[static_cast<size_t>(owners[row])]++)]);
  return by_row;
}

// Names the bits of x (FNV-1a): equal names, equal bits.
std::string name_of_bits(const std::vector<double>& x) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const double value : x) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

class Benchmark {
 public:
  // `residuals`: open on rank 0 if they are wanted.
  Benchmark(const Options& options, const Problem& problem, const Owners& owners, const MpiProcess& process,
            std::ofstream& residuals)
      : o_(options),
        problem_(problem),
        owners_(owners),
        process_(process),
        streams_(options.memory == "device", "cg", process),
        local_(local_matrix(problem.matrix, owners, process.rank())),
        residuals_(residuals) {
    for (const int32_t row : local_.rows)
      b_.push_back(problem.b[static_cast<size_t>(row)]);
  }

  Report run() {
    Report report("cg");
    report.fact("mpi", mpi_library());
    report.fact("ranks", process_.ranks());
    streams_.describe(report);
    report.fact("matrix", o_.matrix.empty() ? fmt::format("poisson {} n {}", o_.poisson, o_.n) : o_.matrix);
    report.fact("matrix_rows", problem_.matrix.rows);
    report.fact("matrix_nonzeros", problem_.matrix.nonzeros);
    report.fact("rhs", o_.rhs);
    report.fact("partition", o_.partition);
    report.fact("tolerance", o_.fixed > 0 ? Json() : Json(o_.tolerance));
    report.fact("check_every", o_.check_every);
    report.fact("trials", o_.trials);
    Json nic;
    for (const std::string& method : o_.solvers) {
      double baseline = 0;
      for (const std::string& way : o_.ways) {
        Json row = measure(method, way, baseline, nic);
        if (way == o_.ways.front())
          describe_work(method, row["iterations"], report);
        report.add(std::move(row));
      }
    }
    add_nic(report, nic);
    return report;
  }

 private:
  void describe_work(const std::string& method, int64_t iterations, Report& report) const {
    Json kernels = Json::object();
    std::string remark = method + ":";
    for (const Work& work :
         work_of(method == "pipelined", problem_.matrix.rows, problem_.matrix.nonzeros, iterations)) {
      kernels[work.name] = {{"calls", work.calls}, {"flops", work.flops}, {"bytes", work.bytes}};
      remark +=
          fmt::format(" {} x {} ({:.4g} Gflop, {:.4g} GB)", work.calls, work.name, work.flops / 1e9, work.bytes / 1e9);
    }
    report.fact("kernels_" + method, kernels);
    report.remark(remark);
  }

  double tolerance() const { return o_.fixed > 0 ? 0 : o_.tolerance; }

  // `baseline`: us an iteration of the first row; it sets it. `nic`: set where there is a queue.
  Json measure(const std::string& method, const std::string& way, double& baseline, Json& nic) {
    Progress progress(fmt::format("cg: {}, {}", method, way), o_.most(), process_.is_first());
    const std::unique_ptr<Stream> stream = streams_.make();
    Solver solver(method == "pipelined", way, local_, o_.most(), *stream);
    const auto solve = [&](int64_t most) {
      solver.solve(b_, tolerance(), most, o_.check_every, [&](int64_t done) { progress.at(done); });
    };
    solve(std::min<int64_t>(o_.most(), 20));  // warms up
    const Json before = solver.info();
    std::vector<double> trials, x;
    bool is_same = true;
    for (int trial = 0; trial < o_.trials; ++trial) {
      process_.barrier();
      const double begin = MPI_Wtime();
      solve(o_.most());
      trials.push_back(process_.largest(MPI_Wtime() - begin) * 1e6);
      std::vector<double> found = solver.solution();
      is_same = is_same && (trial == 0 || found == x);
      x = std::move(found);
    }
    const int64_t iterations = solver.state().iterations();
    const auto divisor = static_cast<double>(std::max<int64_t>(iterations, 1));
    for (double& us : trials)
      us /= divisor;
    const Estimate us = estimate(trials);
    baseline = baseline > 0 ? baseline : us.mean;
    double flops = 0;
    for (const Work& work : work_of(method == "pipelined", problem_.matrix.rows, problem_.matrix.nonzeros, iterations))
      flops += work.flops;
    Json row = {{"solver", method},
                {"backend", way},
                {"iterations", iterations},
                {"us_per_iteration", us.mean},
                {"us_ci95", or_null(us.ci95)},
                {"us_min", us.min},
                {"ratio", us.mean / baseline},
                {"gflop_per_s", flops / 1e3 / (us.mean * divisor)}};
    const bool is_right = verify(method, way, solver, x, is_same, row);
    const Json after = solver.info();
    add_entries(row, before, after);
    if (!after.is_null())
      nic = after;
    add_parts(row, solver, [&] { solve(std::min<int64_t>(o_.most(), 100)); });
    row["verified"] = is_right;  // the last column
    return row;
  }

  // Checks the last solve, prints an error, writes the file of residuals, and adds the results to
  // `row`. `x`: the solution of this rank; `is_same`: every trial gave it. Collective.
  bool verify(const std::string& method, const std::string& way, const Solver& solver, const std::vector<double>& x,
              bool is_same, Json& row) {
    const State state = solver.state();
    const Outcome outcome{method == "pipelined", tolerance(), state.is_broken != 0, solver.history(),
                          gather(x, owners_, process_)};
    const auto iterations = static_cast<double>(state.iterations());
    Verdict verdict;
    if (process_.is_first())
      verdict = judge(problem_, outcome);
    if (!process_.all(process_.from_first(iterations) == iterations))
      verdict.wrong = "the ranks differ in the number of iterations";
    if (!process_.all(is_same))
      verdict.wrong = "the trials differ in x";
    if (process_.is_first() && !verdict.wrong.empty())
      fmt::print(stderr, "cg: {}, {}: {}\n", method, way, verdict.wrong);
    for (size_t i = 0; residuals_.is_open() && i < outcome.squares.size(); ++i)
      residuals_ << fmt::format("{},{},{},{:.17g}\n", method, way, i,
                                std::sqrt(outcome.squares[i] / outcome.squares[0]));
    row["residual"] = verdict.residual;
    row["true_residual"] = verdict.true_residual;
    row["x"] = name_of_bits(outcome.x);
    return process_.all(verdict.wrong.empty());
  }

  // The time of an iteration by part, of the mean rank, from a solve of its own. Collective.
  void add_parts(Json& row, Solver& solver, const std::function<void()>& solve) const {
    solver.measure();
    solve();
    const double iterations = static_cast<double>(std::max<int64_t>(solver.state().iterations(), 1));
    const std::vector<int64_t> spent = solver.spent();
    for (size_t part = 0; part < kParts; ++part) {
      double us = static_cast<double>(spent[part]) / 1e3 / iterations / process_.ranks();
      check(MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
      row[std::string(kPartNames[part]) + "_us"] = us;
    }
  }

  const Options& o_;
  const Problem& problem_;
  const Owners& owners_;
  const MpiProcess& process_;
  const Streams streams_;
  const LocalMatrix local_;
  std::ofstream& residuals_;
  std::vector<double> b_;  // of the own rows
};

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{"Conjugate gradients and pipelined ones of a sparse symmetric matrix, verified by the true residual."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  try {
    if (const std::string what = mistake(options); !what.empty())
      return usage_error(process, "cg", what);
    const Problem problem = read_problem(options, process);
    const Owners owners = partition(options, problem.matrix, process);
    std::ofstream residuals;
    const auto check_file = [&] {
      if (!options.residuals.empty() && !residuals.good())
        throw BadInput(options.residuals + ": cannot be written");
    };
    on_first(process, [&] {
      if (!options.residuals.empty())
        residuals.open(options.residuals);
      residuals << "solver,backend,iteration,residual\n";
      check_file();
    });
    const Report report = Benchmark(options, problem, owners, process, residuals).run();
    if (process.is_first())
      report.print(options.format);
    on_first(process, [&] {
      residuals.flush();
      check_file();
    });
    return report.verified() ? 0 : kExitMismatch;
  } catch (const BadInput& bad) {
    if (process.is_first())
      fmt::print(stderr, "cg: {}\n", bad.what());
    return kExitUsage;
  }
}

}  // namespace
}  // namespace lanyard::bench::cg

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::cg::run(argc, argv, process);
}
