// Ping-pong between two ranks, stream-triggered and CPU-driven, after Bridges et al., section VI.A.
// See README.md.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/computation.h"
#include "bench/gpu_aware_mpi.h"
#include "bench/mpi_process.h"
#include "bench/nccl.h"
#include "bench/options.h"
#include "bench/pingpong_report.h"
#include "bench/round_trip.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

struct NamedMode {
  const char* name;
  PingpongMode mode;
  bool has_stream;
  bool has_queue;
  // Part of "all" where memory is the host's, and a GPU's.
  bool is_usual_on_host;
  bool is_usual_on_device;
};
// In the order in which they run: what needs no stream runs before there is one, what needs no
// queue before there is a network card, so that no thread of theirs takes part in a baseline.
constexpr NamedMode kModes[] = {
    {"sendrecv", PingpongMode::kSendrecv, false, false, true, false},
    {"persistent", PingpongMode::kPersistent, false, false, true, false},
    {"mpi", PingpongMode::kMpi, true, false, true, true},
    {"mpi-gpu", PingpongMode::kMpiGpu, true, false, false, true},
    {"nccl", PingpongMode::kNccl, true, false, false, true},
    {"nccl-graph", PingpongMode::kNcclGraph, true, false, false, true},
    {"send", PingpongMode::kSend, true, true, true, true},
    {"rsend", PingpongMode::kRsend, true, true, true, true},
    {"graph", PingpongMode::kGraph, true, true, false, true},
    {"kernel", PingpongMode::kKernel, true, true, false, true},
    {"fused", PingpongMode::kFused, true, true, false, true},
};
constexpr size_t kMaxKernelBytes = size_t{64} << 10;  // one block copies them
constexpr int kDoorbellTrials = 31;

constexpr size_t kMaxBytes = size_t{1} << 30;
constexpr uint64_t kMinIterations = 20;
constexpr uint64_t kMaxIterations = 1000000;
constexpr double kTrialSeconds = 0.2;
constexpr uint64_t kOverlapShare = 10;   // of a trial, that a computation lasts
constexpr uint64_t kMinRounds = 100000;  // of a computation

struct Options {
  size_t min_bytes = 8;
  size_t max_bytes = size_t{1} << 20;
  uint64_t iterations = 0;
  uint64_t warmup = 20;
  int trials = 5;
  uint64_t batch = 64;
  std::vector<std::string> modes = {"all"};
  std::string pack = "off";
  std::string memory = "host";
  bool doorbell = false;
  bool exchange = false;
  int buffers = 1;
  double silence_ms = 0;
  bool overlap = false;
  Format format = Format::kText;

  bool has(const char* mode) const { return std::find(modes.begin(), modes.end(), mode) != modes.end(); }
  bool wants(const NamedMode& mode, bool on_device) const {
    const bool is_usual = on_device ? mode.is_usual_on_device : mode.is_usual_on_host;
    return has(mode.name) || (has("all") && is_usual);
  }
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--min-bytes", o.min_bytes, "smallest message, a power of two (default: 8)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--max-bytes", o.max_bytes, "largest message, a power of two up to 1 GiB (default: 1 MiB)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--iterations", o.iterations, "round trips a trial; 0: enough for 0.2 s, at least 20 (default: 0)");
  app.add_option("--warmup", o.warmup, "round trips before the trials (default: 20)");
  app.add_option("--trials", o.trials, "trials a size, for mean and interval (default: 5)")
      ->check(CLI::Range(1, 10000));
  app.add_option("--batch", o.batch, "stream modes: round trips enqueued before the host waits (default: 64)")
      ->check(CLI::Range(uint64_t{1}, kMaxIterations));
  app.add_option(
         "--mode", o.modes,
         "all, or a comma list of sendrecv, persistent, mpi, mpi-gpu, nccl, nccl-graph, send, rsend, graph, kernel, "
         "fused; all has no mpi-gpu, graph, kernel, fused and none of NCCL's on the host, no sendrecv and persistent "
         "on a GPU (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "sendrecv", "persistent", "mpi", "mpi-gpu", "nccl", "nccl-graph", "send", "rsend",
                             "graph", "kernel", "fused"}));
  app.add_option("--pack", o.pack,
                 "on: modes with a stream copy into and out of message buffers by kernels; "
                 "off: no kernels (default: off)")
      ->check(CLI::IsMember({"on", "off"}));
  add_memory(app, o.memory);
  app.add_flag("--doorbell", o.doorbell, "measure also half of the time from a ring to its being seen to have fired");
  app.add_flag("--exchange", o.exchange,
               "mode send: the ping and the pong of a round trip are an exchange of rank 0's");
  app.add_option("--buffers", o.buffers,
                 "1 or 2: messages that take turns, each with its own memory, of which less stays in caches; rsend has "
                 "2 anyway (default: 1)")
      ->check(CLI::Range(1, 2));
  app.add_option("--silence", o.silence_ms,
                 "a pause of so many ms before each round trip, which is timed by itself then; trials have 20, where "
                 "--iterations says nothing else (default: 0)")
      ->check(CLI::Range(0.0, 5000.0));
  app.add_flag("--overlap", o.overlap,
               "measure also a computation on a stream of its own, the round trips, and both at once");
  add_format(app, o.format);
}

