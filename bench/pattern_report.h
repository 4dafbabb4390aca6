// The results of `patterns`, as text, CSV or JSON.
#ifndef LANYARD_BENCH_PATTERN_REPORT_H_
#define LANYARD_BENCH_PATTERN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/format.h"
#include "bench/pattern_options.h"
#include "bench/queue_info.h"
#include "bench/results.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct PatternRow {
  std::string back_end;
  std::string steps = "all";  // or the only one's number
  uint64_t messages = 0;
  uint64_t bytes = 0;
  std::vector<double> us;  // by iteration, of the slowest rank
  double baseline_us = 0;  // the median of the baseline in the same run
  std::optional<EntryFigures> entries;
  bool is_right = true;

  double median() const;
  // Of the median, in 10^9 bytes a second.
  double rate() const { return static_cast<double>(bytes) / (median() * 1e3); }
};

struct PatternReport {
  Place place;
  int ranks = 0;
  PatternOptions options;
  int iterations = 0;
  int batch = 0;
  std::string check;
  std::string library;  // NCCL's version, where it is used
  std::string baseline;
  QueueInfo nic;
  std::vector<PatternRow> rows;
  bool ran_right = true;  // the baseline, too, which may have no row

  // Some mode ran, and everything that ran was right.
  bool is_right() const { return ran_right && !rows.empty(); }
  // To stdout.
  void print(Format format) const;

 private:
  void print_text() const;
  Results results() const;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PATTERN_REPORT_H_
