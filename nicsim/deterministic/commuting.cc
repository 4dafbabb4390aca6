#include "nicsim/deterministic/commuting.h"

#include <algorithm>

namespace lanyard::nicsim {

namespace {

std::span<const Action> rest_of(const Process& process) { return process.program.subspan(process.next_action); }

// Standing requests are handed over as they complete.
bool has_standing(const Process& process) {
  return std::any_of(process.program.begin(), process.program.end(), [](const Action& action) {
    return action.kind == Action::Kind::kCapture || action.kind == Action::Kind::kStand;
  });
}

// Frees close counters, regions and words, which whatever is under way may touch, and matching opens them.
bool frees_or_matches(const Process& process) {
  const std::span<const Action> rest = rest_of(process);
  return std::any_of(rest.begin(), rest.end(), [](const Action& action) {
    return action.kind == Action::Kind::kFree || action.kind == Action::Kind::kMatch ||
           action.kind == Action::Kind::kMatched || action.kind == Action::Kind::kWithdraw;
  });
}

bool starts(const Process& process) {
  const std::span<const Action> rest = rest_of(process);
  return std::any_of(rest.begin(), rest.end(), [](const Action& each) { return each.kind == Action::Kind::kStart; });
}

// Whether an entry may still come that waits for that counter.
bool entries_may_come(const Process& process, uint32_t counter) {
  const auto postings = process.nic.postings();
  return starts(process) || std::any_of(postings.begin(), postings.end(), [counter](const nic::DeferredOp& posting) {
           return posting.trigger.value == counter;
         });
}

bool is_met(const Process& process, const nic::DeferredOp& op) {
  const nic::CounterValue value = process.nic.model().read(op.trigger).value();
  return value.success + value.failure >= op.threshold;
}

// The host's next action: those that only append to its streams and to what its NIC is to be told, in an order that
// nobody else has a say in. A start on another queue than the last looks how far that one is, as do all that wait.
bool host_commutes(const Process& process) {
  const Action& action = rest_of(process).front();
  switch (action.kind) {
    case Action::Kind::kPack:
    case Action::Kind::kUnpack:
    case Action::Kind::kPromise:
    case Action::Kind::kAwait:
    case Action::Kind::kWait: return true;
    case Action::Kind::kStart: return process.streams.size() == 1;
    default: return false;
  }
}

// A counter that grows meets the entries that wait for it, and those that come; and its rings, which may land together.
// The first to come may be the second to fire.
bool counting_commutes(const Process& process, uint32_t counter) { return !entries_may_come(process, counter); }

}  // namespace

bool commutes_with_all(const World& world, uint32_t agent) {
  const Process& process = world.process(world.rank_of(agent));
  const StepKind kind = world.kind_of(agent);
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank)
    if (has_standing(world.process(rank)))
      return false;
  if (kind == StepKind::kHost)
    return host_commutes(process);
  for (uint32_t rank = 0; rank < world.scenario().ranks(); ++rank)
    if (frees_or_matches(world.process(rank)))
      return false;
  switch (kind) {
    // Whether it finds its condition met or waits for it are two ways.
    case StepKind::kPost: return is_met(process, process.nic.next_posting());
    case StepKind::kRing:
      return counting_commutes(process, world.counter_of(agent)) &&
             std::all_of(process.streams.begin(), process.streams.end(),
                         [](const auto& queued) { return queued->stream.empty(); });
    // Of the entries of a counter the oldest goes first.
    case StepKind::kFire: return !entries_may_come(process, world.counter_of(agent));
    case StepKind::kCount: {
      const Transit& transit = *world.transit_of(agent);
      return counting_commutes(world.process(transit.to), transit.counter.value);
    }
    case StepKind::kAck: {
      const Transit& transit = *world.transit_of(agent);
      const Process& initiator = world.process(transit.from);
      const nic::CounterId completion = initiator.nic.model().completion_of(transit.packet.token);
      return !completion.valid() || counting_commutes(initiator, completion.value);
    }
    // Words only grow, and whoever looks at one waits until it is large enough. Data meet in buffers.
    case StepKind::kLand: return world.transit_of(agent)->role != Transit::Role::kData;
    default: return false;
  }
}

}  // namespace lanyard::nicsim
