// Ping-pong between two ranks, stream-triggered and CPU-driven, after Bridges et al., section VI.A.
// See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/round_trip.h"

namespace lanyard::bench {
namespace {

using Means = PingpongMode::Means;
using Way = PingpongMode::Way;
// In the order of the runs. Modes without a stream run before there is one, and modes without a
// queue before there is a network card: so no thread of theirs disturbs a baseline.
constexpr PingpongMode kModes[] = {
    {"sendrecv", Means::kMpi, Way::kHost},     {"persistent", Means::kMpi, Way::kPersistent},
    {"mpi", Means::kMpi, Way::kStream},        {"nccl", Means::kNccl, Way::kStream},
    {"nccl-graph", Means::kNccl, Way::kGraph}, {"send", Means::kQueue, Way::kStream},
    {"rsend", Means::kQueue, Way::kReady},     {"graph", Means::kQueue, Way::kGraph},
    {"kernel", Means::kQueue, Way::kKernel},
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
  bool wants(const PingpongMode& mode, bool on_device) const {
    return has(mode.name) || (has("all") && mode.is_usual(on_device));
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
  for (const PingpongMode& mode : kModes)
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
      : options_(options), process_(process), streams_(options.memory == "device", "pingpong", process) {}

  // The exit status.
  int run() {
    report_.fact("mpi", mpi_library());
    report_.fact("ranks", process_.ranks());
    report_.fact("pack", options_.pack);
    report_.fact("exchange", options_.exchange);
    report_.fact("buffers", options_.buffers);
    report_.fact("trials", options_.trials);
    streams_.describe(report_);
    for (const PingpongMode& mode : kModes) {
      const bool wanted = options_.wants(mode, streams_.has_device());
      if (is_baseline(mode))
        report_.fact("baseline", mode.name);
      if (wanted && streams_.has_device() && !mode.has_stream())
        skip(mode, "needs host memory");
      else if (wanted || is_baseline(mode))  // which is measured in any case
        measure(mode, wanted);
    }
    for (const PingpongMode& mode : kModes)
      if (options_.doorbell && mode.means == Means::kQueue && mode.way != Way::kReady &&
          (mode.way != Way::kGraph || streams_.has_device()))
        measure_doorbell(mode);
    std::ranges::stable_sort(report_.rows(), {}, [](const Json& row) { return row["bytes"].get<size_t>(); });
    if (nccl_ != nullptr)
      report_.fact("nccl", nccl_->version());
    add_nic(report_, info());
    return finish(report_, options_.format, process_, is_right_);
  }

 private:
  bool is_baseline(const PingpongMode& mode) const {
    return mode.means == Means::kMpi && mode.way == (streams_.has_device() ? Way::kStream : Way::kHost);
  }
  bool is_merged(const PingpongMode& mode) const {
    return options_.exchange && mode.means == Means::kQueue && mode.way == Way::kStream;
  }
  // Of the queue; null before there is one.
  Json info() const { return queue_ ? queue_->info() : Json(); }

  // Null where the mode cannot run, and stderr says why.
  std::unique_ptr<RoundTrip> make(const RoundTrip::Shape& shape) {
    const PingpongMode& mode = shape.mode;
    std::string why;
    if (mode.has_stream() && stream_ == nullptr)
      stream_ = streams_.make();
    if (mode.means == Means::kNccl && nccl_ == nullptr)
      nccl_ = Nccl::open(process_, *stream_, why);
    if (mode.means == Means::kQueue && !queue_)
      queue_.emplace(*stream_);
    if (mode.means != Means::kNccl || nccl_ != nullptr) {
      auto trip = std::make_unique<RoundTrip>(shape, process_, stream_.get(), queue_ ? &*queue_ : nullptr, nccl_.get());
      if (process_.all(trip->refusal().empty()))
        return trip;
      why = trip->refusal();
      is_right_ = is_right_ && !shape.is_merged;  // there were to be exchanges, and can be none
    }
    skip(mode, why);
    return nullptr;
  }

  void skip(const PingpongMode& mode, const std::string& why) const {
    if (process_.is_first())
      fmt::print(stderr, "pingpong: mode {} skipped: {}\n", mode.name,
                 why.empty() ? "not possible on the other rank" : why);
  }

  // A row for each size, reported if it is wanted.
  void measure(const PingpongMode& mode, bool wanted) {
    Progress progress(fmt::format("pingpong: mode {}", mode.name),
                      std::bit_width(options_.max_bytes / options_.min_bytes), process_.is_first());
    const size_t most = mode.way == Way::kKernel ? std::min(options_.max_bytes, kMaxKernelBytes) : options_.max_bytes;
    long done = 0;
    for (size_t bytes = options_.min_bytes; bytes <= most; bytes *= 2) {
      progress.at(done++);
      const bool pack = options_.pack == "on" && mode.has_stream();
      const auto trip = make({mode, bytes, pack, options_.batch, false, is_merged(mode), options_.buffers == 2});
      if (trip == nullptr)
        return;
      Json row = measure(mode, bytes, *trip);
      if (wanted)
        report_.add(std::move(row));
      else
        is_right_ = is_right_ && row["verified"] == true;
    }
  }

  Json measure(const PingpongMode& mode, size_t bytes, RoundTrip& trip) {
    if (options_.warmup > 0)
      trip.trial(trip.rounded(options_.warmup));
    const uint64_t iterations = trip.rounded(options_.iterations > 0 ? options_.iterations : calibrate(trip));
    const Json before = info();
    const Estimate us = estimate(half_trips_us(trip, options_.trials, iterations));
    double& baseline = baseline_us_[bytes];
    if (is_baseline(mode))
      baseline = us.mean;
    Json row = {{"mode", mode.name},
                {"bytes", bytes},
                {"half_trip_us_mean", us.mean},
                {"half_trip_us_ci95", us.ci95},
                {"half_trip_us_min", us.min},
                {"bandwidth_MBps", static_cast<double>(bytes) / us.mean},
                {"ratio_to_baseline", us.mean / baseline}};
    add_entries(row, before, mode.means == Means::kQueue ? info() : Json());
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
  void measure_doorbell(const PingpongMode& mode) {
    const auto trip = make({mode, 0, false, options_.batch, true, is_merged(mode)});
    if (trip == nullptr)
      return;
    if (options_.warmup > 0)
      trip->trial(trip->rounded(options_.warmup));
    const uint64_t iterations = trip->rounded(calibrate(*trip) / kDoorbellTrials + 1);
    std::vector<double> us = half_trips_us(*trip, kDoorbellTrials, iterations);
    std::nth_element(us.begin(), us.begin() + kDoorbellTrials / 2, us.end());
    report_.fact(fmt::format("doorbell_{}_us_median", mode.name), us[kDoorbellTrials / 2]);
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
  Report report_{"pingpong"};
  std::unique_ptr<Stream> stream_;
  std::optional<StreamQueue> queue_;
  std::unique_ptr<Nccl> nccl_;
  std::map<size_t, double> baseline_us_;
  bool is_right_ = true;  // what no row tells
};

int run(const Options& options, const MpiProcess& process) {
  if (const std::string what = mistake(options); !what.empty())
    return usage_error(process, "pingpong", what);
  if (process.ranks() != 2)
    return usage_error(process, "pingpong", fmt::format("needs exactly 2 ranks, not {}", process.ranks()));
  return Pingpong(options, process).run();
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  using namespace lanyard::bench;
  return run_program(argc, argv, "Ping-pong latency and bandwidth between two ranks, stream-triggered and CPU-driven.",
                     declare, run);
}
