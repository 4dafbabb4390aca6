// Jacobi's method in two and three dimensions, a halo exchange every step, CPU-driven and
// stream-triggered, after the CPU-free model (Ismayilov et al.). See bench/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <numbers>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/generations.h"
#include "bench/halo/halo.h"
#include "bench/program.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

// ---- The problem, and what its steps must give. Shares no code with the kernels
//
// In two dimensions a slab is a row, in three a plane. Slabs are periodic: slab s has the value
// sin(2 pi s / slabs) all along its rim, which never changes, and 0 within. A step makes each cell
// the mean of its 4 or 6 neighbours. With an impulse the rim is 0, and one cell begins as 4^steps
// or 6^steps: then all values stay whole numbers.
//
// Source: the geometry of Ismayilov et al., "Multi-GPU Communication Schemes for Iterative Solvers:
// When CPUs are Not in Charge".

struct JacobiProblem {
  int dims = 2;
  long slabs = 0;    // cells that are updated, as are:
  long rows = 1;     // of a slab; 1 in two dimensions
  long columns = 0;  // of a row
  bool is_impulse = false;
  long steps = 0;

  double angle(long slab) const {
    return 2 * std::numbers::pi * static_cast<double>(slab) / static_cast<double>(slabs);
  }
  double rim(long slab) const { return is_impulse ? 0 : std::sin(angle(slab)); }
  double start(long slab, long row, long column) const {
    const bool is_middle = slab == slabs / 2 && row == rows / 2 && column == columns / 2;
    return is_impulse && is_middle ? std::pow(2 * dims, steps) : 0;
  }
  // Why the impulse's whole numbers would not be exact with so many bits; empty if they are.
  std::string mistake(int bits) const {
    if (!is_impulse || static_cast<double>(steps) * std::log2(2 * dims) <= bits)
      return "";
    return fmt::format("after {} steps an impulse is {}^{}, more than {} bits hold exactly", steps, 2 * dims, steps,
                       bits);
  }
  size_t index(long slab, long row, long column) const {
    return static_cast<size_t>((slab * rows + row) * columns + column);
  }
};

// One step after another: cells begin as start(slab, row, column), and rim(slab) is their rim. A
// cell becomes next(sum of its neighbours in a plane, slab before, slab behind). In the order of
// the kernels: right, left, down, up.
template <class T, class Start, class Rim, class Next>
std::vector<T> jacobi_steps(const JacobiProblem& p, const Start& start, const Rim& rim, const Next& next) {
  std::vector<T> now, rims;
  for (long s = 0; s < p.slabs; ++s) {
    rims.push_back(rim(s));
    for (long r = 0; r < p.rows; ++r)
      for (long c = 0; c < p.columns; ++c)
        now.push_back(start(s, r, c));
  }
  std::vector<T> then(now.size());
  for (long step = 0; step < p.steps; ++step) {
    for (long s = 0; s < p.slabs; ++s) {
      const long before = (s + p.slabs - 1) % p.slabs, behind = (s + 1) % p.slabs;
      const auto at = [&](long r, long c) {
        return r < 0 || r == p.rows || c < 0 || c == p.columns ? rims[static_cast<size_t>(s)] : now[p.index(s, r, c)];
      };
      for (long r = 0; r < p.rows; ++r)
        for (long c = 0; c < p.columns; ++c) {
          T sum = at(r, c + 1) + at(r, c - 1);
          if (p.dims == 3)
            sum = (sum + at(r - 1, c)) + at(r + 1, c);
          then[p.index(s, r, c)] = next(sum, now[p.index(before, r, c)], now[p.index(behind, r, c)]);
        }
    }
    now.swap(then);
  }
  return now;
}

// All cells after the problem's steps, on one core, by slab, row and column. T: float or double.
template <class T>
std::vector<T> jacobi_reference(const JacobiProblem& p) {
  return jacobi_steps<T>(
      p, [&](long s, long r, long c) { return static_cast<T>(p.start(s, r, c)); },
      [&](long s) { return static_cast<T>(p.rim(s)); },
      [&](T sum, T before, T behind) {
        sum = (sum + before) + behind;
        return p.dims == 2 ? sum * T(0.25) : sum / T(6);
      });
}