// What is wrong with the options; empty when nothing is.
std::string mistake(const Options& o) {
  if (!std::has_single_bit(o.min_bytes) || !std::has_single_bit(o.max_bytes))
    return "--min-bytes and --max-bytes must be powers of two";
  if (o.min_bytes > o.max_bytes)
    return "--min-bytes is larger than --max-bytes";
  if (o.max_bytes > kMaxBytes)
    return "--max-bytes is larger than 1 GiB";
  if (o.iterations > kMaxIterations)
    return fmt::format("--iterations is above {}", kMaxIterations);
  if (o.warmup > kMaxIterations)
    return fmt::format("--warmup is above {}", kMaxIterations);
  if (o.exchange && !o.has("send") && !o.has("all"))
    return "--exchange is for mode send, which --mode leaves out";
  if (o.buffers == 2 && (o.has("graph") || o.has("kernel") || o.has("fused") || o.memory == "device"))
    return "--buffers 2 is for memory of the host, and not for modes graph, kernel and fused";
  return "";
}

class Pingpong {
 public:
  Pingpong(const Options& options, const MpiProcess& process)
      : options_(options), process_(process), streams_(options.memory == "device", "pingpong", process) {}

  PingpongReport run() {
    report_.place = streams_.place();
    report_.ranks = process_.ranks();
    report_.pack = options_.pack == "on";
    report_.exchange = options_.exchange;
    report_.buffers = options_.buffers;
    report_.batch = options_.batch;
    report_.silence_ms = options_.silence_ms;
    report_.trials = options_.trials;
    const PingpongMode baseline = streams_.has_device() ? PingpongMode::kMpi : PingpongMode::kSendrecv;
    for (const NamedMode& mode : kModes) {
      // The baseline is measured in any case.
      const bool is_baseline = mode.mode == baseline;
      if (is_baseline)
        report_.baseline = mode.name;
      const bool wanted = options_.wants(mode, streams_.has_device());
      if (!wanted && !is_baseline)
        continue;
      if (streams_.has_device() && !mode.has_stream) {
        skip(mode, "needs host memory");
        continue;
      }
      if (std::string why; !open(mode, why)) {
        skip(mode, why);
        continue;
      }
      for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes; bytes *= 2) {
        if (mode.mode == PingpongMode::kKernel && bytes > kMaxKernelBytes)
          break;
        std::optional<PingpongRow> row = measure(mode, bytes);
        if (!row)
          break;
        if (is_baseline)
          baseline_us_[bytes] = row->half_trip_us.mean;
        row->baseline_us = baseline_us_[bytes];
        baseline_is_right_ = baseline_is_right_ && (wanted || row->verified);
        if (wanted)
          report_.rows.push_back(*row);
      }
    }
    if (options_.doorbell)
      measure_doorbells();
    if (options_.overlap)
      measure_overlaps();
    std::stable_sort(report_.rows.begin(), report_.rows.end(),
                     [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    return report_;
  }
  // Whether an unlisted baseline was right.
  bool baseline_is_right() const { return baseline_is_right_; }
  // False where there were to be exchanges and could be none.
  bool has_exchanges() const { return has_exchanges_; }

 private:
  bool is_merged(const NamedMode& mode) const { return options_.exchange && mode.mode == PingpongMode::kSend; }

  static bool has_nccl(const NamedMode& mode) {
    return mode.mode == PingpongMode::kNccl || mode.mode == PingpongMode::kNcclGraph;
  }

  // False where the mode cannot run, which `why` says.
  bool open(const NamedMode& mode, std::string& why) {
    if (mode.has_stream && stream_ == nullptr)
      stream_ = streams_.make();
    if (mode.mode == PingpongMode::kMpiGpu)
      why = why_not_gpu_aware(*stream_);
    if (!process_.all(why.empty()))
      return false;
    if (has_nccl(mode) && nccl_ == nullptr) {
      nccl_ = Nccl::open(process_, *stream_, why);
      if (nccl_ == nullptr)
        return false;
      report_.nccl = nccl_->version();
    }
    if (mode.has_queue && queue_ == nullptr)
      queue_ = std::make_unique<StreamQueue>(*stream_);
    return true;
  }

  void skip(const NamedMode& mode, const std::string& why) const {
    if (!process_.is_first())
      return;
    fmt::print(stderr, "pingpong: mode {} skipped: {}\n", mode.name,
               why.empty() ? "not possible on the other rank" : why);
  }

  RoundTrip make_trip(const NamedMode& mode, size_t bytes, double silence_ms) {
    const RoundTrip::Shape shape{.mode = mode.mode,
                                 .bytes = bytes,
                                 .pack = report_.pack && mode.has_stream,
                                 .batch = options_.batch,
                                 .is_merged = is_merged(mode),
                                 .silence = std::chrono::duration<double, std::milli>(silence_ms),
                                 .two_buffers = options_.buffers == 2};
    return RoundTrip(shape, process_, mode.has_stream ? stream_.get() : nullptr,
                     mode.has_queue ? queue_.get() : nullptr, has_nccl(mode) ? nccl_.get() : nullptr);
  }

  // Nothing where the mode cannot run.
  std::optional<PingpongRow> measure(const NamedMode& mode, size_t bytes) {
    progress(mode.name, bytes);
    RoundTrip trip = make_trip(mode, bytes, options_.silence_ms);
    if (!process_.all(trip.refusal().empty())) {
      skip(mode, trip.refusal());
      has_exchanges_ = has_exchanges_ && !is_merged(mode);
      return std::nullopt;
    }
    if (options_.warmup > 0)
      trip.trial(trip.rounded(options_.warmup));
    const uint64_t iterations = trip.rounded(iterations_for(trip));
    const QueueInfo before = mode.has_queue ? queue_->info() : QueueInfo();
    std::vector<double> half_trips_us, batches_us;
    for (int t = 0; t < options_.trials; ++t) {
      const double seconds = process_.from_first(trip.trial(iterations));
      half_trips_us.push_back(seconds * 1e6 / (2 * static_cast<double>(iterations)));
      batches_us.insert(batches_us.end(), trip.batches_us().begin(), trip.batches_us().end());
    }
    PingpongRow row;
    row.mode = mode.name;
    row.bytes = bytes;
    row.iterations = iterations;
    row.half_trip_us = estimate(half_trips_us);
    row.p50_us = percentile(batches_us, 50);
    row.p99_us = percentile(batches_us, 99);
    if (mode.has_queue) {
      report_.nic = queue_->info();
      row.entries = entry_figures(before, report_.nic);
    }
    if (!trip.error().empty())
      fmt::print(stderr, "pingpong: mode {}, {}\n", mode.name, trip.error());
    row.verified = process_.all(trip.error().empty());
    return row;
  }

  // Messages of no bytes that each rank sends itself, both ranks at a time. Half of the time from
  // the ring on: the card fires, raises the done word, and whoever waits sees it.
  void measure_doorbells() {
    for (const NamedMode& mode : kModes) {
      if (!mode.has_queue || mode.mode == PingpongMode::kRsend)
        continue;
      if (!streams_.has_device() && (mode.mode == PingpongMode::kGraph || mode.mode == PingpongMode::kFused))
        continue;
      std::string why;
      open(mode, why);
      RoundTrip trip({mode.mode, 0, false, options_.batch, true, is_merged(mode)}, process_, stream_.get(),
                     queue_.get());
      if (!process_.all(trip.refusal().empty())) {
        skip(mode, trip.refusal());
        has_exchanges_ = has_exchanges_ && !is_merged(mode);
        continue;
      }
      if (options_.warmup > 0)
        trip.trial(trip.rounded(options_.warmup));
      const uint64_t iterations = trip.rounded(calibrate(trip) / kDoorbellTrials + 1);
      std::vector<double> halves_us;
      for (int t = 0; t < kDoorbellTrials; ++t) {
        const double seconds = process_.from_first(trip.trial(iterations));
        halves_us.push_back(seconds * 1e6 / (2 * static_cast<double>(iterations)));
      }
      report_.doorbells.push_back({mode.name, percentile(halves_us, 50)});
    }
  }

  // After all else, as the computation has a stream of its own.
  void measure_overlaps() {
    Computation computation(streams_.make());
    for (const NamedMode& mode : kModes) {
      std::string why;
      if (!options_.wants(mode, streams_.has_device()) || (streams_.has_device() && !mode.has_stream) ||
          !open(mode, why))
        continue;
      for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes; bytes *= 2) {
        if (mode.mode == PingpongMode::kKernel && bytes > kMaxKernelBytes)
          break;
        RoundTrip trip = make_trip(mode, bytes, 0);
        if (!process_.all(trip.refusal().empty()))
          break;
        report_.overlaps.push_back(measure_overlap(mode, bytes, trip, computation));
      }
    }
  }

