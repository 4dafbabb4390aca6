// Engine: runs a job in modelled time.
//
// Events happen at serial resources alone (costs.h), each of which is a time until which it is busy; what lies between
// two of them is added up. A write that fires takes the deferred-work queue, then the transmit side, arrives after the
// link's latency, takes the receive side, lands, and completes at its sender after the latency once more. Who waits for
// a counter is looked at when it counts.
//
// A host plans a step as a whole: it begins once as many entries are free as the step's starts need, all at once, and
// not before the step before is posted. An entry is free again when it fires. Processes on one card have an even share
// of its entries each: what the overflow (transport/core) does so that none starves the others is not modelled. So what
// a host does in a step takes one event, and what a stream does between two waits that are not met takes none.
//
// The same job takes the same time on every machine and with every compiler.
#ifndef LANYARD_NICSIM_MODELLED_ENGINE_H_
#define LANYARD_NICSIM_MODELLED_ENGINE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "nicsim/modelled/job.h"
#include "transport/base/status.h"

namespace lanyard::modelled {

struct Timing {
  std::vector<Picoseconds> ends;  // by step: when the last stream was through with it
  uint64_t events = 0;

  // A step's time once the job has settled: of all but the first half.
  Picoseconds step_time() const {
    const size_t half = ends.size() / 2;
    const size_t from = half == 0 ? 0 : half - 1;
    return (ends.back() - (half == 0 ? 0 : ends[from])) / static_cast<Picoseconds>(ends.size() - half);
  }
};

struct RunOptions {
  uint32_t steps = 1;
  // Called with the steps that all streams are through with, whenever that grows.
  std::function<void(uint32_t)> progress = {};
};

// kInvalidArgument: a program whose step needs more entries than the card has; kFailed: it stands still for ever, and
// where.
Result<Timing> run(const Job& job, const RunOptions& options);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_ENGINE_H_
