#include "nicsim/deterministic/wait_node.h"

namespace lanyard::nicsim {

uint32_t rank_of(const World& world, const WaitNode& node) {
  switch (node.kind) {
    case WaitNode::Kind::kStart:
    case WaitNode::Kind::kDone: return world.side(RequestName{node.which}).rank;
    case WaitNode::Kind::kData: return world.side(RequestName{2 * node.which}).rank;
    case WaitNode::Kind::kClear: return world.side(RequestName{2 * node.which + 1}).rank;
    default: return node.rank;
  }
}

WaitNode completion_of(const World& world, uint32_t request) {
  const Side& side = world.side(RequestName{request});
  if (side.core->transferred())  // and its stream has not packed or unpacked
    return {WaitNode::Kind::kStream, side.rank, side.queue, 0};
  return {WaitNode::Kind::kDone, 0, request, side.before + side.core->iterations_done() + 1};
}

bool has_ended(const World& world, uint32_t rank) {
  return world.process(rank).next_action == world.exchange().program(rank).actions().size();
}

WaitLink was_killed(uint32_t rank) {
  return {"the process of rank " + std::to_string(rank) + " was killed", std::nullopt, WaitChain::Blame::kFailure};
}

std::string name_of(const World& world, RequestName request, uint64_t iteration) {
  return "(" + world.exchange().describe(request) + ") iteration " + std::to_string(iteration);
}

std::string so_many_of(uint64_t value, uint64_t wanted) {
  return std::to_string(value) + " of " + std::to_string(wanted);
}

}  // namespace lanyard::nicsim