// Describes the first cell of `found` that differs in any bit from `reference`, or is wrong; empty
// if there is none. A sine's cell is wrong if it is not within 1e-13 (floats: 1e-5) of a recurrence
// of one dimension less. An impulse's is wrong if it is not the whole number that integers give.
template <class T>
std::string jacobi_difference(const JacobiProblem& p, const std::vector<T>& found, const std::vector<T>& reference) {
  // Integers; or the sine's amplitude, with a rim of 1, on one slab that is its own neighbour.
  std::vector<uint64_t> whole;
  std::vector<long double> amplitude;
  if (p.is_impulse) {
    whole = jacobi_steps<uint64_t>(
        p, [&](long s, long r, long c) { return p.start(s, r, c) > 0 ? 1u : 0u; }, [](long) { return 0u; },
        [](uint64_t sum, uint64_t before, uint64_t behind) { return sum + before + behind; });
  } else {
    JacobiProblem section = p;
    section.slabs = 1;
    amplitude = jacobi_steps<long double>(
        section, [](long, long, long) { return 0.0L; }, [](long) { return 1.0L; },
        [&](long double sum, long double own, long double) {
          return (sum + 2 * std::cos(static_cast<long double>(p.angle(1))) * own) / (2 * p.dims);
        });
  }
  const double tolerance = sizeof(T) == 8 ? 1e-13 : 1e-5;
  for (long s = 0; s < p.slabs; ++s)
    for (long r = 0; r < p.rows; ++r)
      for (long c = 0; c < p.columns; ++c) {
        const size_t i = p.index(s, r, c);
        const auto wrong = [&](const std::string& expected) {
          return fmt::format("cell (slab {}, row {}, column {}) is {}, should be {}", s, r, c, found[i], expected);
        };
        if (std::memcmp(&found[i], &reference[i], sizeof(T)) != 0)
          return wrong(fmt::format("{}", reference[i]));
        if (p.is_impulse && found[i] != static_cast<T>(whole[i]))
          return wrong(fmt::format("{}", whole[i]));
        if (p.is_impulse)
          continue;
        const double exact = static_cast<double>(amplitude[p.index(0, r, c)]) * p.rim(s);
        if (!(std::fabs(static_cast<double>(found[i]) - exact) <= tolerance))
          return wrong(fmt::format("{} by the recurrence", exact));
      }
  return "";
}

// ---- The runs

using halo::Mode;

// When a step computes its inner slabs, which need no ghosts. kBeside: on a second stream, beside
// the halo exchange; the host waits for both. kAfter: after the exchange. kBetween: on the one
// stream, while the messages are in flight.
enum class Inner { kBeside, kAfter, kBetween };
struct Variant {
  const char* name;
  Mode mode;
  Inner inner;
};
constexpr Variant kVariants[] = {{"overlap", {Mode::kMpi, 0}, Inner::kBeside},
                                 {"copy", {Mode::kMpi, 0}, Inner::kAfter},
                                 {"stream", {Mode::kSend, 0}, Inner::kBetween},
                                 {"exchange", {Mode::kSend, 2}, Inner::kBetween}};

