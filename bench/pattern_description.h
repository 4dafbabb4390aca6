// What a plan is, and what network cards would allow it, for people and for scripts, without carrying it out.
#ifndef LANYARD_BENCH_PATTERN_DESCRIPTION_H_
#define LANYARD_BENCH_PATTERN_DESCRIPTION_H_

#include <span>
#include <string>

#include "bench/plan.h"
#include "bench/results.h"

namespace lanyard::bench {

// Its matrix, a row a sender, with what each rank sends and receives in all.
std::string matrix_text(const Plan& plan);

// The bandwidth law (nic_binding.h) for each step and each number of cards a node, by both bindings; packed with as
// many places a card as so many cards need. `nic_rate` in GB/s: 10^9 bytes.
struct LawRow {
  size_t step = 0;
  std::string binding;
  int nics = 0;
  uint64_t bytes = 0;  // between nodes; of 0 the rest is 0 as well
  uint64_t most = 0;   // of a card
  double rate = 0;     // GB/s
  double us = 0;       // that the step takes at that
};
std::vector<LawRow> law_rows(const Plan& plan, int group, std::span<const int> nics, double nic_rate);
std::string law_text(std::span<const LawRow> rows, int group, double nic_rate);
Record record(const LawRow& row);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PATTERN_DESCRIPTION_H_
