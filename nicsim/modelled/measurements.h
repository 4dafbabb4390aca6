// Measurements: published times of jobs that the model knows, read from CSV in the columns of the published files.
#ifndef LANYARD_NICSIM_MODELLED_MEASUREMENTS_H_
#define LANYARD_NICSIM_MODELLED_MEASUREMENTS_H_

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "nicsim/modelled/workload.h"
#include "transport/base/status.h"

namespace lanyard::modelled {

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

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_MEASUREMENTS_H_
