// Ping-pong between two ranks, stream-triggered and CPU-driven, after Bridges et al., section VI.A.
// See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/nccl.h"
#include "bench/program.h"
#include "bench/report.h"
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
// In the order of the runs. Modes without a stream run before there is one, and modes without a
// queue before there is a network card: so no thread of theirs disturbs a baseline.
constexpr NamedMode kModes[] = {
    {"sendrecv", PingpongMode::kSendrecv, false, false, true, false},
    {"persistent", PingpongMode::kPersistent, false, false, true, false},
    {"mpi", PingpongMode::kMpi, true, false, true, true},
    {"nccl", PingpongMode::kNccl, true, false, false, true},
    {"nccl-graph", PingpongMode::kNcclGraph, true, false, false, true},
    {"send", PingpongMode::kSend, true, true, true, true},
    {"rsend", PingpongMode::kRsend, true, true, true, true},
    {"graph", PingpongMode::kGraph, true, true, false, true},
    {"kernel", PingpongMode::kKernel, true, true, false, true},
};
constexpr size_t kMaxKernelBytes = size_t{64} << 10;  // one block copies them
constexpr int kDoorbellTrials = 31;

constexpr size_t kMaxBytes = size_t{1} << 30;
constexpr uint64_t kMinIterations = 20;
constexpr uint64_t kMaxIterations = 1000000;
constexpr double kTrialSeconds = 0.2;

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
  std::string format = "text";

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
  app.add_option("--iterations", o.iterations, "round trips a trial; 0: enough for 0.2 s, at least 20 (default: 0)")
      ->check(CLI::Range(uint64_t{0}, kMaxIterations));
  app.add_option("--warmup", o.warmup, "round trips before the trials (default: 20)")
      ->check(CLI::Range(uint64_t{0}, kMaxIterations));
  app.add_option("--trials", o.trials, "trials a size, for mean and interval (default: 5)")
      ->check(CLI::Range(1, 10000));
  app.add_option("--batch", o.batch, "stream modes: round trips enqueued before the host waits (default: 64)")
      ->check(CLI::Range(uint64_t{1}, kMaxIterations));
  std::vector<std::string> names{"all"};
  for (const NamedMode& mode : kModes)
    names.push_back(mode.name);
  app.add_option("--mode", o.modes,
                 "all, or a comma list of sendrecv, persistent, mpi, nccl, nccl-graph, send, rsend, graph, kernel; "
                 "all has none of NCCL's, graph and kernel on the host, no sendrecv and persistent on a GPU "
                 "(default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
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
  if (o.exchange && !o.has("send") && !o.has("all"))
    return "--exchange is for mode send, which --mode leaves out";
  if (o.buffers == 2 && (o.has("graph") || o.has("kernel") || o.memory == "device"))
    return "--buffers 2 is for memory of the host, and not for modes graph and kernel";
  return "";
}

class Pingpong {
 public:
  Pingpong(const Options& options, const MpiProcess& process)
      : options_(options),
        process_(process),
        streams_(options.memory == "device", "pingpong", process),
        baseline_(streams_.has_device() ? PingpongMode::kMpi : PingpongMode::kSendrecv) {}