struct Options : LoopOptions {
  int dims = 2;
  long nx = 0, ny = 0, nz = 0;
  std::string type = "double";
  std::string initial = "zero";
  std::vector<std::string> variants = {"overlap", "copy", "stream", "exchange"};
  bool no_compute = false;
  std::string scaling = "none";
  std::string dump;
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--dims", o.dims, "2 or 3 (default: 2)")->check(CLI::Range(2, 3));
  for (const auto& [name, number] : {std::pair{"--nx", &o.nx}, {"--ny", &o.ny}, {"--nz", &o.nz}})
    app.add_option(name, *number, "cells (default: 512, in three dimensions 64)")->check(CLI::Range(1L, kMany));
  app.add_option("--type", o.type, "float or double (default: double)")->check(CLI::IsMember({"float", "double"}));
  app.add_option("--initial", o.initial, "zero, with a sine as the rim; or impulse, of exact integers (default: zero)")
      ->check(CLI::IsMember({"zero", "impulse"}));
  app.add_option("--variant", o.variants,
                 "a comma list of overlap, copy, stream and exchange, the first as baseline (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(o.variants));
  app.add_flag("--no-compute", o.no_compute, "measure the halo exchanges alone, too");
  app.add_option("--scaling", o.scaling,
                 "none; or on 1, 2, 4, ... and all ranks: strong, the same grid; weak, one longer in y (z) as they are "
                 "more (default: none)")
      ->check(CLI::IsMember({"none", "weak", "strong"}));
  app.add_option("--dump", o.dump, "writes all cells of the last run to this file: binary, row by row, of --type");
  add_loop_options(app, o);
}

// The grid on so many ranks.
JacobiProblem make_problem(const Options& o, int ranks) {
  const auto size = [&](long n) { return n > 0 ? n : o.dims == 2 ? 512 : 64; };
  JacobiProblem problem{o.dims, size(o.nz), size(o.ny), size(o.nx), o.initial == "impulse", o.steps};
  if (o.dims == 2)
    problem.slabs = std::exchange(problem.rows, 1);
  if (o.scaling == "weak")
    problem.slabs *= ranks;
  return problem;
}

// One variant on the ranks of a communicator, each with some of the slabs. Collective, but for what
// says otherwise.
template <int Dim, class T>
class JacobiLoop {
 public:
  JacobiLoop(const Variant& variant, const JacobiProblem& problem, long batch, const Streams& streams, MPI_Comm comm)
      : variant_(variant),
        problem_(problem),
        cells_(make_grid(problem, comm), {.has_corners = false, .mode = variant.mode}, streams, batch, comm) {
    if (variant.inner == Inner::kBeside)
      second_stream_ = streams.make();
    const halo::Shape<Dim>& shape = cells_.shape();
    const size_t origin = shape.at(std::array<long, Dim>{});
    const long slabs = shape.counts[0];
    for (size_t i = 0; i < 2; ++i) {
      JacobiKernel step{cells_.cells(i) + origin, cells_.cells(1 - i) + origin, Dim, sizeof(T), shape.stride(0)};
      step.row_stride = Dim == 3 ? shape.stride(1) : 0;
      step.rows = problem.rows;
      step.columns = problem.columns;
      inner_[i] = border_[i] = step;
      inner_[i].first = 1;
      inner_[i].count = std::max(slabs - 2, 0L);
      border_[i].step = slabs - 1;  // the first and the last slab
      border_[i].count = std::min(slabs, 2L);
    }
  }

  // Requires that the stream is empty. All but the first generation's cells and the rims is no
  // number, and what comes of it is none. `start` gives a cell of the whole grid. Local.
  template <class Start>
  void fill(const Start& start) {
    const long first = cells_.grid().mine(0).first;
    cells_.fill([&](size_t generation, T* cells) {
      std::fill_n(cells, cells_.shape().size(), std::numeric_limits<T>::quiet_NaN());
      for_each_cell(0, cells_.shape().counts[0], 1, [&](long slab, long row, long column, size_t index) {
        const bool is_rim = column < 0 || column == problem_.columns || row < 0 || row == problem_.rows;
        if (is_rim || generation == 0)
          cells[index] = static_cast<T>(is_rim ? problem_.rim(first + slab) : start(first + slab, row, column));
      });
    });
  }

  Generations<Dim, T>& cells() { return cells_; }

  // For cells().run(). With a second stream a step blocks until it has run. Without computing
  // nothing but ghosts change.
  auto step(bool computes) {
    return [this, computes](long number) {
      const size_t from = computes ? static_cast<size_t>(number % 2) : 0;
      Stream& stream = cells_.stream();
      const auto launch_inner = [&](Inner when, Stream& where) {
        if (computes && variant_.inner == when && inner_[from].count > 0)
          where.launch(inner_[from]);
      };
      if (second_stream_)
        launch_inner(Inner::kBeside, *second_stream_);
      cells_.halo().begin_gather(cells_.fields(from));
      launch_inner(Inner::kBetween, stream);
      cells_.halo().end_gather(cells_.fields(from));
      launch_inner(Inner::kAfter, stream);
      if (computes)
        stream.launch(border_[from]);
      if (second_stream_) {
        stream.synchronize();
        second_stream_->synchronize();
      }
    };
  }

