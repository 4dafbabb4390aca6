// Mean of a few trials and the half width of its 95 % confidence interval, by Student's t; the
// least trial beside it.
#ifndef LANYARD_BENCH_STATISTICS_H_
#define LANYARD_BENCH_STATISTICS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>

namespace lanyard::bench {

struct Estimate {
  double mean = 0;
  double min = 0;
  std::optional<double> ci95;  // mean +- ci95; nothing from a single trial
};

// Two-sided 95 % quantile of Student's t. Beyond the table, the first terms of its expansion about
// the normal quantile z: t = z + (z^3 + z) / (4 df) + ..., good to 1e-4 there.
inline double student_t95(size_t degrees_of_freedom) {
  static constexpr double kTable[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
                                      2.2010,  2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860};
  if (degrees_of_freedom == 0)
    return INFINITY;
  if (degrees_of_freedom <= std::size(kTable))
    return kTable[degrees_of_freedom - 1];
  constexpr double z = 1.959964;
  const double df = static_cast<double>(degrees_of_freedom);
  return z + (z * z * z + z) / (4 * df) + (5 * z * z * z * z * z + 16 * z * z * z + 3 * z) / (96 * df * df);
}

// Requires at least one trial.
inline Estimate estimate(std::span<const double> trials) {
  const double n = static_cast<double>(trials.size());
  double sum = 0;
  for (double x : trials)
    sum += x;
  Estimate result{sum / n, *std::min_element(trials.begin(), trials.end()), std::nullopt};
  if (trials.size() < 2)
    return result;
  double squares = 0;
  for (double x : trials)
    squares += (x - result.mean) * (x - result.mean);
  result.ci95 = student_t95(trials.size() - 1) * std::sqrt(squares / (n - 1) / n);
  return result;
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STATISTICS_H_
