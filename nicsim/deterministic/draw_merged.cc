#include "nicsim/deterministic/draw_merged.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace lanyard::nicsim {

namespace {

// The actions by which a program matches, starts and waits for a request; nothing where they may not be shared.
std::optional<std::vector<size_t>> calls_of(const HostProgram& program, RequestName request) {
  using Kind = Action::Kind;
  std::vector<size_t> calls;
  bool captured = false;
  for (size_t i = 0; i < program.actions().size(); ++i) {
    const Action& action = program.actions()[i];
    captured = action.kind == Kind::kCapture || (captured && action.kind != Kind::kCaptured);
    bool named = false;
    for (const RequestName each : action.requests)
      named = named || each == request;
    if (!named || action.refused)
      continue;
    switch (action.kind) {
      case Kind::kStart:
      case Kind::kWait:
        if (captured)
          return std::nullopt;
        calls.push_back(i);
        break;
      case Kind::kMatch: calls.push_back(i); break;
      case Kind::kMatched:
      case Kind::kComplete:
      case Kind::kFree: break;
      default: return std::nullopt;  // withdrawn, given to kernels
    }
  }
  return calls.empty() ? std::nullopt : std::optional(calls);
}

std::vector<RequestName> members_of(const Scenario& scenario, const Action& action, uint32_t number) {
  std::vector<RequestName> members;
  for (const RequestName each : action.requests)
    if (scenario.merged(each) == number)
      members.push_back(each);
  return members;
}

// Of what is merged and freed by one call one member goes first, and the others cannot be started any more.
void free_in_part(Scenario& scenario, Random& random, uint32_t rank, uint32_t number) {
  std::vector<Action>& actions = scenario.rank(rank).actions();
  for (size_t place = actions.size(); place-- > 0;) {
    if (actions[place].kind != Action::Kind::kFree)
      continue;
    std::vector<RequestName> members = members_of(scenario, actions[place], number);
    if (members.size() < 2)
      continue;
    const RequestName first = members[random.below(static_cast<uint32_t>(members.size()))];
    std::erase(members, first);
    std::erase(actions[place].requests, first);
    Action one = actions[place], others = actions[place];
    one.requests = {first};
    others.kind = Action::Kind::kStart;
    others.requests = std::move(members);
    others.refused = true;
    actions.insert(actions.begin() + static_cast<ptrdiff_t>(place), {std::move(one), std::move(others)});
    return;
  }
}

// Before a call that has all members of an exchange one that has not, which is refused, and changes nothing.
void call_in_part(Scenario& scenario, Random& random, uint32_t rank, uint32_t number) {
  std::vector<Action>& actions = scenario.rank(rank).actions();
  std::vector<size_t> calls;
  for (size_t i = 0; i < actions.size(); ++i)
    if ((actions[i].kind == Action::Kind::kStart || actions[i].kind == Action::Kind::kWait) && !actions[i].refused &&
        members_of(scenario, actions[i], number).size() > 1)
      calls.push_back(i);
  if (calls.empty())
    return;
  const size_t place = calls[random.below(static_cast<uint32_t>(calls.size()))];
  Action part = actions[place];
  const std::vector<RequestName> members = members_of(scenario, part, number);
  const uint32_t left_out = random.below(static_cast<uint32_t>(members.size()));
  std::erase(part.requests, members[left_out]);
  part.refused = true;
  actions.insert(actions.begin() + static_cast<ptrdiff_t>(place), std::move(part));
}

}  // namespace

HaloOptions draw_two_sets(Random& random) {
  HaloOptions halo;
  halo.two_sets = true;
  halo.ranks = random.one_of({1u, 2u, 2u, 2u, 3u, 3u, 4u});
  halo.each_way = 1 + random.below(3);
  halo.iterations = 1 + random.below(6);
  halo.bytes = random.one_of({0u, 1u, 8u, 16u, 24u, 70u});
  halo.both_ways = random.percent(85);
  halo.sends_first = random.percent(50);
  halo.neighbours = halo.ranks > 2 && random.percent(25) ? 2 : 1;
  halo.sync = random.percent(25);
  halo.free = random.percent(30);
  halo.gaps = random.percent(25);
  return halo;
}

void draw_parts(Scenario& scenario, Random& random, bool faulty) {
  if (random.percent(50))
    for (uint32_t alone = 1 + random.below(3); alone > 0; --alone)
      scenario.part({random.below(static_cast<uint32_t>(2 * scenario.messages().size()))});
  for (uint32_t rank = 0; rank < scenario.ranks() && !faulty; ++rank)
    if (random.percent(30))
      call_in_part(scenario, random, rank, 1);
  // A rank that only sends, or only receives, has no others to free: as a program's text there is no such action.
  for (uint32_t rank = 0; rank < scenario.ranks(); ++rank)
    std::erase_if(scenario.rank(rank).actions(),
                  [](const Action& action) { return action.kind == Action::Kind::kFree && action.requests.empty(); });
}

void draw_merged(Scenario& scenario, Random& random, bool faulty) {
  constexpr uint32_t kMembers = 80;  // of those that could be: percent
  std::map<std::pair<uint32_t, std::vector<size_t>>, std::vector<RequestName>> alike;  // by rank and calls
  for (uint32_t index = 0; index < 2 * scenario.messages().size(); ++index) {
    const RequestName request{index};
    const uint32_t rank = scenario.rank_of(request);
    if (auto calls = calls_of(scenario.program(rank), request))
      alike[{rank, std::move(*calls)}].push_back(request);
  }
  uint32_t number = 0;
  for (const auto& [calls, requests] : alike) {
    ++number;
    for (const RequestName request : requests)
      if (random.below(100) < kMembers)
        scenario.merge(request, number);
    if (!faulty && random.percent(30))
      free_in_part(scenario, random, calls.first, number);
    if (!faulty && random.percent(30))
      call_in_part(scenario, random, calls.first, number);
  }
}

}  // namespace lanyard::nicsim
