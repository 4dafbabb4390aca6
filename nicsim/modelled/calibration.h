// Calibration: published measurements, the figures of a machine that make the model's times those measured, and how far
// off they remain.
#ifndef LANYARD_NICSIM_MODELLED_CALIBRATION_H_
#define LANYARD_NICSIM_MODELLED_CALIBRATION_H_

#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <vector>

#include "nicsim/modelled/machine.h"
#include "nicsim/modelled/workload.h"
#include "transport/base/status.h"

namespace lanyard::modelled {

// ---- Measurements, read from CSV in the columns of the published files

// One configuration, by the median of its trials: published ping-pongs are bimodal.
struct Measurement {
  Workload workload;
  double us = 0;  // a step's time
  uint32_t trials = 0;
};

struct Measurements {
  std::vector<Measurement> rows;
  uint32_t others = 0;  // trials of what is not stream-triggered, which the model says nothing on
};

// Two kinds, told apart by their headers:
//  - halos: nodes, ntasks (a node), backend, solver_time (s), size (cells along each side), memory_type, send_type,
//    cycles; of backends whose name has "CXI-" and "Buffering" in it
//  - ping-pongs: Backend (cxi-coarse, cxi-fine), Buffering (db: ready sends, sb: regular ones), Iters, Items (of 4 B),
//    Time (s)
// Other columns may stand there. kInvalidArgument: what is wrong, and in which line of `name`; nothing in it counts as
// wrong, too.
Result<Measurements> read_measurements(std::istream& text, const std::string& name);

// ---- The fit

// Weighted least squares for a function that is not linear, by damped steps of Gauss and Newton (Levenberg, Marquardt).
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

// The model's time of a step, in us. Errors: as make_typical_job() and run().
Result<double> modelled_us(const Workload& workload, const Machine& machine);

struct Errors {
  double mean = 0, most = 0;  // of |modelled / measured - 1|
  size_t rows = 0;
};
Errors errors_of(const std::vector<double>& relative);

struct Compared {
  Measurement measured;
  double us = 0;  // modelled
  double error() const { return us / measured.us - 1; }
};
Result<std::vector<Compared>> compare(const std::vector<Measurement>& rows, const Machine& machine);

struct Calibration {
  struct Fitted {
    std::string figure;
    double value = 0;
    double margin = 0;  // infinite: the measurements do not tell, and the figure is as it was
  };
  Machine machine;
  std::vector<Fitted> figures;
  std::vector<Compared> rows;
};

// The figures that are fitted; all others are as `machine` has them. Rank counts of halos weigh the same, however many
// ways of placing them were measured, and together as much as the ping-pongs.
Result<Calibration> calibrate(const std::vector<Measurement>& rows, const Machine& machine, const std::string& origin);

// Halos of one rank count, by a calibration from all other rows.
struct LeftOut {
  uint32_t ranks = 0;
  std::vector<Compared> rows;
};
Result<std::vector<LeftOut>> leave_rank_counts_out(const std::vector<Measurement>& rows, const Calibration& all);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_CALIBRATION_H_
