// Calibration: reads published measurements, fits a machine's figures to them, and
// reports the remaining error.
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

// ---- Measurements: CSV files with the columns of the published ones

// One configuration. `us` is the median of its trials, because published ping-pongs are bimodal.
struct Measurement {
  Workload workload;
  double us = 0;  // time of a step
  uint32_t trials = 0;
};

struct Measurements {
  std::vector<Measurement> rows;
  uint32_t others = 0;  // trials of programs that are not stream-triggered: not modelled
};

// Reads one of two kinds of file, told apart by the header:
//  - halos: nodes, ntasks (a node), backend, solver_time (s), size (cells along each side),
//    memory_type, send_type, cycles; only backends with "CXI-" and "Buffering" in the name
//  - ping-pongs: Backend (cxi-coarse, cxi-fine), Buffering (db: ready sends, sb: regular ones),
//    Iters, Items (of 4 B), Time (s)
// Other columns are ignored. kInvalidArgument, with the line of `name` and the reason, for a
// file that is empty or wrong.
Result<Measurements> read_measurements(std::istream& text, const std::string& name);

// ---- The fit

// Weighted nonlinear least squares by damped Gauss-Newton steps (Levenberg-Marquardt).
struct LeastSquares {
  // By row. Must return the same number of rows each time. `values` are never negative.
  std::function<std::vector<double>(const std::vector<double>& values)> residuals;
  std::vector<double> weights;  // by row
  int most_steps = 60;

  struct Fit {
    std::vector<double> values;
    std::vector<double> margins;  // half a 95 % interval; infinite if undetermined
    std::vector<double> residuals;
  };
  // Values stay at or above 0.
  Fit fit(std::vector<double> start) const;
};

// The modelled time of a step in us. Errors as make_typical_job() and run().
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
    double margin = 0;  // infinite if the measurements do not determine it; it keeps its old value
  };
  Machine machine;
  std::vector<Fitted> figures;
  std::vector<Compared> rows;
};

// Fits the figures listed in calibration.cc; the others stay as in `machine`. Each rank count
// of halos has the same weight, however many placements were measured. All halos together weigh
// as much as all ping-pongs.
Result<Calibration> calibrate(const std::vector<Measurement>& rows, const Machine& machine, const std::string& origin);

// The halos of one rank count, modelled with figures fitted to all other rows.
struct LeftOut {
  uint32_t ranks = 0;
  std::vector<Compared> rows;
};
Result<std::vector<LeftOut>> leave_rank_counts_out(const std::vector<Measurement>& rows, const Calibration& all);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_CALIBRATION_H_
