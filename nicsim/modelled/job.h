// Job: the processes, their programs, costs and places on the machine, and the matched pairs.
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

namespace lanyard::modelled {

// ---- Time

// Modelled time is an integer, so a job takes the same time on every machine.
using Picoseconds = int64_t;
inline constexpr Picoseconds kMicrosecond = 1'000'000;

// The cost of a byte, a cell or another small unit. A byte takes a NIC some 40 ps, so rounding to
// whole picoseconds would be too coarse.
using Femtoseconds = int64_t;

// The time of `count` units, rounded to the nearest. Requires a product below 2^63, such
// as 10^11 units of 10 ns.
constexpr Picoseconds times(Femtoseconds each, uint64_t count) {
  return (each * static_cast<int64_t>(count) + 500) / 1000;
}

// ---- Programs: the work of one process in every step. Processes with the same steps share one.
// Everything is affine in the step i = 1, 2, ...: a threshold is step * i - before, a wait's value
// is step * i.

inline constexpr uint16_t kNone = UINT16_MAX;  // no counter, no word

// The part of a request that the peer's operations reach.
enum class Part : uint8_t { kBuffer, kClearToSend, kFlag };
inline constexpr size_t kParts = 3;

// The effect of an arriving operation besides its bytes: it adds 1 to a counter and to a word.
struct Landing {
  uint16_t counter = kNone;
  uint16_t word = kNone;
};

// A deferred operation, posted once a step.
struct Entry {
  uint16_t trigger = 0;
  uint32_t step = 0;
  uint32_t before = 0;
  uint16_t completion = kNone;
  bool delivery = false;  // completes once the data is visible
  bool own = false;       // only raises the own process's `word`, if there is one
  uint16_t word = kNone;
  uint16_t request = 0;  // the request whose peer it goes to
  Part part = Part::kBuffer;
  uint64_t bytes = 0;

  Picoseconds posted = 0;  // from the start of the host's step until the NIC has the entry

  uint32_t threshold(uint32_t iteration) const { return step * iteration - before; }
};

struct StreamOp {
  enum class Kind : uint8_t { kKernel, kRing, kWait };
  Kind kind = Kind::kKernel;
  bool follows = false;   // a wait right after another one of the same batch
  uint16_t object = 0;    // kRing: the counter; kWait: the word
  uint32_t value = 0;     // kRing: the value to add; kWait: `step`, see above
  Picoseconds cost = 0;   // time that it occupies the stream
  Picoseconds ready = 0;  // from the start of the host's step until it is enqueued
};

// One action of the host, in order. `index` names a stream operation, or an entry if `posts`.
struct HostOp {
  bool posts = false;
  uint32_t index = 0;
};

struct Program {
  uint16_t counters = 0;
  uint16_t words = 0;
  std::vector<Entry> entries;
  std::vector<StreamOp> stream;
  std::vector<HostOp> host;
  std::vector<std::array<Landing, kParts>> landings;  // by request
  std::vector<std::vector<uint16_t>> hanging;         // by counter: entries in firing order

  Picoseconds host_step = 0;  // time that a step occupies the host
};

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
