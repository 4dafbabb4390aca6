// One timed run of steps that each begin with a halo exchange, in one mode.
#ifndef LANYARD_BENCH_HALO_RUN_H_
#define LANYARD_BENCH_HALO_RUN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bench/mpi_process.h"
#include "bench/nccl.h"
#include "bench/neighbour_exchange.h"
#include "bench/queue_info.h"
#include "bench/stream.h"
#include "bench/streams.h"

namespace lanyard::bench {

// Of a program's command line.
struct NamedMode {
  const char* name;
  HaloMode mode;
  bool is_captured = false;
  bool needs_device = false;  // else part of "all" on the host, too
};

// As an option --exchange has it: off; or 1, each step's requests are merged; or 2, they are the two sets of one
// exchange. Graphs are of single requests: they start no exchange of the card's.
inline HaloMode exchanged(const NamedMode& mode, const std::string& exchange) {
  if (mode.is_captured || exchange == "off")
    return mode.mode;
  return exchange == "1" ? merged(mode.mode) : paired(mode.mode);
}

struct HaloRunOptions {
  long steps = 0;
  long warmup = 0;           // steps before the timed ones, from the same start
  long batch = 12;           // where the host does not send: steps enqueued before the host waits
  bool is_captured = false;  // modes kSend and kNccl: into graphs of kGraphSteps steps, which are replayed
};

constexpr long kGraphSteps = 20;

// What a program repeats, on one stream; with its halo, whose mode it was made for.
class HaloSteps {
 public:
  virtual ~HaloSteps() = default;

  // The start of everything. Requires that the stream is empty.
  virtual void fill() = 0;
  // Overwrites what steps before have left in the messages, which is what some steps send again. Collective. Requires
  // that the stream is empty; no rank may enqueue steps before all have returned.
  virtual void poison_messages() = 0;
  // `count` steps from `first` on: one; where they are captured it may be the first of many; in mode kKernel all.
  virtual void enqueue(long first, long count) = 0;
  // Blocks the host until everything enqueued so far has run.
  virtual void synchronize() = 0;
  // Why the steps cannot be captured, or in mode kKernel not be a kernel's; empty where they can. Called once, first of
  // all.
  virtual std::string why_not() = 0;
  virtual QueueInfo info() const = 0;
};

struct HaloRunResult {
  std::string refusal;  // why the mode cannot run, on a rank that knows; nothing else is set then, on any
  bool is_refused = false;
  std::string nccl;    // its version, where it is used
  double seconds = 0;  // of the slowest rank
  double us_per_step(long steps) const { return seconds * 1e6 / static_cast<double>(steps); }
  std::optional<EntryFigures> entries;  // stream modes, over the timed steps
  QueueInfo nic;                        // of this rank, after the timed steps
};

// Collective. `what` is for the progress line. `make` has what the steps run on; `finish` runs after the timed steps,
// while they are there and the stream is empty.
HaloRunResult run_halo(HaloMode mode, const std::string& what, const HaloRunOptions& options, const Streams& streams,
                       const MpiProcess& process, const std::function<std::unique_ptr<HaloSteps>(Stream&, Nccl*)>& make,
                       const std::function<void()>& finish);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_HALO_RUN_H_
