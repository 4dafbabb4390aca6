// Workload: the programs whose times the model tells, and the jobs that they make on a machine.
#ifndef LANYARD_NICSIM_MODELLED_WORKLOAD_H_
#define LANYARD_NICSIM_MODELLED_WORKLOAD_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nicsim/modelled/job.h"
#include "nicsim/modelled/machine.h"
#include "transport/base/status.h"
#include "transport/core/strategy.h"

namespace lanyard::modelled {

enum class Kind : uint8_t {
  kPingPong,   // pack, send, receive, unpack between two ranks; a step is a round trip
  kHalo2d,     // Game of Life: a periodic grid, 8 neighbours, a kernel for each edge packed or unpacked, and one a step
  kHalo3d,     // the same in three dimensions, 26 neighbours
  kAllreduce,  // recursive doubling of `bytes`, one kernel a stage that adds; a power of two of ranks
  kCg,         // conjugate gradients on a periodic 5-point grid: 4 neighbours, two allreduces of a number a step
};

struct Workload {
  Kind kind = Kind::kHalo2d;
  uint32_t ranks = 1;
  uint32_t ranks_per_node = 1;
  std::array<uint64_t, 3> cells = {1, 1, 1};  // of the whole grid; of two dimensions the first two
  uint64_t bytes = 8;                         // kPingPong, kAllreduce: of a message
  core::Strategy strategy = core::Strategy::kTargetCounter;
  bool ready = false;     // halos and ping-pong: ready sends
  bool exchange = false;  // what is started together is an exchange
  bool merged = false;    // halos: one kernel packs all edges, and one unpacks them
  Memory memory = Memory::kCoarse;
};

// kInvalidArgument.
Result<Kind> parse_kind(const std::string& name);
std::string kind_name(Kind kind);

// kInvalidArgument: what cannot be; kUnsupported: what the model does not know.
Result<Job> make_job(const Workload& workload, const Machine& machine);

// The same job as one card's ranks, all of them like the workload's rank 0 and their own neighbours (but of ping-pong,
// which is two as it is). Its steps take as long where cells are dealt evenly and links of every kind take as long, and
// it takes thousands of times less to run.
Result<Job> make_typical_job(const Workload& workload, const Machine& machine);

// Entries of a step of the rank 0.
uint32_t entries_of(const Job& job);

// The ranks along each of so many dimensions: as even as they can be, the largest first.
std::array<uint32_t, 3> split(uint32_t ranks, int dimensions);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_WORKLOAD_H_
