// Calibration: the figures of a machine that make the model's times those measured, and how far off they remain.
#ifndef LANYARD_NICSIM_MODELLED_CALIBRATION_H_
#define LANYARD_NICSIM_MODELLED_CALIBRATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nicsim/modelled/machine.h"
#include "nicsim/modelled/measurements.h"
#include "transport/base/status.h"

namespace lanyard::modelled {

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
