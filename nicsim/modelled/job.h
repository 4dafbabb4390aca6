// Job: processes with their programs, who is matched with whom, and where they sit on the machine.
#ifndef LANYARD_NICSIM_MODELLED_JOB_H_
#define LANYARD_NICSIM_MODELLED_JOB_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nicsim/modelled/costs.h"
#include "nicsim/modelled/program.h"

namespace lanyard::modelled {

// The other side of a request.
struct Link {
  uint32_t rank = 0;
  uint32_t request = 0;
};

// How the ranks of a node are dealt to its cards: in portions of neighbours, or in turn.
enum class NicDeal : uint8_t { kPortions, kInTurn };

// Ranks fill one node after another.
struct Placement {
  uint32_t ranks_per_node = 1;
  uint32_t nics_per_node = 1;
  uint32_t nodes_per_group = 1;
  NicDeal deal = NicDeal::kPortions;

  uint32_t node(uint32_t rank) const { return rank / ranks_per_node; }
  uint32_t nics_of_node() const { return std::min(nics_per_node, ranks_per_node); }
  uint32_t nic(uint32_t rank) const {
    const uint32_t place = rank % ranks_per_node, nics = nics_of_node();
    return node(rank) * nics + (deal == NicDeal::kInTurn ? place % nics : place * nics / ranks_per_node);
  }
  // Of so many ranks.
  uint32_t nics(uint32_t ranks) const { return (node(ranks - 1) + 1) * nics_of_node(); }
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
