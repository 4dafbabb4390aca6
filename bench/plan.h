// Plan: patterns one after another, each waiting for the one before: what collectives and striping are made of. An
// immutable value, without MPI.
//
// Nothing but its own messages orders a rank: it goes on to the next step when what it sends and receives in this one
// is done, whatever the others do (CommBench's asynchronous sequences, section 4.2 and figure 5 of the paper).
#ifndef LANYARD_BENCH_PLAN_H_
#define LANYARD_BENCH_PLAN_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bench/contents.h"
#include "bench/pattern.h"
#include "transport/base/status.h"

namespace lanyard::bench {

// The bytes from `to` on become the exclusive or of themselves and those from `from` on, of one rank's memory.
struct Combine {
  int rank = 0;
  uint64_t to = 0;
  uint64_t from = 0;
  uint64_t bytes = 0;

  friend bool operator==(const Combine&, const Combine&) = default;
};

struct Step {
  Pattern pattern;
  std::vector<Combine> combines = {};  // after the messages, in this order

  friend bool operator==(const Step&, const Step&) = default;
};

class Plan {
 public:
  Plan() = default;
  explicit Plan(Pattern pattern) : Plan(std::vector<Step>{{std::move(pattern)}}) {}
  // Requires combines of ranks and memory that there can be, of places that do not overlap.
  explicit Plan(std::vector<Step> steps);

  std::span<const Step> steps() const { return steps_; }
  // As of a pattern.
  int ranks() const;
  uint64_t memory(int rank) const;
  uint64_t bytes() const;
  uint64_t messages() const;
  bool combines() const;
  std::vector<uint64_t> matrix(int ranks) const;

  // The messages that stay in a node of `group` ranks, and those that leave one, with no combining.
  Plan within(int group) const;
  Plan between(int group) const;
  // This one's steps and then the other's, in the same memory.
  Plan then(const Plan& next) const;
  // Both at once, step by step, the other's memory behind this one's. kInvalidArgument: that is too much.
  Result<Plan> beside(const Plan& other) const;

  friend bool operator==(const Plan&, const Plan&) = default;

 private:
  std::vector<Step> steps_;
};

// What the memories of all ranks hold when the plan has been carried out so many times, and which pieces were read on
// the way.
struct Outcome {
  std::vector<Contents> memories;
  std::vector<Piece> read;
};
Outcome outcome(const Plan& plan, int ranks, int times = 1);

// Collectives of all of so many ranks, `bytes` a rank's contribution. Root is rank 0. Blocks are Pattern::kAlignment
// apart. kInvalidArgument: fewer than 2 ranks, or what Pattern::of() refuses.
enum class Collective : uint8_t {
  kBroadcast,      // from the first bytes of the root to the first bytes of all, at once
  kBroadcastTree,  // the same in rounds: who has them sends to one that has not
  kScatter,        // block r of the root to the first bytes of rank r
  kGather,         // the first bytes of rank r to block r of the root
  kReduce,         // the same, then the root's first bytes become the exclusive or of all blocks
  kReduceTree,     // the same result in rounds, those of the tree backwards
  kAllToAll,       // block s of rank r to block ranks + r of rank s, its own too
};
Result<Plan> make_collective(Collective collective, int ranks, uint64_t bytes);

// Bytes in as many stripes, which differ by one at most.
std::vector<uint64_t> even_stripes(uint64_t bytes, int stripes);
// From rank 0 to rank g, of two nodes of g ranks, the first bytes of its memory to where striped() puts them.
Result<Plan> make_direct(int group, uint64_t bytes);
// The same by all ranks of both nodes (section 4.2, figure 4): split, rank 0 hands stripe i to rank i; translate, each
// sends its stripe to its like in the other node; assemble, they hand them to rank g. A stripe of 0 bytes has no
// message. kInvalidArgument: not a stripe a rank, or no bytes.
Result<Plan> make_striped(std::span<const uint64_t> stripes);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PLAN_H_
