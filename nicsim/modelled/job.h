// Job: the processes, their programs and costs, the matched pairs, and the
// processes' places on the machine.
//
// There are five serial resources: a process's host and stream, and its NIC's deferred-work queue,
// transmit side and receive side. The processes of a NIC share the last three. A cost occupies its
// resource, unless its comment says "later": then it is only a delay.
#ifndef LANYARD_NICSIM_MODELLED_JOB_H_
#define LANYARD_NICSIM_MODELLED_JOB_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nicsim/modelled/program.h"

namespace lanyard::modelled {

// How far a message goes: within the process, the node, the group of nodes, or beyond.
enum class Hop : uint8_t { kSelf, kNode, kGroup, kGlobal };
inline constexpr size_t kHops = 4;

struct Costs {
  Picoseconds post = 0;                      // host: post an entry
  Picoseconds launch = 0;                    // host: enqueue a kernel
  Picoseconds enqueue = 0;                   // host: enqueue a memory operation
  Picoseconds ring = 0;                      // stream: ring a doorbell
  Picoseconds wait = 0;                      // stream: a wait, after its word is raised
  Picoseconds next_wait = 0;                 // stream: a wait that follows another in a batch
  Picoseconds doorbell = 0;                  // later: from the ring until the NIC's counter has it
  Picoseconds fire = 0;                      // deferred-work queue: fire an entry
  Picoseconds own_word = 0;                  // later: from firing until an own word is raised
  Picoseconds transmit = 0;                  // transmit side: a message
  Femtoseconds transmit_byte = 0;            // transmit side and receive side: a byte
  Picoseconds receive = 0;                   // receive side: a message
  uint64_t chunk_bytes = 0;                  // most bytes read before the first packet leaves
  Femtoseconds chunk_byte = 0;               // later: each of these bytes
  Picoseconds delivery = 0;                  // later: from landing until delivery is known
  std::array<Picoseconds, kHops> link = {};  // later: a message, by Hop
  uint32_t deferred_depth = 504;             // entries of a NIC, shared evenly by its processes
  uint32_t run_ahead = 64;                   // most steps that a host is ahead of its stream

  friend bool operator==(const Costs&, const Costs&) = default;
};

// Sets the costs of the program's operations.
inline void price(Program& program, const Costs& costs) {
  program.host_step = 0;
  for (const HostOp& op : program.host) {
    if (op.posts) {
      program.host_step += costs.post;
      program.entries[op.index].posted = program.host_step;
      continue;
    }
    StreamOp& stream = program.stream[op.index];
    program.host_step += stream.kind == StreamOp::Kind::kKernel ? costs.launch : costs.enqueue;
    stream.ready = program.host_step;
    if (stream.kind == StreamOp::Kind::kRing)
      stream.cost = costs.ring;
    else if (stream.kind == StreamOp::Kind::kWait)
      stream.cost = stream.follows ? costs.next_wait : costs.wait;
  }
}

// The matched request of another rank.
struct Link {
  uint32_t rank = 0;
  uint32_t request = 0;
};

// Ranks fill one node after another. The ranks of a node are dealt to its NICs in contiguous
// blocks, or one by one in turn.
struct Placement {
  uint32_t ranks_per_node = 1;
  uint32_t nics_per_node = 1;
  uint32_t nodes_per_group = 1;
  bool round_robin = false;

  uint32_t node(uint32_t rank) const { return rank / ranks_per_node; }
  uint32_t nic(uint32_t rank) const {
    const uint32_t of_node = std::min(nics_per_node, ranks_per_node);
    const uint32_t place = rank % ranks_per_node;
    return node(rank) * of_node + (round_robin ? place % of_node : place * of_node / ranks_per_node);
  }
  uint32_t ranks_per_nic() const { return (ranks_per_node + nics_per_node - 1) / nics_per_node; }
  Hop hop(uint32_t from, uint32_t to) const {
    if (from == to)
      return Hop::kSelf;
    if (node(from) == node(to))
      return Hop::kNode;
    return node(from) / nodes_per_group == node(to) / nodes_per_group ? Hop::kGroup : Hop::kGlobal;
  }
};

struct Job {
  Costs costs;
  Placement placement;
  std::vector<Program> programs;     // with their costs
  std::vector<uint32_t> program_of;  // by rank: index in `programs`
  std::vector<uint32_t> first_link;  // by rank: index in `links` of its first request
  std::vector<Link> links;

  uint32_t ranks() const { return static_cast<uint32_t>(program_of.size()); }
  const Program& program(uint32_t rank) const { return programs[program_of[rank]]; }
  const Link& link(uint32_t rank, uint32_t request) const { return links[first_link[rank] + request]; }
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_JOB_H_
