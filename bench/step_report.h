// The results of a benchmark that repeats a step in several modes, as text, CSV or JSON.
#ifndef LANYARD_BENCH_STEP_REPORT_H_
#define LANYARD_BENCH_STEP_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/halo_run.h"
#include "bench/format.h"
#include "bench/queue_info.h"
#include "bench/results.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct StepRow {
  StepRow(const std::string& mode, const HaloRunResult& result, long steps);

  std::string mode;
  double seconds = 0;
  double us_per_step = 0;
  double baseline_us_per_step = 0;      // mode mpi, same run
  std::optional<EntryFigures> entries;  // stream modes
  QueueInfo nic;
  std::optional<bool> verified;  // nothing: not asked for
  Record more;                   // numbers of the program's own, by name: columns of all formats, the same in all rows
};

struct StepReport {
  std::string benchmark;              // the program's name
  std::string title;                  // of the table: what was done
  std::string ranks_text;             // how the ranks are placed, "2 x 2"
  std::vector<std::string> headings;  // lines of the program's own
  Record facts;                       // of all rows: the program's options
  std::string nccl;                   // its version, where there are its modes
  Place place;
  int ranks = 0;
  long steps = 0;
  std::vector<StepRow> runs;
  std::optional<bool> baseline_verified;  // of one that is not among the runs

  // Of all runs and the baseline; nothing when none was verified.
  std::optional<bool> verified() const;
  // To stdout.
  void print(Format format) const;

 private:
  void print_text() const;
  Results results() const;
  QueueInfo nic() const;  // of the last run that has any
  double entries_per_step(const StepRow& row) const;
};

// Says on the first rank that a mode could not run, or that entries overflowed.
void say_skipped(const char* program, const char* mode, const HaloRunResult& result, const MpiProcess& process);
void say_overflowed(const char* program, const StepRow& row, const MpiProcess& process);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STEP_REPORT_H_
