// Job: processes with their programs and what these cost, who is matched with whom, and where they sit on the machine.
//
// Serial resources are five: a process's host and stream, and its card's deferred-work queue, transmit and receive
// sides, the last three shared by the processes of that card. A cost keeps one of them busy, unless it says "later":
// then it is a delay beside them.
#ifndef LANYARD_NICSIM_MODELLED_JOB_H_
#define LANYARD_NICSIM_MODELLED_JOB_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nicsim/modelled/program.h"

namespace lanyard::modelled {

// How far a message goes.
enum class Hop : uint8_t { kSelf, kNode, kGroup, kGlobal };
inline constexpr size_t kHops = 4;

struct Costs {
  Picoseconds post = 0;            // host: to post an entry
  Picoseconds launch = 0;          // host: to enqueue a kernel
  Picoseconds enqueue = 0;         // host: to enqueue a memory operation
  Picoseconds ring = 0;            // stream
  Picoseconds wait = 0;            // stream: once its word is there; later by as much
  Picoseconds next_wait = 0;       // stream: the same, of waits that follow one in a batch
  Picoseconds doorbell = 0;        // later: from the ring until the card's counter has it
  Picoseconds fire = 0;            // deferred-work queue: an entry
  Picoseconds own_word = 0;        // later: from firing until a word of the process's own is raised
  Picoseconds transmit = 0;        // transmit side: a message
  Femtoseconds transmit_byte = 0;  // transmit side, and receive side
  Picoseconds receive = 0;         // receive side: a message
  uint64_t chunk_bytes = 0;        // what is read before the first packet leaves, at most
  Femtoseconds chunk_byte = 0;     // later, of each of those
  Picoseconds delivery = 0;        // later: from landing until the data is known to be visible, where that is asked for
  std::array<Picoseconds, kHops> link = {};  // later
  uint32_t deferred_depth = 504;             // entries of a card, shared evenly by the processes on it
  uint32_t run_ahead = 64;                   // steps that a host is ahead of its stream at most

  friend bool operator==(const Costs&, const Costs&) = default;
};

// Fills in what the program's operations cost.
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

// The other side of a request.
struct Link {
  uint32_t rank = 0;
  uint32_t request = 0;
};

// Ranks fill one node after another; those of a node are dealt to its cards in portions.
struct Placement {
  uint32_t ranks_per_node = 1;
  uint32_t nics_per_node = 1;
  uint32_t nodes_per_group = 1;

  uint32_t node(uint32_t rank) const { return rank / ranks_per_node; }
  uint32_t nic(uint32_t rank) const {
    const uint32_t of_node = std::min(nics_per_node, ranks_per_node);
    return node(rank) * of_node + rank % ranks_per_node * of_node / ranks_per_node;
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
  std::vector<Program> programs;     // with their prices
  std::vector<uint32_t> program_of;  // by rank
  std::vector<uint32_t> first_link;  // by rank: in `links`, of as many as its program has requests
  std::vector<Link> links;

  uint32_t ranks() const { return static_cast<uint32_t>(program_of.size()); }
  const Program& program(uint32_t rank) const { return programs[program_of[rank]]; }
  const Link& link(uint32_t rank, uint32_t request) const { return links[first_link[rank] + request]; }
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_JOB_H_
