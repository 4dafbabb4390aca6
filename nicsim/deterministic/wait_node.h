// WaitNode: a node of the graph of who waits for whom (wait-for graph): something that can be waited for.
#ifndef LANYARD_NICSIM_DETERMINISTIC_WAIT_NODE_H_
#define LANYARD_NICSIM_DETERMINISTIC_WAIT_NODE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "nicsim/deterministic/wait_chain.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

struct WaitNode {
  enum class Kind { kHost, kStream, kStart, kDone, kData, kClear } kind = Kind::kHost;
  uint32_t rank = 0;       // kHost, kStream
  uint32_t which = 0;      // kStream: queue; kStart, kDone: request; kData, kClear: message
  uint64_t iteration = 0;  // kStart, kDone, kData, kClear
  friend bool operator==(const WaitNode&, const WaitNode&) = default;
};

// What is said of a node that has not come about, and what it waits for; or who is to blame that nothing is.
struct WaitLink {
  std::string text;
  std::optional<WaitNode> next;
  WaitChain::Blame blame = WaitChain::Blame::kUser;
};

// Who has to do something for it to come about.
uint32_t rank_of(const World& world, const WaitNode& node);
// The first iteration of the request that has not completed. Requires that it was not freed.
WaitNode completion_of(const World& world, uint32_t request);
// Whether the program of that rank has come to its end.
bool has_ended(const World& world, uint32_t rank);
// That nothing comes of this rank any more.
WaitLink was_killed(uint32_t rank);

// "(send of 0 to 1, tag 7) iteration 2"
std::string name_of(const World& world, RequestName request, uint64_t iteration);
// "1 of 2"
std::string so_many_of(uint64_t value, uint64_t wanted);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_WAIT_NODE_H_
