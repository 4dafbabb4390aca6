// Measures MPIX_Matchall of many pairs between two ranks, beside as many plain messages of the same
// run. See README.md.
#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <lanyard/lanyard.h>
#include "bench/program.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

using Value = uint64_t;  // what a message holds

struct Options {
  std::vector<int> pairs{1000, 3000, 10000};
  std::string order = "same";
  int trials = 5;
  std::string format = "text";
};

constexpr int kMostPairs = 30000;  // tags go to 32767 at least (MPI 4.0 section 3.2.3)
constexpr int kMostCounted = 2 * kMostPairs + 1000;

void declare(CLI::App& app, Options& o) {
  app.add_option("--pairs", o.pairs, "numbers of pairs, a comma list (default: 1000,3000,10000)")
      ->delimiter(',')
      ->check(CLI::Range(1, kMostPairs));
  app.add_option("--order", o.order,
                 "in which the receives stand, beside the sends: same, reverse or random (default: same)")
      ->check(CLI::IsMember({"same", "reverse", "random"}));
  app.add_option("--trials", o.trials, "for mean and interval (default: 5)")->check(CLI::Range(1, 1000));
  add_format(app, o.format);
}

Value value_of(int tag) { return 0x9e3779b97f4a7c15u * static_cast<Value>(tag + 1); }

// Rank 0 sends, rank 1 receives; each message has a tag of its own.
class Messages {
 public:
  Messages(const MpiProcess& process, int pairs, const std::string& order)
      : process_(process), tags_(static_cast<size_t>(pairs)), values_(tags_.size()) {
    std::iota(tags_.begin(), tags_.end(), 0);
    if (!process_.is_first() && order == "reverse")
      std::reverse(tags_.begin(), tags_.end());
    if (!process_.is_first() && order == "random")
      std::shuffle(tags_.begin(), tags_.end(), std::mt19937(1));
  }

  // Seconds on the slowest rank.
  double send_all() {
    std::vector<MPI_Request> requests(tags_.size());
    for (size_t i = 0; i < tags_.size(); ++i)
      values_[i] = process_.is_first() ? value_of(tags_[i]) : 0;
    const double seconds = process_.timed([&] {
      for (size_t i = 0; i < tags_.size(); ++i)
        if (process_.is_first())
          check(MPI_Isend(&values_[i], sizeof(Value), MPI_BYTE, 1, tags_[i], MPI_COMM_WORLD, &requests[i]),
                "MPI_Isend");
        else
          check(MPI_Irecv(&values_[i], sizeof(Value), MPI_BYTE, 0, tags_[i], MPI_COMM_WORLD, &requests[i]),
                "MPI_Irecv");
      check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    });
    for (size_t i = 0; i < tags_.size(); ++i)
      right_ = right_ && values_[i] == value_of(tags_[i]);
    return seconds;
  }

  // Seconds on the slowest rank, without creating and freeing the requests.
  double match_all() {
    RequestSet requests;
    std::vector<MPI_Status> statuses(tags_.size());
    for (size_t i = 0; i < tags_.size(); ++i)
      if (process_.is_first())
        requests.add_send(false, &values_[i], sizeof(Value), 1, tags_[i]);
      else
        requests.add_receive(&values_[i], sizeof(Value), 0, tags_[i]);
    const double seconds = process_.timed(
        [&] { check(MPIX_Matchall(requests.count(), requests.data(), statuses.data()), "MPIX_Matchall"); });
    for (size_t i = 0; i < tags_.size(); ++i) {
      int matched = 0;
      check(MPIX_Is_matched(requests[i], &matched), "MPIX_Is_matched");
      right_ = right_ && matched != 0 && (process_.is_first() || is_of(statuses[i], tags_[i]));
    }
    process_.barrier();
    return seconds;
  }

  // Whether everything has been matched, and has come, as it should, on all ranks.
  bool right() const { return process_.all(right_); }

 private:
  static bool is_of(const MPI_Status& status, int tag) {
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    return status.MPI_SOURCE == 0 && status.MPI_TAG == tag && bytes == static_cast<int>(sizeof(Value));
  }

  const MpiProcess& process_;
  std::vector<int> tags_;
  std::vector<Value> values_;
  bool right_ = true;
};

// Us a pair. The first trial warms up: what was made for it is used again.
template <typename Trial>
Estimate measure(int trials, int pairs, Trial trial) {
  std::vector<double> us;
  trial();
  for (int i = 0; i < trials; ++i)
    us.push_back(trial() * 1e6 / pairs);
  return estimate(us);
}

int run(const Options& options, const MpiProcess& process) {
  if (process.ranks() != 2)
    return usage_error(process, "matching", fmt::format("needs 2 ranks, not {}", process.ranks()));
  Report report("matching");
  report.fact("mpi", mpi_library());
  report.fact("order", options.order);
  report.fact("trials", options.trials);
  // All plain messages come first, before the card's threads have anything to do.
  std::vector<std::pair<Estimate, bool>> plains;
  for (const int pairs : options.pairs) {
    Messages messages(process, pairs, options.order);
    const Estimate us = measure(options.trials, pairs, [&] { return messages.send_all(); });
    plains.emplace_back(us, messages.right());
  }
  for (size_t i = 0; i < plains.size(); ++i) {
    const int pairs = options.pairs[i];
    Messages messages(process, pairs, options.order);
    const Estimate match = measure(options.trials, pairs, [&] { return messages.match_all(); });
    const auto& [plain, is_plain_right] = plains[i];
    report.add({{"pairs", pairs},
                {"match_us_mean", match.mean},
                {"match_us_ci95", match.ci95},
                {"match_us_min", match.min},
                {"plain_us_mean", plain.mean},
                {"plain_us_ci95", plain.ci95},
                {"plain_us_min", plain.min},
                {"ratio", match.mean / plain.mean},
                {"verified", messages.right() && is_plain_right}});
  }
  return finish(report, options.format, process);
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  using namespace lanyard::bench;
  // The sender's card needs two counters and two regions a pair, and some for the rest. Limits
  // that the user has set stay.
  const std::string most = std::to_string(kMostCounted);
  for (const char* limit : {"LANYARD_SIM_COUNTERS", "LANYARD_SIM_REGIONS"})
    setenv(limit, most.c_str(), 0);
  return run_program(argc, argv, "What MPIX_Matchall costs, beside MPI_Isend, MPI_Irecv and MPI_Waitall.", declare,
                     run);
}