  Report run() {
    Report report("pingpong");
    report.fact("mpi", mpi_library());
    report.fact("ranks", process_.ranks());
    report.fact("pack", options_.pack);
    report.fact("exchange", options_.exchange);
    report.fact("buffers", options_.buffers);
    report.fact("trials", options_.trials);
    streams_.describe(report);
    for (const NamedMode& mode : kModes) {
      // The baseline is measured in any case.
      const bool is_baseline = mode.mode == baseline_;
      if (is_baseline)
        report.fact("baseline", mode.name);
      const bool wanted = options_.wants(mode, streams_.has_device());
      if (!wanted && !is_baseline)
        continue;
      if (streams_.has_device() && !mode.has_stream) {
        skip(mode, "needs host memory");
        continue;
      }
      for (Json& row : measure(mode)) {
        baseline_is_right_ = baseline_is_right_ && (wanted || row["verified"] == true);
        if (wanted)
          report.add(std::move(row));
      }
    }
    if (options_.doorbell)
      measure_doorbells(report);
    std::stable_sort(report.rows().begin(), report.rows().end(),
                     [](const Json& a, const Json& b) { return a["bytes"] < b["bytes"]; });
    if (nccl_ != nullptr)
      report.fact("nccl", nccl_->version());
    add_nic(report, queue_ != nullptr ? queue_->info() : Json());
    return report;
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

  // Null where the mode cannot run, and stderr says why.
  std::unique_ptr<RoundTrip> make(const NamedMode& mode, const RoundTrip::Shape& shape) {
    std::string why;
    if (mode.has_stream && stream_ == nullptr)
      stream_ = streams_.make();
    if (has_nccl(mode) && nccl_ == nullptr)
      nccl_ = Nccl::open(process_, *stream_, why);
    if (has_nccl(mode) && nccl_ == nullptr) {
      skip(mode, why);
      return nullptr;
    }
    if (mode.has_queue && queue_ == nullptr)
      queue_ = std::make_unique<StreamQueue>(*stream_);
    auto trip =
        std::make_unique<RoundTrip>(shape, process_, mode.has_stream ? stream_.get() : nullptr,
                                    mode.has_queue ? queue_.get() : nullptr, has_nccl(mode) ? nccl_.get() : nullptr);
    if (process_.all(trip->refusal().empty()))
      return trip;
    skip(mode, trip->refusal());
    has_exchanges_ = has_exchanges_ && !is_merged(mode);
    return nullptr;
  }

  void skip(const NamedMode& mode, const std::string& why) const {
    if (process_.is_first())
      fmt::print(stderr, "pingpong: mode {} skipped: {}\n", mode.name,
                 why.empty() ? "not possible on the other rank" : why);
  }

  // A row for each size.
  std::vector<Json> measure(const NamedMode& mode) {
    std::vector<Json> rows;
    Progress progress(fmt::format("pingpong: mode {}", mode.name),
                      std::bit_width(options_.max_bytes / options_.min_bytes), process_.is_first());
    for (size_t bytes = options_.min_bytes; bytes <= options_.max_bytes; bytes *= 2) {
      if (mode.mode == PingpongMode::kKernel && bytes > kMaxKernelBytes)
        break;
      progress.at(static_cast<long>(rows.size()));
      const bool pack = options_.pack == "on" && mode.has_stream;
      const auto trip =
          make(mode, {mode.mode, bytes, pack, options_.batch, false, is_merged(mode), options_.buffers == 2});
      if (trip == nullptr)
        break;
      rows.push_back(measure(mode, bytes, *trip));
    }
    return rows;
  }

  Json measure(const NamedMode& mode, size_t bytes, RoundTrip& trip) {
    if (options_.warmup > 0)
      trip.trial(trip.rounded(options_.warmup));
    const uint64_t iterations = trip.rounded(options_.iterations > 0 ? options_.iterations : calibrate(trip));
    const Json before = mode.has_queue ? queue_->info() : Json();
    const Estimate us = estimate(half_trips_us(trip, options_.trials, iterations));
    double& baseline = baseline_us_[bytes];
    if (mode.mode == baseline_)
      baseline = us.mean;
    Json row = {{"mode", mode.name},
                {"bytes", bytes},
                {"half_trip_us_mean", us.mean},
                {"half_trip_us_ci95", or_null(us.ci95)},
                {"half_trip_us_min", us.min},
                {"bandwidth_MBps", static_cast<double>(bytes) / us.mean},
                {"ratio_to_baseline", us.mean / baseline}};
    add_entries(row, before, mode.has_queue ? queue_->info() : Json());
    if (!trip.error().empty())
      fmt::print(stderr, "pingpong: mode {}, {}\n", mode.name, trip.error());
    row["verified"] = process_.all(trip.error().empty());
    return row;
  }

  std::vector<double> half_trips_us(RoundTrip& trip, int trials, uint64_t iterations) const {
    std::vector<double> us;
    for (int t = 0; t < trials; ++t)
      us.push_back(process_.from_first(trip.trial(iterations)) * 1e6 / (2 * static_cast<double>(iterations)));
    return us;
  }

  // Each rank sends itself messages of no bytes, both ranks at once. Reports half of the time from
  // the ring until the card has fired and raised the done word, and the waiter sees it.
  void measure_doorbells(Report& report) {
    for (const NamedMode& mode : kModes) {
      if (!mode.has_queue || mode.mode == PingpongMode::kRsend)
        continue;
      if (mode.mode == PingpongMode::kGraph && !streams_.has_device())
        continue;
      const auto trip = make(mode, {mode.mode, 0, false, options_.batch, true, is_merged(mode)});
      if (trip == nullptr)
        continue;
      if (options_.warmup > 0)
        trip->trial(trip->rounded(options_.warmup));
      const uint64_t iterations = trip->rounded(calibrate(*trip) / kDoorbellTrials + 1);
      std::vector<double> us = half_trips_us(*trip, kDoorbellTrials, iterations);
      std::nth_element(us.begin(), us.begin() + kDoorbellTrials / 2, us.end());
      report.fact(fmt::format("doorbell_{}_us_median", mode.name), us[kDoorbellTrials / 2]);
    }
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

  const Options& options_;
  const MpiProcess& process_;
  const Streams streams_;
  const PingpongMode baseline_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StreamQueue> queue_;
  std::unique_ptr<Nccl> nccl_;
  std::map<size_t, double> baseline_us_;
  bool baseline_is_right_ = true;
  bool has_exchanges_ = true;
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
  const Report report = pingpong.run();
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
