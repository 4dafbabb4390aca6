// The results of the Game of Life benchmark, as text, CSV or JSON.
#ifndef LANYARD_BENCH_LIFE_REPORT_H_
#define LANYARD_BENCH_LIFE_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/queue_info.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct LifeRow {
  std::string mode;
  double seconds = 0;
  double us_per_step = 0;
  double baseline_us_per_step = 0;      // mode mpi, same run
  std::optional<EntryFigures> entries;  // stream modes
  QueueInfo nic;
  std::optional<bool> verified;  // nothing: not asked for
};

struct LifeReport {
  std::string mpi;
  Place place;
  int ranks = 0;
  int ranks_x = 0;
  int ranks_y = 0;
  long rows = 0;
  long columns = 0;
  long steps = 0;
  std::string pattern;
  std::string exchange;     // whether the messages of a step are merged, as the option has it
  bool collective = false;  // whether mode send has one collective a step
  bool is_list = false;     // JSON: runs as an array, even of one
  std::vector<LifeRow> runs;

  // Nothing when no run was verified.
  std::optional<bool> verified() const;
  // To stdout.
  void print(Format format) const;

 private:
  void print_text() const;
  void print_csv() const;
  void print_json() const;
  double entries_per_step(const LifeRow& row) const;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_LIFE_REPORT_H_
