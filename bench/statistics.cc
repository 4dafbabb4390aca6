#include "bench/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstddef>

namespace lanyard::bench {

Estimate estimate(std::span<const double> trials) {
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
  const double t = boost::math::quantile(boost::math::students_t(n - 1), 0.975);  // two-sided
  result.ci95 = t * std::sqrt(squares / (n - 1) / n);
  return result;
}

double percentile(std::vector<double> samples, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share / 100 * static_cast<double>(samples.size())));
  const auto at = samples.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

}  // namespace lanyard::bench