  // After a run without computing: the first ghost here that is not as its owner began. Empty if
  // there is none. Local.
  template <class Start>
  std::string wrong_ghost(const Start& start) const {
    std::string wrong;
    const halo::Grid<Dim>& grid = cells_.grid();
    cells_.read(0, [&](const T* cells) {
      for (const long ghost : {-1L, cells_.shape().counts[0]})
        for_each_cell(ghost, ghost + 1, 0, [&](long slab, long row, long column, size_t index) {
          const long owner = (grid.mine(0).first + slab + problem_.slabs) % problem_.slabs;
          const T expected = static_cast<T>(start(owner, row, column));
          if (wrong.empty() && cells[index] != expected)
            wrong = fmt::format("rank {}: ghost (slab {}, row {}, column {}) is {}, should be {}", grid.rank, slab, row,
                                column, cells[index], expected);
        });
    });
    return wrong;
  }

 private:
  static halo::Grid<Dim> make_grid(const JacobiProblem& problem, MPI_Comm comm) {
    std::array<int, Dim> ranks;
    ranks.fill(1);
    ranks[0] = 0;  // all along the slabs
    if constexpr (Dim == 2)
      return halo::make_grid<2>(comm, {problem.slabs, problem.columns}, {true}, ranks);
    else
      return halo::make_grid<3>(comm, {problem.slabs, problem.rows, problem.columns}, {true}, ranks);
  }

  // Of some slabs all cells, and so many around in each row and column.
  template <class F>
  void for_each_cell(long first_slab, long end_slab, long around, F&& f) const {
    const long more_rows = Dim == 3 ? around : 0;
    for (long slab = first_slab; slab < end_slab; ++slab)
      for (long row = -more_rows; row < problem_.rows + more_rows; ++row)
        for (long column = -around; column < problem_.columns + around; ++column) {
          if constexpr (Dim == 3)
            f(slab, row, column, cells_.shape().at(slab, row, column));
          else
            f(slab, row, column, cells_.shape().at(slab, column));
        }
  }

  const Variant& variant_;
  const JacobiProblem& problem_;
  Generations<Dim, T> cells_;
  std::unique_ptr<Stream> second_stream_;
  std::array<JacobiKernel, 2> inner_, border_;
};

template <int Dim, class T>
class Jacobi {
 public:
  Jacobi(const Options& options, const MpiProcess& process)
      : options_(options), process_(process), streams_(options.memory == "device", "jacobi", process) {}

  // The exit status.
  int run() {
    Report report("jacobi");
    report.fact("mpi", mpi_library());
    streams_.describe(report);
    for (const auto& [name, value] :
         {std::pair{"type", options_.type}, {"initial", options_.initial}, {"scaling", options_.scaling}})
      report.fact(name, value);
    report.fact("dims", options_.dims);
    report.fact("steps", options_.steps);
    std::vector<int> counts;
    for (int ranks = 1; options_.scaling != "none" && ranks < process_.ranks(); ranks *= 2)
      counts.push_back(ranks);
    counts.push_back(process_.ranks());
    for (const int ranks : counts)
      run_on(ranks, report);
    add_nic(report, nic_);
    return finish(report, options_.format, process_);
  }

