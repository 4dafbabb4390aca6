// Weighted least squares for a function that is not linear, by damped steps of Gauss and Newton (Levenberg, Marquardt).
#ifndef LANYARD_NICSIM_MODELLED_LEAST_SQUARES_H_
#define LANYARD_NICSIM_MODELLED_LEAST_SQUARES_H_

#include <functional>
#include <vector>

namespace lanyard::modelled {

struct LeastSquares {
  // By row. Requires as many rows each time, and values that are not negative.
  std::function<std::vector<double>(const std::vector<double>& values)> residuals;
  std::vector<double> weights;  // by row
  int most_steps = 60;

  struct Fit {
    std::vector<double> values;
    std::vector<double> margins;  // half a 95 % interval; infinite where the rows do not tell
    std::vector<double> residuals;
  };
  // Values stay at or above 0.
  Fit fit(std::vector<double> start) const;
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_LEAST_SQUARES_H_
