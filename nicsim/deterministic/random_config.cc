#include "nicsim/deterministic/config.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nicsim/deterministic/chooser.h"
#include "nicsim/deterministic/mail.h"
#include "nicsim/deterministic/random_program.h"
#include "nicsim/deterministic/scenario.h"

namespace lanyard::nicsim {

namespace {

bool has_wildcards(const Scenario& scenario) {
  return std::ranges::any_of(scenario.messages(), [](const Scenario::Message& each) {
    return each.options.any_source || each.options.any_tag;
  });
}

}  // namespace

// Draws wildcards for receives that no other send could match.
void RandomMessages::draw_wildcards(const std::vector<std::pair<uint32_t, uint32_t>>& ends,
                                    std::vector<MessageOptions>& all) {
  for (size_t i = 0; i < all.size(); ++i) {
    bool only_tag = true, only_source = true, others_wild = false;
    for (size_t k = 0; k < all.size(); ++k) {
      if (k == i || ends[k].second != ends[i].second)
        continue;
      only_tag = only_tag && all[k].tag != all[i].tag;
      only_source = only_source && ends[k].first != ends[i].first;
      others_wild = others_wild || all[k].any_source || all[k].any_tag;
    }
    all[i].any_source = only_tag && !others_wild && random.percent(25);
    all[i].any_tag = !all[i].any_source && only_source && !others_wild && random.percent(25);
  }
}

void RandomMessages::draw(Scenario& scenario, const WorldOptions& world) {
  constexpr uint32_t kMostMessages = 6, kMostQueues = 3;
  // Sometimes more than the initial size of the core's tables, all with the same ranks and tag.
  constexpr uint32_t kMany = 9, kManyMore = 4;
  constexpr uint32_t kStandingReady = 50;  // percentage of ready pairs that may stand
  const auto piece = static_cast<uint32_t>(std::min<uint64_t>(world.max_message_bytes, 16));
  const bool many = random.percent(3);
  const uint32_t count = many ? kMany + random.below(kManyMore) : 1 + random.below(kMostMessages);
  std::vector<std::pair<uint32_t, uint32_t>> ends;
  std::vector<MessageOptions> all;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t from = random.below(scenario.ranks());
    const uint32_t to =
        random.percent(10) ? from : (from + 1 + random.below(std::max(scenario.ranks(), 2u) - 1)) % scenario.ranks();
    ends.push_back(many && i > 0 ? ends.front() : std::pair(from, to));
    // Lengths at which behaviour changes: none, words, whole pieces, and a byte more or less.
    all.push_back({.bytes = random.one_of(
                       {0u, 1u, 7u, 8u, 16u, piece - 1, piece, piece + 1, 2 * piece - 1, 2 * piece, 2 * piece + 1}),
                   .tag = many || random.percent(25) ? 0 : static_cast<int>(i) + 1,
                   .ready = random.percent(30),
                   .room = random.percent(25) ? 1 + random.below(20) : 0,
                   .send_gaps = random.percent(20),
                   .receive_gaps = random.percent(20)});
  }
  draw_wildcards(ends, all);
  for (MessageOptions& each : all) {
    each.nobody = random.percent(8);
    if (each.nobody)
      each.ready = each.any_source = each.any_tag = each.send_gaps = each.receive_gaps = false;
  }
  for (uint32_t rank = 0; rank < scenario.ranks(); ++rank)
    queues.push_back(1 + random.below(kMostQueues));
  for (uint32_t i = 0; i < count; ++i) {
    const MessageName name = scenario.message(ends[i].first, ends[i].second, all[i]);
    const bool checked = random.percent(85);
    const bool soon = stands && all[i].ready && ends[i].first < ends[i].second && random.percent(kStandingReady);
    for (const RequestName request : {name.send, name.receive}) {
      const uint32_t rank = scenario.rank_of(request);
      const bool gaps = request.receive() ? all[i].receive_gaps : all[i].send_gaps;
      plans[rank].push_back({.request = request,
                             .message = name,
                             .ready = all[i].ready,
                             .checked = checked,
                             .gaps = gaps,
                             .soon = soon,
                             .may_stand = !all[i].ready || soon,
                             .queue = random.below(queues[rank])});
    }
  }
  going.assign(count, false);
}

// Programs match some messages; the others are matched before. With faults, messages may begin late
// and end early, so they can get the resources of freed ones. None is matched twice then: after a
// failure a side does not know the state of the other.
void RandomMessages::draw_lives(uint32_t epochs, bool faulty) {
  own = choose(40);
  lives.assign(count(), {0, epochs});
  for (size_t i = 0; faulty && i < count(); ++i) {
    if (own[i])
      lives[i].first = random.below(epochs);
    if (random.percent(40))
      lives[i].second = lives[i].first + 1 + random.below(epochs);
  }
}

// They have tags of their own.
void RandomMessages::draw_idle(Scenario& scenario, uint32_t epochs) {
  constexpr int kTag = 100;
  if (epochs < 2 || !random.percent(20) || has_wildcards(scenario))
    return;
  const uint32_t count = 1 + random.below(3);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t from = random.below(scenario.ranks()), to = random.below(scenario.ranks());
    const bool both = random.percent(60);
    const MessageName name = scenario.message(
        from, to, {.bytes = 8, .tag = kTag + static_cast<int>(i), .ready = both && random.percent(50)});
    const bool send = both || random.percent(70);
    for (const RequestName request : {name.send, name.receive}) {
      if (!both && request.receive() == send)
        continue;
      const uint32_t first = random.below(epochs - 1), left = epochs - first - (both ? 0 : 1);
      idle.push_back({.request = request,
                      .rank = scenario.rank_of(request),
                      .first = first,
                      .last = first + 1 + random.below(left)});
    }
  }
}

