// The results of the ping-pong benchmark, as a table, CSV or JSON.
#ifndef LANYARD_BENCH_PINGPONG_REPORT_H_
#define LANYARD_BENCH_PINGPONG_REPORT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/queue_info.h"
#include "bench/statistics.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct PingpongRow {
  std::string mode;
  size_t bytes = 0;
  Estimate half_trip_us;
  double baseline_us = 0;               // the baseline mode at this size, same run
  std::optional<EntryFigures> entries;  // stream modes
  bool verified = false;

  double bandwidth_MBps() const { return static_cast<double>(bytes) / half_trip_us.mean; }
  double ratio_to_baseline() const { return half_trip_us.mean / baseline_us; }
};

// From a ring to the card's having fired (--doorbell in README.md).
struct DoorbellRow {
  std::string mode;
  double median_us = 0;
};

struct PingpongReport {
  std::string mpi;
  std::string nccl;  // its version, where there are its modes
  Place place;
  std::string baseline = "sendrecv";
  int ranks = 2;
  bool pack = false;
  bool exchange = false;  // of rank 0's, in mode send
  int buffers = 1;        // that take turns (rsend: 2)
  int trials = 0;
  QueueInfo nic;  // empty when no stream mode ran
  std::vector<PingpongRow> rows;
  std::vector<DoorbellRow> doorbells;

  bool verified() const;
  // To stdout.
  void print(Format format) const;

 private:
  void print_text() const;
  void print_csv() const;
  void print_json() const;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PINGPONG_REPORT_H_
