// Jacobi's method in two and three dimensions, a halo exchange every step, CPU-driven and
// stream-triggered, after the CPU-free model (Ismayilov et al.). See bench/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/collect.h"
#include "bench/halo/halo.h"
#include "bench/jacobi/kernel.h"
#include "bench/jacobi/problem.h"
#include "bench/program.h"
#include "bench/queue.h"
#include "bench/report.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

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

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const Variant& variant : kVariants)
    names.push_back(variant.name);
  return names;
}

struct Options {
  int dims = 2;
  long nx = 0, ny = 0, nz = 0;
  long steps = 100;
  std::string type = "double";
  std::string initial = "zero";
  std::vector<std::string> variants = variant_names();
  bool no_compute = false;
  std::string scaling = "none";
  long warmup = 8;
  long batch = 12;
  std::string memory = "host";
  std::string format = "text";
};

void declare(CLI::App& app, Options& o) {
  constexpr long kMany = std::numeric_limits<int>::max();
  app.add_option("--dims", o.dims, "2 or 3 (default: 2)")->check(CLI::Range(2, 3));
  for (const auto& [name, number] : {std::pair{"--nx", &o.nx}, {"--ny", &o.ny}, {"--nz", &o.nz}})
    app.add_option(name, *number, "cells (default: 512, in three dimensions 64)")->check(CLI::Range(1L, kMany));
  app.add_option("--steps", o.steps, "timed steps (default: 100)")->check(CLI::Range(1L, kMany));
  app.add_option("--type", o.type, "float or double (default: double)")->check(CLI::IsMember({"float", "double"}));
  app.add_option("--initial", o.initial, "zero, with a sine as the rim; or impulse, of exact integers (default: zero)")
      ->check(CLI::IsMember({"zero", "impulse"}));
  app.add_option("--variant", o.variants,
                 "a comma list of overlap, copy, stream and exchange, the first as baseline (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(variant_names()));
  app.add_flag("--no-compute", o.no_compute, "measure the halo exchanges alone, too");
  app.add_option("--scaling", o.scaling,
                 "none; or on 1, 2, 4, ... and all ranks: strong, the same grid; weak, one longer in y (z) as they are "
                 "more (default: none)")
      ->check(CLI::IsMember({"none", "weak", "strong"}));
  app.add_option("--warmup", o.warmup, "steps before the timed ones (default: 8)")->check(CLI::Range(0L, kMany));
  app.add_option("--batch", o.batch, "stream, exchange: steps enqueued before the host waits (default: 12)")
      ->check(CLI::Range(1L, kMany));
  add_memory(app, o.memory);
  add_format(app, o.format);
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
  JacobiLoop(const Variant& variant, const JacobiProblem& problem, const Options& options, const Streams& streams,
             MPI_Comm comm)
      : variant_(variant),
        problem_(problem),
        options_(options),
        comm_(comm),
        grid_(make_grid(problem, comm)),
        shape_(grid_, 1),
        stream_(streams.make()) {
    if (variant.inner == Inner::kBeside)
      second_stream_ = streams.make();
    if (variant.mode.way != Mode::kMpi)
      queue_.emplace(*stream_);
    const halo::Options halo{.has_corners = false, .mode = variant.mode};
    halo_.emplace(grid_, halo, std::vector{halo::cell_type<T>()}, comm, *stream_,
                  queue_ ? queue_->handle() : MPIX_QUEUE_NULL);
    for (AlignedBuffer& cells : cells_)
      cells = AlignedBuffer(shape_.size() * sizeof(T), stream_->gpu());
    const size_t origin = shape_.at(std::array<long, Dim>{}) * sizeof(T);
    for (size_t i = 0; i < 2; ++i) {
      fields_[i] = &halo_->bind(reinterpret_cast<T*>(cells_[i].data()));
      JacobiKernel step{cells_[i].data() + origin, cells_[1 - i].data() + origin, Dim, sizeof(T), shape_.stride(0)};
      step.row_stride = Dim == 3 ? shape_.stride(1) : 0;
      step.rows = problem.rows;
      step.columns = problem.columns;
      step.on_host = jacobi_kernel<T>;
      inner_[i] = border_[i] = step;
      const long slabs = shape_.counts[0];
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
    const long first = grid_.mine(0).first;
    for (size_t i = 0; i < 2; ++i)
      cells_[i].write([&](std::span<std::byte> bytes) {
        T* const cells = reinterpret_cast<T*>(bytes.data());
        std::fill_n(cells, shape_.size(), std::numeric_limits<T>::quiet_NaN());
        for_each_cell(0, shape_.counts[0], 1, [&](long slab, long row, long column, size_t index) {
          const bool is_rim = column < 0 || column == problem_.columns || row < 0 || row == problem_.rows;
          if (is_rim || i == 0)
            cells[index] = static_cast<T>(is_rim ? problem_.rim(first + slab) : start(first + slab, row, column));
        });
      });
  }

  // In the stream modes the host only enqueues, and waits after every batch. Without computing
  // nothing but ghosts change.
  void run(long steps, bool computes, Progress& progress) {
    for (long step = 0; step < steps; ++step) {
      const size_t from = computes ? static_cast<size_t>(step % 2) : 0;
      const auto launch_inner = [&](Inner when, Stream& stream) {
        if (computes && variant_.inner == when && inner_[from].count > 0)
          stream.launch(inner_[from]);
      };
      if (second_stream_)
        launch_inner(Inner::kBeside, *second_stream_);
      halo_->begin_gather(*fields_[from]);
      launch_inner(Inner::kBetween, *stream_);
      halo_->end_gather(*fields_[from]);
      launch_inner(Inner::kAfter, *stream_);
      if (computes)
        stream_->launch(border_[from]);
      if (second_stream_) {
        stream_->synchronize();
        second_stream_->synchronize();
      }
      if ((step + 1) % options_.batch != 0)
        continue;
      if (queue_)
        halo_->synchronize();
      progress.at(step + 1);
    }
    halo_->synchronize();
  }

  // Seconds of the slowest rank for the problem's steps.
  double timed(bool computes, Progress& progress) {
    check(MPI_Barrier(comm_), "MPI_Barrier");
    const auto begin = std::chrono::steady_clock::now();
    run(problem_.steps, computes, progress);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    check(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm_), "MPI_Allreduce");
    return seconds;
  }

  // Of the queue; null without one. Local.
  Json info() const { return queue_ ? queue_->info() : Json(); }
  // All cells after the problem's steps, on the first rank.
  std::vector<T> result() const {
    return cells_[static_cast<size_t>(problem_.steps % 2)].read([&](std::span<const std::byte> bytes) {
      return collect(reinterpret_cast<const T*>(bytes.data()), shape_, grid_, comm_);
    });
  }
  // After a run without computing: the first ghost here that is not as its owner began. Empty if
  // there is none. Local.
  template <class Start>
  std::string wrong_ghost(const Start& start) const {
    std::string wrong;
    const long slabs = shape_.counts[0];
    cells_[0].read([&](std::span<const std::byte> bytes) {
      const T* const cells = reinterpret_cast<const T*>(bytes.data());
      for (const long ghost : {-1L, slabs})
        for_each_cell(ghost, ghost + 1, 0, [&](long slab, long row, long column, size_t index) {
          const long owner = (grid_.mine(0).first + slab + problem_.slabs) % problem_.slabs;
          const T expected = static_cast<T>(start(owner, row, column));
          if (wrong.empty() && cells[index] != expected)
            wrong = fmt::format("rank {}: ghost (slab {}, row {}, column {}) is {}, should be {}", grid_.rank, slab,
                                row, column, cells[index], expected);
        });
    });
    return wrong;
  }

 private:
  static halo::Grid<Dim> make_grid(const JacobiProblem& problem, MPI_Comm comm) {
    std::array<long, Dim> cells;
    std::array<int, Dim> ranks;
    ranks.fill(1);
    ranks[0] = 0;  // all along the slabs
    cells[0] = problem.slabs;
    if constexpr (Dim == 3)
      cells[1] = problem.rows;
    cells[Dim - 1] = problem.columns;
    return halo::make_grid<Dim>(comm, cells, {true}, ranks);
  }
  // Of some slabs all cells, and so many around in each row and column.
  template <class F>
  void for_each_cell(long first_slab, long end_slab, long around, F&& f) const {
    const long more_rows = Dim == 3 ? around : 0;
    for (long slab = first_slab; slab < end_slab; ++slab)
      for (long row = -more_rows; row < problem_.rows + more_rows; ++row)
        for (long column = -around; column < problem_.columns + around; ++column) {
          if constexpr (Dim == 3)
            f(slab, row, column, shape_.at(slab, row, column));
          else
            f(slab, row, column, shape_.at(slab, column));
        }
  }

  const Variant& variant_;
  const JacobiProblem& problem_;
  const Options& options_;
  const MPI_Comm comm_;
  const halo::Grid<Dim> grid_;
  const halo::Shape<Dim> shape_;
  std::unique_ptr<Stream> stream_, second_stream_;
  std::optional<StreamQueue> queue_;
  std::array<AlignedBuffer, 2> cells_;
  std::array<JacobiKernel, 2> inner_, border_;
  std::optional<halo::Halo<Dim>> halo_;
  std::array<const typename halo::Halo<Dim>::Fields*, 2> fields_{};
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
    if (process_.is_first())
      report.print(options_.format);
    return report.verified() ? 0 : kExitMismatch;
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
        const Variant& variant =
            *std::find_if(std::begin(kVariants), std::end(kVariants), [&](const Variant& v) { return v.name == name; });
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
    JacobiLoop<Dim, T> loop(variant, problem, options_, streams_, comm);
    int ranks = 0;
    check(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
    Progress progress(fmt::format("jacobi: {} on {} ranks", variant.name, ranks), problem.steps, process_.is_first());
    const auto start = [&](long s, long r, long c) { return problem.start(s, r, c); };
    loop.fill(start);
    loop.run(options_.warmup, true, progress);
    loop.fill(start);
    const Json before = loop.info();
    const double scale = 1e6 / static_cast<double>(problem.steps);
    const double us = loop.timed(true, progress) * scale;
    const Json after = loop.info();
    const std::vector<T> found = loop.result();
    std::string wrong = process_.is_first() ? jacobi_difference(problem, found, reference) : "";

    Json only_halo;
    if (options_.no_compute) {
      const auto number = [&](long s, long r, long c) { return static_cast<double>(problem.index(s, r, c)); };
      loop.fill(number);
      only_halo = loop.timed(false, progress) * scale;
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

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{"Jacobi's method: a halo exchange with two neighbours every step, verified bit by bit."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  if (options.dims == 2 && options.nz != 0)
    return usage_error(process, "jacobi", "--nz is for --dims 3");
  const bool is_float = options.type == "float";
  const std::string what =
      make_problem(options, 1)
          .mistake(is_float ? std::numeric_limits<float>::digits : std::numeric_limits<double>::digits);
  if (!what.empty())
    return usage_error(process, "jacobi", what);
  if (options.dims == 2)
    return is_float ? Jacobi<2, float>(options, process).run() : Jacobi<2, double>(options, process).run();
  return is_float ? Jacobi<3, float>(options, process).run() : Jacobi<3, double>(options, process).run();
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