 private:
  // The first ranks, but no more than there are slabs; the others sleep meanwhile.
  void run_on(int ranks, Report& report) {
    const JacobiProblem problem = make_problem(options_, ranks);
    const bool takes_part = process_.rank() < std::min<long>(ranks, problem.slabs);
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, process_.rank(), &comm), "MPI_Comm_split");
    if (takes_part) {
      const std::vector<T> reference = process_.is_first() ? jacobi_reference<T>(problem) : std::vector<T>();
      double baseline = 0;
      for (const std::string& name : options_.variants) {
        const Variant& variant = *std::ranges::find(kVariants, name, &Variant::name);
        Json row = measure(variant, problem, reference, comm);
        const double us = row["us_per_step"];
        if (name == options_.variants.front())
          baseline = us;
        // The time of one rank over this one's; with strong scaling shared out.
        const double alone = one_rank_us_.try_emplace(name, us).first->second;
        const bool is_strong = options_.scaling == "strong";
        row["ratio"] = us / baseline;
        if (options_.scaling != "none")
          row["efficiency"] = alone / us / (is_strong ? row["ranks"].get<double>() : 1);
        report.add(row);
      }
      check(MPI_Comm_free(&comm), "MPI_Comm_free");
    }
    MPI_Request all = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(MPI_COMM_WORLD, &all), "MPI_Ibarrier");
    for (int done = 0; done == 0; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      check(MPI_Test(&all, &done, MPI_STATUS_IGNORE), "MPI_Test");
  }

  // A row that lacks what follows from other rows.
  Json measure(const Variant& variant, const JacobiProblem& problem, const std::vector<T>& reference, MPI_Comm comm) {
    JacobiLoop<Dim, T> loop(variant, problem, options_.batch, streams_, comm);
    int ranks = 0;
    check(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
    Progress progress(fmt::format("jacobi: {} on {} ranks", variant.name, ranks), problem.steps, process_.is_first());
    const auto start = [&](long s, long r, long c) { return problem.start(s, r, c); };
    loop.fill(start);
    loop.cells().run(options_.warmup, progress, loop.step(true));
    loop.fill(start);
    const Json before = loop.cells().info();
    const double scale = 1e6 / static_cast<double>(problem.steps);
    const double us = loop.cells().timed(problem.steps, progress, loop.step(true)) * scale;
    const Json after = loop.cells().info();
    const std::vector<T> found = loop.cells().collect(problem.steps % 2);
    std::string wrong = process_.is_first() ? jacobi_difference(problem, found, reference) : "";
    if (process_.is_first() && !options_.dump.empty()) {
      std::ofstream file(options_.dump, std::ios::binary);
      file.write(reinterpret_cast<const char*>(found.data()), static_cast<std::streamsize>(found.size() * sizeof(T)));
      if (!file.flush())
        end_job(options_.dump + ": cannot be written");
    }

    Json only_halo;
    if (options_.no_compute) {
      const auto number = [&](long s, long r, long c) { return static_cast<double>(problem.index(s, r, c)); };
      loop.fill(number);
      only_halo = loop.cells().timed(problem.steps, progress, loop.step(false)) * scale;
      if (wrong.empty() && !(wrong = loop.wrong_ghost(number)).empty())
        wrong = "without computing, " + wrong;
    }
    int is_right = wrong.empty() ? 1 : 0;
    if (is_right == 0)
      fmt::print(stderr, "jacobi: {}: after {} steps {}\n", variant.name, problem.steps, wrong);
    check(MPI_Allreduce(MPI_IN_PLACE, &is_right, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");

    Json entries;  // of the first rank
    if (!after.is_null())
      entries = (after["entries_posted"].get<double>() - before["entries_posted"].get<double>()) /
                static_cast<double>(problem.steps);
    nic_ = after.is_null() ? nic_ : after;
    return {{"variant", variant.name},
            {"ranks", ranks},
            {"nx", problem.columns},
            {"ny", Dim == 2 ? problem.slabs : problem.rows},
            {"nz", Dim == 2 ? Json() : Json(problem.slabs)},
            {"us_per_step", us},
            {"us_per_step_no_compute", only_halo},
            {"entries_per_step", entries},
            {"ratio", nullptr},
            {"efficiency", nullptr},
            {"verified", is_right != 0}};
  }

  const Options& options_;
  const MpiProcess& process_;
  const Streams streams_;
  std::map<std::string, double> one_rank_us_;
  Json nic_;  // of the last variant that has a queue
};

int run(const Options& options, const MpiProcess& process) {
  if (options.dims == 2 && options.nz != 0)
    return usage_error(process, "jacobi", "--nz is for --dims 3");
  const bool is_float = options.type == "float";
  const std::string what =
      make_problem(options, 1)
          .mistake(is_float ? std::numeric_limits<float>::digits : std::numeric_limits<double>::digits);
  if (!what.empty())
    return usage_error(process, "jacobi", what);
  if (!process.all(!process.is_first() || options.dump.empty() || std::ofstream(options.dump)))
    return usage_error(process, "jacobi", options.dump + ": cannot be written");
  if (options.dims == 2)
    return is_float ? Jacobi<2, float>(options, process).run() : Jacobi<2, double>(options, process).run();
  return is_float ? Jacobi<3, float>(options, process).run() : Jacobi<3, double>(options, process).run();
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  using namespace lanyard::bench;
  return run_program(argc, argv,
                     "Jacobi's method: a halo exchange with two neighbours every step, verified bit by bit.", declare,
                     run);
}
