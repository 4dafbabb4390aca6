#include "nicsim/deterministic/config.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nicsim/deterministic/card_mail.h"
#include "nicsim/deterministic/random.h"
#include "nicsim/deterministic/random_messages.h"
#include "nicsim/deterministic/scenario.h"

namespace lanyard::nicsim {

namespace {

// ---- The world

// All but who carries operations and mail, which depends on the program.
WorldOptions draw_world(Random& random) {
  WorldOptions world;
  world.strategy = random.percent(50) ? core::Strategy::kTargetCounter : core::Strategy::kSenderFlag;
  world.early_acks = random.percent(50);
  world.torn = random.percent(25);
  if (random.percent(50))
    world.max_message_bytes = random.one_of({uint64_t{8}, uint64_t{16}, uint64_t{24}, uint64_t{40}});
  world.uneven = world.max_message_bytes < WorldOptions().max_message_bytes && random.percent(25);
  if (random.percent(60))
    world.depth = 1 + random.below(10);
  else
    world.overflow = !random.percent(25);
  if (random.percent(15))
    world.in_flight = 1 + random.below(4);
  world.no_room = random.percent(15);
  world.scarce = random.percent(10);
  world.stale_reads = random.percent(15);
  world.frozen_reads = !world.stale_reads && random.percent(10);  // both together never end
  world.stolen_entries = random.percent(10);
  world.failures = random.percent(15);
  world.kills = !world.failures && random.percent(12);
  world.bells =
      random.one_of({Bells::kCalls, Bells::kCalls, Bells::kCalls, Bells::kRegisters, Bells::kWords, Bells::kTotals});
  if (random.percent(5))
    world.age = random.next() % (uint64_t{1} << 40);
  return world;
}

// Whether operations fail or processes die there.
bool is_faulty(const WorldOptions& world) { return world.failures || world.kills; }

// Whose libfabric is below the core's driver, if there is one, and whether cards carry the mail. `stands`: whether the
// program has requests that stand.
void draw_carriers(Random& random, WorldOptions& world, bool stands) {
  world.driver = !stands && world.bells == Bells::kCalls && world.in_flight == 0 && random.percent(50);
  // What finds no room runs at once, and then fails.
  world.no_room = world.no_room || (world.driver && world.failures && random.percent(50));
  world.mail_by_card =
      !world.driver && !world.scarce && world.longest(0, 1) >= CardMail::kLeastMessageBytes && random.percent(60);
  world.cut_mail = world.mail_by_card && world.failures && random.percent(40);
}

// ---- Which requests of a program are merged into exchanges of the protocol's (transport/core/exchange.h)

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

// Ranks that all have exchanges with two sets.
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

// Some of their requests are single ones after all, on one side or both; and some calls lack a member, and are refused.
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

// Of each rank some of the requests that its program always starts together and waits for together, and that are
// matched from the beginning. Requires that no rank blocks on a message before it has started to receive all those that
// may be merged with it. `faulty`: operations fail or processes die, so that no call need be refused for one reason.
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
      call_in_part(scenario, random, calls.first, number);
  }
}

// ---- All of it

// Entries that every rank's requests need for one start of each.
uint32_t entries_of(const Scenario& scenario, const WorldOptions& world) {
  std::vector<uint64_t> entries(scenario.ranks());
  for (const Scenario::Message& message : scenario.messages()) {
    const uint64_t pieces = core::pieces_of(message.options.bytes, world.longest(message.from, message.to));
    entries[message.from] += 2 + pieces;
    entries[message.to] += 2;
  }
  return static_cast<uint32_t>(*std::max_element(entries.begin(), entries.end()));
}

Config draw(uint64_t seed) {
  constexpr uint32_t kMostEpochs = 4;
  Random random(seed);
  Config config;
  config.world = draw_world(random);
  const bool faulty = is_faulty(config.world);
  Scenario scenario(random.one_of({1u, 2u, 2u, 2u, 2u, 2u, 3u, 3u, 4u}));
  const bool stands = random.percent(25);
  RandomMessages messages(random, scenario.ranks(), stands);
  messages.draw(scenario, config.world);
  const uint32_t epochs = 1 + random.below(kMostEpochs);
  messages.draw_lives(epochs, faulty);
  messages.draw_short(scenario);
  // Without overflow, where no queue keeps entries of a request that has gone to another, so many are enough.
  const bool tight = !config.world.overflow && !faulty && !stands && random.percent(60);
  draw_program(random, messages, scenario, epochs, faulty, !tight);
  if (tight)
    config.world.depth = entries_of(scenario, config.world);
  config.program = std::make_shared<const Scenario>(std::move(scenario));
  draw_carriers(random, config.world, stands);
  return config;
}

}  // namespace

Config random_config(uint64_t seed) {
  constexpr uint64_t kAnother = 0x6d65726765;  // so that the programs are the same whether something is merged or not
  constexpr uint64_t kSets = 0x73657473;       // likewise
  constexpr uint64_t kLate = 0x6c617465;       // likewise
  constexpr uint32_t kMerges = 40, kTwoSets = 10;  // percent
  Config config = draw(seed);
  config.world.late_events = config.world.driver && Random(seed ^ kLate).percent(30);
  if (Random random(seed ^ kSets); random.below(100) < kTwoSets) {
    Scenario sets = make_halo(draw_two_sets(random));
    draw_parts(sets, random, is_faulty(config.world));
    config.program = std::make_shared<const Scenario>(std::move(sets));
    if (!config.world.overflow && config.world.depth > 0)
      config.world.depth = entries_of(*config.program, config.world);
    return config;
  }
  Random random(seed ^ kAnother);
  if (random.below(100) >= kMerges)
    return config;
  Scenario merged = *config.program;
  draw_merged(merged, random, is_faulty(config.world));
  config.program = std::make_shared<const Scenario>(std::move(merged));
  return config;
}

}  // namespace lanyard::nicsim
