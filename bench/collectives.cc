// What a collective costs on a stream: persistent collectives that are matched and enqueued, beside what a program does
// without them: it synchronises the stream and calls the MPI's, or enqueues NCCL's. See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/collective_operation.h"
#include "bench/collectives_report.h"
#include "bench/gpu_aware_mpi.h"
#include "bench/mpi_check.h"
#include "bench/mpi_process.h"
#include "bench/nccl.h"
#include "bench/options.h"
#include "bench/progress.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

struct NamedKind {
  const char* name;
  CollectiveKind kind;
  bool has_nccl;  // by its sum
};
constexpr NamedKind kKinds[] = {
    {"barrier", CollectiveKind::kBarrier, true},
    {"broadcast", CollectiveKind::kBroadcast, false},
    {"allreduce", CollectiveKind::kAllreduce, true},
    {"allgather", CollectiveKind::kAllgather, false},
};

struct NamedMode {
  const char* name;
  CollectiveMode mode;
  bool needs_device = false;  // else part of "all" on the host, too

  bool is_baseline() const { return mode == CollectiveMode::kMpi; }
  bool has_nccl() const { return mode == CollectiveMode::kNccl || mode == CollectiveMode::kNcclGraph; }
  bool has_queue() const { return mode == CollectiveMode::kStream || mode == CollectiveMode::kGraph; }
};
// The baseline first. What needs no queue runs before there is a network card, so that no thread of its takes part.
constexpr NamedMode kModes[] = {
    {"mpi", CollectiveMode::kMpi},
    {"persistent", CollectiveMode::kPersistent},
    {"mpi-gpu", CollectiveMode::kMpiGpu, true},
    {"nccl", CollectiveMode::kNccl, true},
    {"nccl-graph", CollectiveMode::kNcclGraph, true},
    {"stream", CollectiveMode::kStream},
    {"graph", CollectiveMode::kGraph, true},
};

struct Options {
  std::vector<std::string> collectives{"barrier", "broadcast", "allreduce", "allgather"};
  std::vector<std::string> modes = {"all"};
  std::vector<uint64_t> bytes{8, 1024, 65536};
  int operations = 1000;
  int batch = 50;
  int trials = 7;
  std::string memory = "host";
  Format format = Format::kText;

  bool has(const char* mode) const { return std::find(modes.begin(), modes.end(), mode) != modes.end(); }
  bool wants(const NamedMode& m, bool on_device) const {
    return has(m.name) || (has("all") && (on_device || !m.needs_device));
  }
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--collectives", o.collectives,
                 "a comma list of barrier, broadcast, allreduce, allgather (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"barrier", "broadcast", "allreduce", "allgather"}));
  app.add_option("--mode", o.modes,
                 "all, or a comma list of mpi, persistent, mpi-gpu, nccl, nccl-graph, stream, graph; all has none that "
                 "needs a GPU on the host (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "mpi", "persistent", "mpi-gpu", "nccl", "nccl-graph", "stream", "graph"}));
  app.add_option("--bytes", o.bytes, "of a contribution, multiples of 8, a comma list (default: 8,1024,65536)")
      ->delimiter(',')
      ->check(CLI::Range(uint64_t{8}, uint64_t{1} << 26));
  app.add_option("--operations", o.operations, "timed, one after the other (default: 1000)")
      ->check(CLI::Range(1, 10000000));
  app.add_option("--batch", o.batch, "operations enqueued before the host waits (default: 50)")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--trials", o.trials, "for mean and interval (default: 7)")->check(CLI::Range(1, 1000));
  add_memory(app, o.memory);
  add_format(app, o.format);
}

class Collectives {
 public:
  Collectives(const Options& options, const MpiProcess& process)
      : options_(options),
        process_(process),
        streams_(options.memory == "device", "collectives", process),
        stream_(streams_.make()) {
    report_.place = streams_.place();
    report_.ranks = process.ranks();
    report_.batch = options.batch;
    report_.trials = options.trials;
    for (const std::string& name : options.collectives) {
      const auto kind =
          std::find_if(std::begin(kKinds), std::end(kKinds), [&](const NamedKind& k) { return name == k.name; });
      // A barrier has no bytes.
      for (const uint64_t bytes : kind->kind == CollectiveKind::kBarrier ? std::vector<uint64_t>{0} : options.bytes)
        cases_.push_back({*kind, bytes, 0, {}});
    }
  }

  CollectivesReport run() {
    for (const NamedMode& mode : kModes)
      if (mode.is_baseline() || options_.wants(mode, streams_.has_device()))
        run(mode);
    for (Case& c : cases_)
      std::move(c.rows.begin(), c.rows.end(), std::back_inserter(report_.rows));
    if (report_.rows.empty() && process_.is_first())
      fmt::print(stderr,
                 "collectives: nothing was run, as every mode of --mode {} was skipped, expected one that can run\n",
                 fmt::join(options_.modes, ","));
    return report_;
  }

 private:
  struct Case {
    NamedKind kind;
    uint64_t bytes = 0;
    double baseline_us = 0;
    std::vector<CollectivesRow> rows;
  };

