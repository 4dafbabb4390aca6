// Mean of a few trials and the half width of its 95 % confidence interval, by Student's t, with the least trial beside
// it; percentiles of many.
#ifndef LANYARD_BENCH_STATISTICS_H_
#define LANYARD_BENCH_STATISTICS_H_

#include <optional>
#include <span>
#include <vector>

namespace lanyard::bench {

struct Estimate {
  double mean = 0;
  double min = 0;
  std::optional<double> ci95;  // mean +- ci95; nothing from a single trial
};

// Requires at least one trial.
Estimate estimate(std::span<const double> trials);

// The least of the samples that so many of a hundred do not exceed. Requires at least one sample, and of the share that
// it is above 0 and at most 100.
double percentile(std::vector<double> samples, double share);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STATISTICS_H_
