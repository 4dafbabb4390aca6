// The results of the ping-pong benchmark, as a table, CSV or JSON.
#ifndef LANYARD_BENCH_PINGPONG_REPORT_H_
#define LANYARD_BENCH_PINGPONG_REPORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/format.h"
#include "bench/queue_info.h"
#include "bench/results.h"
#include "bench/statistics.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct PingpongRow {
  std::string mode;
  size_t bytes = 0;
  uint64_t iterations = 0;  // of each trial
  Estimate half_trip_us;
  double p50_us = 0, p99_us = 0;        // of half a round trip, each sample the mean of a batch
  double baseline_us = 0;               // the baseline mode at this size, same run
  std::optional<EntryFigures> entries;  // stream modes
  bool verified = false;

  double bandwidth_MBps() const { return static_cast<double>(bytes) / half_trip_us.mean; }
  double ratio_to_baseline() const { return half_trip_us.mean / baseline_us; }
};

// From a ring to the card's having fired (README.md says how it is measured).
struct DoorbellRow {
  std::string mode;
  double median_us = 0;
};

// A computation and round trips by themselves, and both at once: medians of the trials, us for each round trip.
struct OverlapRow {
  std::string mode;
  size_t bytes = 0;
  uint64_t iterations = 0;
  double compute_us = 0;
  double transfer_us = 0;
  double both_us = 0;
  bool verified = false;

  // Of the shorter one, the part that the longer one hid: 1 all, 0 none, less than 0 where they disturb each other.
  double overlap() const { return (compute_us + transfer_us - both_us) / std::min(compute_us, transfer_us); }
};

struct PingpongReport {
  std::string nccl;  // its version, where there are its modes
  Place place;
  std::string baseline = "sendrecv";
  int ranks = 2;
  bool pack = false;
  bool exchange = false;  // of rank 0's, in mode send
  int buffers = 1;        // that take turns (rsend: 2)
  uint64_t batch = 0;
  double silence_ms = 0;  // before each round trip of rows
  int trials = 0;
  QueueInfo nic;  // empty when no stream mode ran
  std::vector<PingpongRow> rows;
  std::vector<DoorbellRow> doorbells;
  std::vector<OverlapRow> overlaps;

  bool verified() const;
  // To stdout.
  void print(Format format) const;

 private:
  void print_text() const;
  Results results() const;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PINGPONG_REPORT_H_