// They have the tag of a message that programs match. A receive with any tag is offered its own
// message too, because all earlier messages have earlier receives.
void RandomMessages::draw_short(Scenario& scenario) {
  if (!random.percent(12) || has_wildcards(scenario))
    return;
  for (size_t i = 0; i < count(); ++i) {
    const Scenario::Message beside = scenario.messages()[i];
    if (!own[i] || beside.options.nobody || random.percent(50))
      continue;
    const uint32_t bytes = 1 + random.below(20);
    too_short.push_back({scenario.message(beside.from, beside.to,
                                          {.bytes = bytes,
                                           .tag = beside.options.tag,
                                           .lacking = 1 + random.below(bytes),
                                           .any_tag = random.percent(40)}),
                         i});
  }
}

void RandomMessages::draw_going(uint32_t epoch) {
  for (size_t i = 0; i < going.size(); ++i)
    going[i] = is_there(i, epoch) && (stands || random.percent(80));
  const uint32_t one = random.below(static_cast<uint32_t>(going.size()));
  going[one] = is_there(one, epoch);
}

std::vector<bool> RandomMessages::choose(uint32_t chance) const {
  std::vector<bool> chosen(going.size());
  for (size_t i = 0; i < chosen.size(); ++i)
    chosen[i] = random.percent(chance);
  return chosen;
}

namespace {

// ---- The world

// Draws everything but the carriers of operations and mail, which depend on the program.
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

// True if operations fail or processes die.
bool is_faulty(const WorldOptions& world) { return world.failures || world.kills; }

// Draws whether the core uses the driver over libfabric, and whether cards carry the mail.
// `stands`: the program has standing requests.
void draw_carriers(Random& random, WorldOptions& world, bool stands) {
  world.driver = !stands && world.bells == Bells::kCalls && world.in_flight == 0 && random.percent(50);
  // Operations without room run from the overflow, so failures occur there too.
  world.no_room = world.no_room || (world.driver && world.failures && random.percent(50));
  world.mail_by_card =
      !world.driver && !world.scarce && world.longest(0, 1) >= CardMail::kLeastMessageBytes && random.percent(60);
  world.cut_mail = world.mail_by_card && world.failures && random.percent(40);
}

// ---- The members of exchanges (transport/core/exchange.h)

// Returns the indices of the actions that match, start and wait for a request. Returns nothing if
// it cannot be a member.
std::optional<std::vector<size_t>> calls_of(const HostProgram& program, RequestName request) {
  using Kind = Action::Kind;
  std::vector<size_t> calls;
  bool captured = false;
  for (size_t i = 0; i < program.actions().size(); ++i) {
    const Action& action = program.actions()[i];
    captured = action.kind == Kind::kCapture || (captured && action.kind != Kind::kCaptured);
    if (action.refused || std::ranges::find(action.requests, request) == action.requests.end())
      continue;
    const bool starts = action.kind == Kind::kStart || action.kind == Kind::kWait;
    if (starts && captured)
      return std::nullopt;
    if (starts || action.kind == Kind::kMatch)
      calls.push_back(i);
    else if (action.kind != Kind::kMatched && action.kind != Kind::kComplete && action.kind != Kind::kFree)
      return std::nullopt;  // withdrawn, or given to kernels
  }
  return calls.empty() ? std::nullopt : std::optional(calls);
}

std::vector<RequestName> members_of(const Scenario& scenario, const Action& action, uint32_t number) {
  std::vector<RequestName> members = action.requests;
  std::erase_if(members, [&](RequestName each) { return scenario.merged(each) != number; });
  return members;
}

// Inserts, before a call for an exchange, the same call without one member. It must be refused.
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

// Draws a halo in which every rank has an exchange with two sets.
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

// May take some requests out of their exchanges, and add calls that lack a member.
void draw_parts(Scenario& scenario, Random& random, bool faulty) {
  if (random.percent(50))
    for (uint32_t alone = 1 + random.below(3); alone > 0; --alone)
      scenario.merge({random.below(static_cast<uint32_t>(2 * scenario.messages().size()))}, 0);
  for (uint32_t rank = 0; rank < scenario.ranks() && !faulty; ++rank)
    if (random.percent(30))
      call_in_part(scenario, random, rank, 1);
}

// Makes exchanges of requests that a program always matches, starts and waits for together. Before
// a rank blocks on a message, it must have started all receives of the same exchange.
// `faulty`: operations fail or processes die, so a call may be refused for another reason.
void draw_merged(Scenario& scenario, Random& random, bool faulty) {
  constexpr uint32_t kMembers = 80;                                                    // percentage of possible members
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

// The entries that the requests of any one rank need, at most, for one start of each.
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
  // Without overflow entries_of() is enough, if no request leaves entries on an old queue.
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
  // Salts: separate random numbers, so that these draws do not change the rest.
  constexpr uint64_t kAnother = 0x6d65726765;
  constexpr uint64_t kSets = 0x73657473;
  constexpr uint64_t kLate = 0x6c617465;
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
