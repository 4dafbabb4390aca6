// Workload: a program that the model knows, and the job that it makes on a machine.
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
  kHalo2d,     // Game of Life: periodic, 8 neighbours; 17 kernels a step
  kHalo3d,     // the same in three dimensions, 26 neighbours
  kAllreduce,  // recursive doubling of `bytes`, a kernel a stage that adds; ranks: a power of two
  kCg,         // conjugate gradients: periodic 5-point grid; two allreduces of a number a step
};

struct Workload {
  Kind kind = Kind::kHalo2d;
  uint32_t ranks = 1;
  uint32_t ranks_per_node = 1;
  std::array<uint64_t, 3> cells = {1, 1, 1};  // of the whole grid; the first two in two dimensions
  uint64_t bytes = 8;                         // kPingPong, kAllreduce: of a message
  core::Strategy strategy = core::Strategy::kTargetCounter;
  bool ready = false;     // halos and ping-pong: ready sends
  bool exchange = false;  // the requests of one start are an exchange
  bool merged = false;    // halos: one kernel packs all edges, one unpacks them
  Memory memory = Memory::kCoarse;
};

// kInvalidArgument.
Result<Kind> parse_kind(const std::string& name);
std::string kind_name(Kind kind);

// kInvalidArgument: an impossible workload. kUnsupported: one that the model does not cover.
Result<Job> make_job(const Workload& workload, const Machine& machine);

// A smaller job with about the same step time: the ranks of one NIC, each like rank 0 and its own
// neighbour. A ping-pong keeps its two ranks. The times agree if the cells are divided evenly and
// all kinds of links cost the same. It runs thousands of times faster.
Result<Job> make_typical_job(const Workload& workload, const Machine& machine);

// The number of entries of rank 0's step.
uint32_t entries_of(const Job& job);

// Divides ranks among the dimensions as evenly as possible, the largest number first.
std::array<uint32_t, 3> split(uint32_t ranks, int dimensions);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_WORKLOAD_H_