  // The computation is as long as the round trips, on rank 0.
  OverlapRow measure_overlap(const NamedMode& mode, size_t bytes, RoundTrip& trip, Computation& computation) {
    const uint64_t iterations = trip.rounded(calibrate(trip) / kOverlapShare + 1);
    const double wanted = process_.from_first(trip.trial(iterations));
    computation.set_rounds(kMinRounds);
    while (process_.from_first(computation.alone()) < kTrialSeconds / kOverlapShare)
      computation.set_rounds(computation.rounds() * 2);
    const double scale = wanted / process_.from_first(computation.alone());
    computation.set_rounds(static_cast<uint64_t>(static_cast<double>(computation.rounds()) * scale) + 1);
    std::vector<double> compute, transfer, both;
    for (int t = 0; t < options_.trials; ++t) {
      process_.barrier();
      compute.push_back(computation.alone());
      transfer.push_back(trip.trial(iterations));
      both.push_back(trip.trial(iterations, &computation));
    }
    if (!trip.error().empty())
      fmt::print(stderr, "pingpong: mode {}, beside a computation, {}\n", mode.name, trip.error());
    const auto each_us = [&](const std::vector<double>& seconds) {
      return percentile(seconds, 50) * 1e6 / static_cast<double>(iterations);
    };
    return {mode.name,
            bytes,
            iterations,
            each_us(compute),
            each_us(transfer),
            each_us(both),
            process_.all(trip.error().empty())};
  }

