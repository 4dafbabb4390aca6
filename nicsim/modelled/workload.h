// Workload: a program that the model knows, and the job that it makes on a machine.
#ifndef LANYARD_NICSIM_MODELLED_WORKLOAD_H_
#define LANYARD_NICSIM_MODELLED_WORKLOAD_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nicsim/modelled/job.h"
#include "nicsim/modelled/lowering.h"
#include "nicsim/modelled/machine.h"
#include "transport/base/status.h"
#include "transport/core/transfer.h"

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

// ---- Halos

// A periodic grid of cells, divided among ranks.
struct Grid {
  int dimensions = 2;
  bool corners = true;  // also neighbours across edges and corners
  std::array<uint64_t, 3> cells = {1, 1, 1};
  std::array<uint32_t, 3> ranks = {1, 1, 1};

  std::array<uint32_t, 3> place(uint32_t rank) const;
  // The cells of that rank along each dimension.
  std::array<uint64_t, 3> extent(uint32_t rank) const;
  uint64_t cells_of(uint32_t rank) const;
};

// The messages of a rank: requests of the builder, sends first.
struct Halo {
  std::vector<uint32_t> requests;
  std::vector<uint64_t> bytes;  // of the message to each neighbour, and of that from it
};

// Adds the messages of a halo. Requires that each rank's halo requests are its first ones.
Halo add_halo(StepBuilder& builder, const Grid& grid, uint32_t rank, bool ready);

// ---- Jobs

// kInvalidArgument.
Result<Kind> parse_kind(const std::string& name);
std::string kind_name(Kind kind);

// kInvalidArgument: an impossible workload. kUnsupported: one that the model does not cover.
Result<Job> make_job(const Workload& workload, const Machine& machine);

// A smaller job with about the same step time: the ranks of one NIC, each like rank 0 and its own
// neighbour. A ping-pong keeps its two ranks. The times agree if the cells are divided evenly and
// all kinds of links cost the same. It runs thousands of times faster.
Result<Job> make_typical_job(const Workload& workload, const Machine& machine);

// Divides ranks among the dimensions as evenly as possible, the largest number first.
std::array<uint32_t, 3> split(uint32_t ranks, int dimensions);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_WORKLOAD_H_
