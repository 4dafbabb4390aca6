// Engine: runs a job in modelled time (nicsim/README.md). A job takes the same time on every
// machine and with every compiler.
#ifndef LANYARD_NICSIM_MODELLED_ENGINE_H_
#define LANYARD_NICSIM_MODELLED_ENGINE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "nicsim/modelled/job.h"
#include "transport/base/status.h"

namespace lanyard::modelled {

struct Timing {
  std::vector<Picoseconds> ends;  // by step: when the last stream finished it

  // The time of a step in the steady state: the mean of the second half.
  Picoseconds step_time() const {
    const size_t half = ends.size() / 2;
    const size_t from = half == 0 ? 0 : half - 1;
    return (ends.back() - (half == 0 ? 0 : ends[from])) / static_cast<Picoseconds>(ends.size() - half);
  }
};

struct RunOptions {
  uint32_t steps = 1;
  // Called when all streams have finished another step, with the number of such steps.
  std::function<void(uint32_t)> progress = {};
};

// kInvalidArgument: a step needs more entries than a process's share. kFailed: the job makes no
// progress; the message says where.
Result<Timing> run(const Job& job, const RunOptions& options);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_ENGINE_H_