  // In all cases in which the mode can run.
  void run(const NamedMode& mode) {
    if (std::string why; !open(mode, why))
      return skip(mode, why);
    const char* left_out = nullptr;
    for (Case& c : cases_) {
      if (mode.has_nccl() && !c.kind.has_nccl) {
        if (left_out != c.kind.name)
          skip(mode, fmt::format("{}: only sums go by NCCL here", c.kind.name));
        left_out = c.kind.name;
        continue;
      }
      std::optional<CollectivesRow> row = measure(mode, c);
      if (!row)
        return;
      if (mode.is_baseline())
        c.baseline_us = row->us.mean;
      row->baseline_us = c.baseline_us;
      if (options_.wants(mode, streams_.has_device()))
        c.rows.push_back(std::move(*row));
      else
        report_.baseline_is_right = report_.baseline_is_right && row->verified;
    }
  }

  // False where the mode cannot run, which `why` says.
  bool open(const NamedMode& mode, std::string& why) {
    if (mode.mode == CollectiveMode::kMpiGpu)
      why = why_not_gpu_aware(*stream_);
    if (!process_.all(why.empty()))
      return false;
    if (mode.has_nccl() && nccl_ == nullptr) {
      nccl_ = Nccl::open(process_, *stream_, why);
      if (nccl_ == nullptr)
        return false;
      report_.nccl = nccl_->version();
    }
    if (mode.has_queue() && queue_ == nullptr)
      queue_ = std::make_unique<StreamQueue>(*stream_);
    return true;
  }

  void skip(const NamedMode& mode, const std::string& why) const {
    if (process_.is_first())
      fmt::print(stderr, "collectives: mode {} skipped: {}\n", mode.name,
                 why.empty() ? "not possible on another rank" : why);
  }

  // Nothing where the mode cannot run.
  std::optional<CollectivesRow> measure(const NamedMode& mode, const Case& c) {
    CollectiveOperation operation(c.kind.kind, mode.mode, c.bytes, process_, *stream_,
                                  mode.has_queue() ? queue_.get() : nullptr, mode.has_nccl() ? nccl_.get() : nullptr);
    if (!process_.all(operation.refusal().empty())) {
      skip(mode, operation.refusal());
      return std::nullopt;
    }
    const int unit = operation.unit();
    const int batch = std::max(options_.batch / unit, 1) * unit;
    CollectivesRow row;
    row.collective = c.kind.name;
    row.bytes = c.bytes;
    row.mode = mode.name;
    row.operations = (options_.operations + unit - 1) / unit * unit;
    row.verified = true;
    Progress progress(fmt::format("collectives: {} of {} bytes, mode {}", row.collective, row.bytes, row.mode),
                      static_cast<long>(options_.trials) * row.operations, process_.is_first());
    operation.run(batch);  // warms up
    const QueueInfo before = mode.has_queue() ? queue_->info() : QueueInfo();
    std::vector<double> us, batches_us;
    for (int trial = 0; trial < options_.trials; ++trial) {
      us.push_back(time(operation, row.operations, batch, batches_us) * 1e6 / row.operations);
      const std::string mistake = operation.mistake();
      if (!mistake.empty() && row.verified)
        fmt::print(stderr, "collectives: {} of {} bytes, mode {}, {}\n", row.collective, row.bytes, row.mode, mistake);
      row.verified = process_.all(mistake.empty()) && row.verified;
      progress.at(static_cast<long>(trial + 1) * row.operations);
    }
    row.us = estimate(us);
    row.p50_us = percentile(batches_us, 50);
    row.p99_us = percentile(batches_us, 99);
    if (mode.has_queue()) {
      report_.nic = queue_->info();
      row.entries = entry_figures(before, report_.nic);
      row.start_entries = operation.entries();
    }
    return row;
  }

  // Seconds of a trial, of the slowest rank. Appends what an operation of each batch took, likewise.
  double time(CollectiveOperation& operation, int operations, int batch, std::vector<double>& batches_us) const {
    using Clock = std::chrono::steady_clock;
    std::vector<double> us;
    us.reserve(static_cast<size_t>(operations / batch) + 1);
    process_.barrier();
    const auto begin = Clock::now();
    auto last = begin;
    for (int done = 0; done < operations; done += batch) {
      const int count = std::min(batch, operations - done);
      operation.run(count);
      const auto now = Clock::now();
      us.push_back(std::chrono::duration<double, std::micro>(now - last).count() / count);
      last = now;
    }
    const double seconds = process_.largest(std::chrono::duration<double>(last - begin).count());
    check(MPI_Allreduce(MPI_IN_PLACE, us.data(), static_cast<int>(us.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
          "MPI_Allreduce");
    batches_us.insert(batches_us.end(), us.begin(), us.end());
    return seconds;
  }

  const Options& options_;
  const MpiProcess& process_;
  const Streams streams_;
  const std::unique_ptr<Stream> stream_;
  std::unique_ptr<StreamQueue> queue_;
  std::unique_ptr<Nccl> nccl_;
  std::vector<Case> cases_;
  CollectivesReport report_;
};

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{
      "What a collective costs on a stream: matched and enqueued, beside the MPI's behind a synchronisation and "
      "NCCL's."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  for (const uint64_t bytes : options.bytes)
    if (bytes % sizeof(double) != 0)
      return usage_error(process, "collectives", fmt::format("--bytes takes multiples of 8, not {}", bytes));
  const CollectivesReport report = Collectives(options, process).run();
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
