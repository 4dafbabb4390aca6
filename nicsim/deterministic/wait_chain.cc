#include "nicsim/deterministic/wait_chain.h"

#include <algorithm>
#include <optional>

#include "nicsim/deterministic/program_waits.h"
#include "nicsim/deterministic/transfer_waits.h"
#include "nicsim/deterministic/wait_node.h"

namespace lanyard::nicsim {

namespace {

using Blame = WaitChain::Blame;

WaitLink follow(const World& world, const WaitNode& node) {
  if (const uint32_t rank = rank_of(world, node); world.is_killed(rank))
    return was_killed(rank);
  const ProgramWaits program(world);
  const TransferWaits transfers(world);
  switch (node.kind) {
    case WaitNode::Kind::kHost: return program.host(node.rank);
    case WaitNode::Kind::kStream: return program.stream(node.rank, node.which);
    case WaitNode::Kind::kStart: return program.start({node.which}, node.iteration);
    case WaitNode::Kind::kDone: return transfers.done({node.which}, node.iteration);
    case WaitNode::Kind::kData: return transfers.data(node.which, node.iteration);
    case WaitNode::Kind::kClear: return transfers.clear(node.which, node.iteration);
  }
  return {};
}

// Where to begin: whatever waits, streams first.
std::vector<WaitNode> beginnings_of(const World& world) {
  std::vector<WaitNode> nodes;
  for (uint32_t rank = 0; rank < world.exchange().ranks(); ++rank)
    for (uint32_t queue = 0; queue < world.process(rank).lanes.size(); ++queue)
      if (!world.is_killed(rank) && !world.process(rank).lanes[queue]->stream.empty())
        nodes.push_back({WaitNode::Kind::kStream, rank, queue, 0});
  for (uint32_t rank = 0; rank < world.exchange().ranks(); ++rank)
    if (!world.is_killed(rank) && !has_ended(world, rank))
      nodes.push_back({WaitNode::Kind::kHost, rank, 0, 0});
  return nodes;
}

WaitChain chain_from(const World& world, const WaitNode& beginning) {
  WaitChain chain;
  std::vector<WaitNode> seen;
  std::vector<Blame> blames;
  std::optional<WaitNode> node = beginning;
  size_t first = 0;  // of the links that count
  while (node) {
    if (const auto before = std::find(seen.begin(), seen.end(), *node); before != seen.end()) {
      first = static_cast<size_t>(before - seen.begin());
      chain.cycle = true;
      break;
    }
    const WaitLink link = follow(world, *node);
    seen.push_back(*node);
    chain.links.push_back(link.text);
    blames.push_back(link.blame);
    node = link.next;
  }
  // Of a circle every link counts, of a chain the end: but want of entries anywhere makes all the rest wait, where it
  // is not itself for what was lost.
  const bool lost = !chain.cycle && !blames.empty() && blames.back() == Blame::kFailure;
  const auto pool = std::find(blames.begin() + static_cast<ptrdiff_t>(first), blames.end(), Blame::kPool);
  chain.blame = lost                   ? Blame::kFailure
                : pool != blames.end() ? Blame::kPool
                : blames.empty()       ? Blame::kProtocol
                                       : blames.back();
  for (size_t i = 0; i < chain.links.size(); ++i) {
    chain.text += i == 0 ? "" : "\n <- ";
    chain.text += chain.links[i];
  }
  if (chain.cycle)
    chain.text += "\n <- and so on: this is a circle";
  if (chain.blame == Blame::kUser)
    chain.text += "\nThe program itself makes these wait for each other; no network card could help.";
  if (chain.blame == Blame::kPool)
    chain.text += "\nThere are too few deferred-work entries, and they are not reserved for a whole start.";
  return chain;
}

}  // namespace

WaitChain WaitChain::of(const World& world) {
  const std::vector<WaitNode> beginnings = beginnings_of(world);
  WaitChain chain;
  chain.blame = Blame::kFailure;
  // What was lost explains those who wait for it, and nobody else.
  for (size_t i = 0; i < beginnings.size() && chain.blame == Blame::kFailure; ++i)
    chain = chain_from(world, beginnings[i]);
  return chain;
}

}  // namespace lanyard::nicsim
