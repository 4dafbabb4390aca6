// NicBinding: which network card of its node each rank uses, and the bandwidth that this allows a pattern: the law that
// CommBench confirms on six machines (section 5.2.1 of the paper).
//
// A node has places 0 to g - 1 and cards 0 to r - 1. Bindings are
//   packed       places one after another share a card, p of them each: place i uses card i / p, and r = ceil(g / p);
//   round-robin  place i uses card i mod r.
// Messages between nodes alone use cards: the sender's one and the receiver's one. A card sends and receives at once,
// each way at f bytes a second, so its load is the larger of what it sends and of what it receives. A pattern takes as
// long as its most loaded card, so all of it moves at
//
//   f x (bytes between nodes) / (load of the most loaded card).
//
// For k rails from one node to another of d bytes each, packed: k d bytes, of which the first card has min(k, p) d, so
// f k / min(k, p) = f (1 + max(0, k - p) / p), equation (1) of the paper. Round-robin: card 0 has ceil(k / r) d, so
// f k / ceil(k / r), equation (2). For fans the senders' cards alone would give the same; but the receivers' cards take
// g k messages too, round-robin ceil(g / r) k on card 0, so a fan has the lesser of that and f g / ceil(g / r): where r
// does not divide g less than equation (2) says. Packed, they are never the lesser.
#ifndef LANYARD_BENCH_NIC_BINDING_H_
#define LANYARD_BENCH_NIC_BINDING_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "bench/pattern.h"
#include "transport/base/check.h"

namespace lanyard::bench {

class NicBinding {
 public:
  // Both: of nodes of `group` places, at least 1. Require at least one place a card, or one card.
  static NicBinding packed(int group, int places_per_nic) { return NicBinding(group, places_per_nic, 0); }
  static NicBinding round_robin(int group, int nics) { return NicBinding(group, 0, nics); }

  int node(int rank) const { return rank / group_; }
  // The card of its node.
  int nic(int rank) const {
    const int place = rank % group_;
    return nics_ == 0 ? place / places_per_nic_ : place % nics_;
  }
  int nics() const { return nics_ == 0 ? (group_ + places_per_nic_ - 1) / places_per_nic_ : nics_; }

 private:
  NicBinding(int group, int places_per_nic, int nics) : group_(group), places_per_nic_(places_per_nic), nics_(nics) {
    LANYARD_CHECK(group >= 1 && (places_per_nic >= 1 || nics >= 1), "a binding has places and cards");
  }

  int group_;
  int places_per_nic_;  // packed
  int nics_;            // round-robin; else 0
};

struct NicLoad {
  uint64_t bytes = 0;  // between nodes
  uint64_t most = 0;   // of a card
};

inline NicLoad nic_load(const Pattern& pattern, const NicBinding& binding) {
  NicLoad load;
  std::map<std::pair<int, int>, uint64_t> sent, received;  // by node and card
  const auto add = [&](auto& nics, int rank, uint64_t bytes) {
    uint64_t& sum = nics[{binding.node(rank), binding.nic(rank)}];
    sum += bytes;
    load.most = std::max(load.most, sum);
  };
  for (const Message& m : pattern.messages()) {
    if (binding.node(m.source) == binding.node(m.destination))
      continue;
    load.bytes += m.bytes;
    add(sent, m.source, m.bytes);
    add(received, m.destination, m.bytes);
  }
  return load;
}

// In the unit of `nic_bandwidth`, one card's one way. Nothing where no message leaves a node.
inline std::optional<double> bandwidth(const Pattern& pattern, const NicBinding& binding, double nic_bandwidth) {
  const NicLoad load = nic_load(pattern, binding);
  if (load.bytes == 0)
    return std::nullopt;
  return nic_bandwidth * static_cast<double>(load.bytes) / static_cast<double>(load.most);
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_NIC_BINDING_H_
