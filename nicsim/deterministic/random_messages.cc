#include "nicsim/deterministic/random_messages.h"

#include <algorithm>

namespace lanyard::nicsim {

namespace {

constexpr uint32_t kMostMessages = 6, kMostQueues = 3;
// Now and then there are more than the first size of the core's tables, between the same two ranks and with one tag.
constexpr uint32_t kMany = 9, kManyMore = 4;
// Of ready pairs that may be started by graphs and kernels, where a program has such: percent.
constexpr uint32_t kStandingReady = 50;

bool has_wildcards(const Scenario& scenario) {
  const auto& messages = scenario.messages();
  return std::any_of(messages.begin(), messages.end(),
                     [](const Scenario::Message& each) { return each.options.any_source || each.options.any_tag; });
}

}  // namespace

void RequestPlan::pack(HostProgram& host) const {
  if (checked && !request.receive())
    host.on(queue).pack(message);
}
void RequestPlan::promise(HostProgram& host) const {
  if (ready && request.receive())
    host.on(queue).promise(message);
}
void RequestPlan::unpack(HostProgram& host) const {
  if (checked && request.receive())
    host.unpack(message);
}
void RequestPlan::wait_for(HostProgram& host) {
  if (!std::exchange(under_way, false))
    return;
  host.on(queue).wait({request});
  unpack(host);
}

// Lengths at which something changes: nothing, words, whole pieces, and one off.
uint32_t RandomMessages::draw_bytes(const WorldOptions& world) {
  const auto piece = static_cast<uint32_t>(std::min<uint64_t>(world.max_message_bytes, 16));
  return random_.one_of({0u, 1u, 7u, 8u, 16u, piece - 1, piece, piece + 1, 2 * piece - 1, 2 * piece, 2 * piece + 1});
}

// A wildcard where nothing else can be meant.
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
    all[i].any_source = only_tag && !others_wild && random_.percent(25);
    all[i].any_tag = !all[i].any_source && only_source && !others_wild && random_.percent(25);
  }
}

void RandomMessages::draw(Scenario& scenario, const WorldOptions& world) {
  const bool many = random_.percent(3);
  const uint32_t count = many ? kMany + random_.below(kManyMore) : 1 + random_.below(kMostMessages);
  std::vector<std::pair<uint32_t, uint32_t>> ends;
  std::vector<MessageOptions> all;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t from = random_.below(scenario.ranks());
    const uint32_t to =
        random_.percent(10) ? from : (from + 1 + random_.below(std::max(scenario.ranks(), 2u) - 1)) % scenario.ranks();
    ends.push_back(many && i > 0 ? ends.front() : std::pair(from, to));
    all.push_back({.bytes = draw_bytes(world),
                   .tag = many || random_.percent(25) ? 0 : static_cast<int>(i) + 1,
                   .ready = random_.percent(30),
                   .room = random_.percent(25) ? 1 + random_.below(20) : 0,
                   .send_gaps = random_.percent(20),
                   .receive_gaps = random_.percent(20)});
  }
  draw_wildcards(ends, all);
  for (MessageOptions& each : all) {
    each.nobody = random_.percent(8);
    if (each.nobody)
      each.ready = each.any_source = each.any_tag = each.send_gaps = each.receive_gaps = false;
  }
  for (uint32_t rank = 0; rank < scenario.ranks(); ++rank)
    queues_.push_back(1 + random_.below(kMostQueues));
  for (uint32_t i = 0; i < count; ++i) {
    const MessageName name = scenario.message(ends[i].first, ends[i].second, all[i]);
    const bool checked = random_.percent(85);
    const bool soon = stands_ && all[i].ready && ends[i].first < ends[i].second && random_.percent(kStandingReady);
    for (const RequestName request : {name.send, name.receive}) {
      const uint32_t rank = scenario.rank_of(request);
      const bool gaps = request.receive() ? all[i].receive_gaps : all[i].send_gaps;
      plans_[rank].push_back({.request = request,
                              .message = name,
                              .ready = all[i].ready,
                              .checked = checked,
                              .gaps = gaps,
                              .soon = soon,
                              .may_stand = !all[i].ready || soon,
                              .queue = random_.below(queues_[rank])});
    }
  }
  going_.assign(count, false);
}

// Some messages are matched by the programs, the others before. Where something may fail, some are matched only when
// others have gone and been freed, and may get what those had; none is matched twice, as nobody knows how far the other
// side of what failed has come.
void RandomMessages::draw_lives(uint32_t epochs, bool faulty) {
  own_ = choose(40);
  lives_.assign(count(), {0, epochs});
  for (size_t i = 0; faulty && i < count(); ++i) {
    if (own_[i])
      lives_[i].first = random_.below(epochs);
    if (random_.percent(40))
      lives_[i].second = lives_[i].first + 1 + random_.below(epochs);
  }
}

// With tags of their own.
void RandomMessages::draw_idle(Scenario& scenario, uint32_t epochs) {
  constexpr int kTag = 100;
  if (epochs < 2 || !random_.percent(20) || has_wildcards(scenario))
    return;
  const uint32_t count = 1 + random_.below(3);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t from = random_.below(scenario.ranks()), to = random_.below(scenario.ranks());
    const bool both = random_.percent(60);
    const MessageName name = scenario.message(
        from, to, {.bytes = 8, .tag = kTag + static_cast<int>(i), .ready = both && random_.percent(50)});
    const bool send = both || random_.percent(70);
    for (const RequestName request : {name.send, name.receive}) {
      if (!both && request.receive() == send)
        continue;
      const uint32_t first = random_.below(epochs - 1), left = epochs - first - (both ? 0 : 1);
      idle_.push_back({.request = request,
                       .rank = scenario.rank_of(request),
                       .first = first,
                       .last = first + 1 + random_.below(left)});
    }
  }
}

// With the tag of a message that programs match. A receive of any tag gets its own, too, where all earlier ones have
// receives before it.
void RandomMessages::draw_short(Scenario& scenario) {
  if (!random_.percent(12) || has_wildcards(scenario))
    return;
  for (size_t i = 0; i < count(); ++i) {
    const Scenario::Message beside = scenario.messages()[i];
    if (!own_[i] || beside.options.nobody || random_.percent(50))
      continue;
    const uint32_t bytes = 1 + random_.below(20);
    short_.push_back({scenario.message(beside.from, beside.to,
                                       {.bytes = bytes,
                                        .tag = beside.options.tag,
                                        .lacking = 1 + random_.below(bytes),
                                        .any_tag = random_.percent(40)}),
                      i});
  }
}

void RandomMessages::draw_going(uint32_t epoch) {
  for (size_t i = 0; i < going_.size(); ++i)
    going_[i] = lives(i, epoch) && (stands_ || random_.percent(80));
  const uint32_t one = random_.below(static_cast<uint32_t>(going_.size()));
  going_[one] = lives(one, epoch);
}

std::vector<bool> RandomMessages::choose(uint32_t chance) {
  std::vector<bool> chosen(going_.size());
  for (size_t i = 0; i < chosen.size(); ++i)
    chosen[i] = random_.percent(chance);
  return chosen;
}

}  // namespace lanyard::nicsim