  // Of a trial, as the options say.
  uint64_t iterations_for(RoundTrip& trip) {
    if (options_.iterations > 0)
      return options_.iterations;
    return options_.silence_ms > 0 ? kMinIterations : calibrate(trip);
  }

  // Round trips that take about kTrialSeconds: two guesses, as the first few round trips run slower
  // than many.
  uint64_t calibrate(RoundTrip& trip) {
    uint64_t iterations = kMinIterations / 2;
    for (double aim : {kTrialSeconds / 20, kTrialSeconds}) {
      iterations = trip.rounded(iterations);
      const double seconds = process_.from_first(trip.trial(iterations));
      const double wanted = aim / std::max(seconds, 1e-9) * static_cast<double>(iterations);
      iterations = static_cast<uint64_t>(
          std::clamp(wanted, static_cast<double>(kMinIterations) / 2, static_cast<double>(kMaxIterations)));
    }
    return std::max(iterations, kMinIterations);
  }

  void progress(const char* mode, size_t bytes) const {
    if (process_.is_first() && isatty(STDERR_FILENO) != 0)
      fmt::print(stderr, "\rpingpong: {:<10} {:>10} bytes{}", mode, bytes, bytes == options_.max_bytes ? "\n" : "");
  }

  const Options& options_;
  const MpiProcess& process_;
  const Streams streams_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StreamQueue> queue_;
  std::unique_ptr<Nccl> nccl_;
  std::map<size_t, double> baseline_us_;
  bool baseline_is_right_ = true;
  bool has_exchanges_ = true;
  PingpongReport report_;
};

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{"Ping-pong latency and bandwidth between two ranks, stream-triggered and CPU-driven."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  if (const std::string what = mistake(options); !what.empty())
    return usage_error(process, "pingpong", what);
  if (process.ranks() != 2)
    return usage_error(process, "pingpong", fmt::format("needs exactly 2 ranks, not {}", process.ranks()));
  Pingpong pingpong(options, process);
  const PingpongReport report = pingpong.run();
  if (process.is_first())
    report.print(options.format);
  return report.verified() && pingpong.baseline_is_right() && pingpong.has_exchanges() ? 0 : kExitMismatch;
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
