// Conjugate gradients and pipelined conjugate gradients of a sparse matrix, stream-triggered and
// CPU-driven, after Trotter et al. See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/cg/matrix.h"
#include "bench/cg/solver.h"
#include "bench/cg/verdict.h"
#include "bench/payload.h"
#include "bench/program.h"
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
  int64_t points() const {
    constexpr int64_t kDefaults[] = {0, 100000, 512, 64};
    return n > 0 ? n : kDefaults[dimensions()];
  }
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

// What is wrong with the options; empty when nothing is.
std::string mistake(const Options& o) {
  if (!(o.tolerance > 0 && o.tolerance < 1))
    return fmt::format("--tolerance {}, expected a number between 0 and 1", o.tolerance);
  if (std::pow(static_cast<double>(o.points()), o.dimensions()) > static_cast<double>(Matrix::kMostRows))
    return fmt::format("--poisson {} --n {} has more than {} rows", o.poisson, o.points(), Matrix::kMostRows);
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

// Runs f, which has to do with files, on rank 0. If it throws BadInput, so does this on every rank.
void on_first(const MpiProcess& process, const std::function<void()>& f) {
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

Problem read_problem(const Options& o, const MpiProcess& process) {
  Problem p;
  p.dimensions = o.dimensions();
  p.n = o.points();
  p.rhs = o.rhs;
  if (p.dimensions > 0) {
    p.matrix = poisson(p.dimensions, p.n);
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
    for (size_t row = 0; row < p.b.size(); ++row)  // from -1 to 1, the same for every partition
      p.b[row] = static_cast<double>(mix(row) >> 11) * 0x1p-52 - 1;
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

// Names the bits of x: equal names, equal bits.
std::string name_of_bits(const std::vector<double>& x) {
  const std::string_view bytes(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(double));
  return fmt::format("{:016x}", std::hash<std::string_view>()(bytes));
}

class Benchmark {
 public:
  // Collective. Throws BadInput on every rank.
  Benchmark(const Options& options, const MpiProcess& process)
      : o_(options),
        process_(process),
        problem_(read_problem(options, process)),
        local_(problem_.matrix, partition(options, problem_.matrix, process), process.rank()),
        streams_(options.memory == "device", "cg", process) {
    for (const int32_t row : local_.rows)
      b_.push_back(problem_.b[static_cast<size_t>(row)]);
    if (process.is_first() && !options.residuals.empty())
      residuals_.open(options.residuals);
    residuals_ << "solver,backend,iteration,residual\n";
    flush_residuals();
  }

  // All methods in all ways. The exit status.
  int run() {
    report_.fact("mpi", mpi_library());
    report_.fact("ranks", process_.ranks());
    streams_.describe(report_);
    report_.fact("matrix", o_.matrix.empty() ? fmt::format("poisson {} n {}", o_.poisson, o_.points()) : o_.matrix);
    report_.fact("matrix_rows", problem_.matrix.rows);
    report_.fact("matrix_nonzeros", problem_.matrix.nonzeros);
    report_.fact("rhs", o_.rhs);
    report_.fact("partition", o_.partition);
    report_.fact("tolerance", o_.fixed > 0 ? Json() : Json(o_.tolerance));
    report_.fact("check_every", o_.check_every);
    report_.fact("trials", o_.trials);
    for (const std::string& method : o_.solvers) {
      double baseline = 0;
      for (const std::string& way : o_.ways)
        measure(method, way, baseline);
    }
    add_nic(report_, nic_);
    const int status = finish(report_, o_.format, process_);
    flush_residuals();
    return status;
  }

 private:
  double tolerance() const { return o_.fixed > 0 ? 0 : o_.tolerance; }

  void flush_residuals() {
    on_first(process_, [&] {
      if (!o_.residuals.empty() && !residuals_.flush())
        throw BadInput(o_.residuals + ": cannot be written");
    });
  }

  // `baseline`: us an iteration of the method's first row, which sets it.
  void measure(const std::string& method, const std::string& way, double& baseline) {
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
      trials.push_back(process_.timed([&] { solve(o_.most()); }) * 1e6);
      std::vector<double> found = solver.solution();
      is_same = is_same && (trial == 0 || found == x);
      x = std::move(found);
    }
    const int64_t iterations = solver.state().iterations();
    const auto divisor = static_cast<double>(std::max<int64_t>(iterations, 1));
    for (double& us : trials)
      us /= divisor;
    const Estimate us = estimate(trials);
    const double flops = count_work(method, iterations, baseline == 0);
    baseline = baseline > 0 ? baseline : us.mean;
    Json row = {{"solver", method},
                {"backend", way},
                {"iterations", iterations},
                {"us_per_iteration", us.mean},
                {"us_ci95", us.ci95},
                {"us_min", us.min},
                {"ratio", us.mean / baseline},
                {"gflop_per_s", flops / 1e3 / (us.mean * divisor)}};
    const bool is_right = verify(method, way, solver, x, is_same, row);
    const Json after = solver.info();
    add_entries(row, before, after);
    if (!after.is_null())
      nic_ = after;
    add_parts(row, solver, [&] { solve(std::min<int64_t>(o_.most(), 100)); });
    row["verified"] = is_right;  // the last column
    report_.add(std::move(row));
  }

  // The time of an iteration by part, of the mean rank, from a solve of its own. Collective.
  void add_parts(Json& row, Solver& solver, const std::function<void()>& solve) const {
    solver.measure();
    solve();
    const auto iterations = static_cast<double>(std::max<int64_t>(solver.state().iterations(), 1));
    const std::vector<int64_t> spent = solver.spent();
    for (size_t part = 0; part < spent.size(); ++part) {
      double us = static_cast<double>(spent[part]) / 1e3 / iterations / process_.ranks();
      check(MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
      row[std::string(kPartNames[part]) + "_us"] = us;
    }
  }

  // The flops of a solve. Tells the report of all operations if they are the method's first.
  double count_work(const std::string& method, int64_t iterations, bool is_told) {
    double flops = 0;
    Json kernels = Json::object();
    std::string remark = method + ":";
    for (const Work& work :
         work_of(method == "pipelined", problem_.matrix.rows, problem_.matrix.nonzeros, iterations)) {
      flops += work.flops;
      kernels[work.name] = {{"calls", work.calls}, {"flops", work.flops}, {"bytes", work.bytes}};
      remark +=
          fmt::format(" {} x {} ({:.4g} Gflop, {:.4g} GB)", work.calls, work.name, work.flops / 1e9, work.bytes / 1e9);
    }
    if (is_told) {
      report_.fact("kernels_" + method, kernels);
      report_.remark(remark);
    }
    return flops;
  }

  // Checks the last solve, prints an error, writes the file of residuals, and adds the results to
  // `row`. `x`: the solution of this rank; `is_same`: every trial gave it. Collective.
  bool verify(const std::string& method, const std::string& way, const Solver& solver, const std::vector<double>& x,
              bool is_same, Json& row) {
    const State state = solver.state();
    Outcome outcome{method == "pipelined", tolerance(), state.is_broken != 0, solver.history(),
                    std::vector<double>(problem_.b.size())};
    // Rank 0 gets all rows: the sum of what each rank has.
    for (size_t i = 0; i < x.size(); ++i)
      outcome.x[static_cast<size_t>(local_.rows[i])] = x[i];
    check(MPI_Reduce(process_.is_first() ? MPI_IN_PLACE : outcome.x.data(), outcome.x.data(),
                     static_cast<int>(outcome.x.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD),
          "MPI_Reduce");
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

  const Options& o_;
  const MpiProcess& process_;
  const Problem problem_;
  const LocalMatrix local_;
  const Streams streams_;
  std::vector<double> b_;    // of the own rows
  std::ofstream residuals_;  // open on rank 0 if they are wanted
  Report report_{"cg"};
  Json nic_;
};

int run(const Options& options, const MpiProcess& process) {
  try {
    if (const std::string what = mistake(options); !what.empty())
      return usage_error(process, "cg", what);
    return Benchmark(options, process).run();
  } catch (const BadInput& bad) {
    if (process.is_first())
      fmt::print(stderr, "cg: {}\n", bad.what());
    return kExitUsage;
  }
}

}  // namespace
}  // namespace lanyard::bench::cg

int main(int argc, char** argv) {
  using namespace lanyard::bench;
  return run_program(
      argc, argv, "Conjugate gradients and pipelined ones of a sparse symmetric matrix, verified by the true residual.",
      cg::declare, cg::run);
}
