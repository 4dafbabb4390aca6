// The results of `collectives`, as text, CSV or JSON.
#ifndef LANYARD_BENCH_COLLECTIVES_REPORT_H_
#define LANYARD_BENCH_COLLECTIVES_REPORT_H_

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

struct CollectivesRow {
  std::string collective;
  uint64_t bytes = 0;
  std::string mode;
  int operations = 0;  // of a trial
  Estimate us;         // an operation, of the slowest rank
  double p50_us = 0;   // over batches, each the mean of its operations
  double p99_us = 0;
  double baseline_us = 0;  // the mean of mode mpi with the same collective and bytes in the same run
  // Of modes with a queue: what a start takes of the card, and what has become of all.
  uint64_t start_entries = 0;
  std::optional<EntryFigures> entries;
  bool verified = false;

  double ratio_to_baseline() const { return us.mean / baseline_us; }
};

struct CollectivesReport {
  Place place;
  int ranks = 0;
  int batch = 0;
  int trials = 0;
  std::string nccl;  // its version, where there are its modes
  QueueInfo nic;
  std::vector<CollectivesRow> rows;
  bool baseline_is_right = true;  // where it is not among them

  // Whether there are rows, and all are right.
  bool verified() const;
  // To stdout.
  void print(Format format) const;

 private:
  void print_text() const;
  Results results() const;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_COLLECTIVES_REPORT_H_
