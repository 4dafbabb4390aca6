#include "bench/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace lanyard::bench {
namespace {

uint64_t aligned(uint64_t bytes) {
  return (bytes + Pattern::kAlignment - 1) / Pattern::kAlignment * Pattern::kAlignment;
}

// Messages that are steps, and what is combined after each.
class PlanBuilder {
 public:
  void step() { messages_.emplace_back(), combines_.emplace_back(); }
  void message(const Message& m) { messages_.back().push_back(m); }
  void combine(const Combine& c) { combines_.back().push_back(c); }

  // Steps without a message are left out.
  Result<Plan> take() {
    std::vector<Step> steps;
    for (size_t i = 0; i < messages_.size(); ++i) {
      Result<Pattern> pattern = Pattern::of(std::move(messages_[i]));
      if (!pattern.ok())
        return pattern.status();
      if (!pattern.value().messages().empty())
        steps.push_back({std::move(pattern.value()), std::move(combines_[i])});
    }
    return Plan(std::move(steps));
  }

 private:
  std::vector<std::vector<Message>> messages_;
  std::vector<std::vector<Combine>> combines_;
};

// The rounds of a tree: in round j each of the first 2^j ranks has one that it reaches.
int rounds(int ranks) {
  int count = 0;
  while ((1 << count) < ranks)
    ++count;
  return count;
}

void broadcast_by_tree(PlanBuilder& plan, int ranks, uint64_t bytes) {
  for (int round = 0; round < rounds(ranks); ++round) {
    plan.step();
    for (int r = 1 << round; r < std::min(2 << round, ranks); ++r)
      plan.message({r - (1 << round), r, 0, 0, bytes});
  }
}

void reduce_by_tree(PlanBuilder& plan, int ranks, uint64_t bytes) {
  const uint64_t slot = aligned(bytes);
  for (int round = rounds(ranks) - 1; round >= 0; --round) {
    plan.step();
    for (int r = 1 << round; r < std::min(2 << round, ranks); ++r) {
      plan.message({r, r - (1 << round), 0, slot, bytes});
      plan.combine({r - (1 << round), 0, slot, bytes});
    }
  }
}

}  // namespace

Plan::Plan(std::vector<Step> steps) : steps_(std::move(steps)) {
  for (const Step& step : steps_)
    for (const Combine& c : step.combines) {
      LANYARD_CHECK(c.rank >= 0 && c.rank < Pattern::kMostRanks, "a combining rank is one");
      LANYARD_CHECK(c.bytes <= Pattern::kMostMemory && std::max(c.to, c.from) <= Pattern::kMostMemory - c.bytes,
                    "what is combined is in memory");
      LANYARD_CHECK(c.to + c.bytes <= c.from || c.from + c.bytes <= c.to, "what is combined does not overlap");
    }
}

int Plan::ranks() const {
  int most = 0;
  for (const Step& step : steps_) {
    most = std::max(most, step.pattern.ranks());
    for (const Combine& c : step.combines)
      most = std::max(most, c.rank + 1);
  }
  return most;
}

uint64_t Plan::memory(int rank) const {
  uint64_t most = 0;
  for (const Step& step : steps_) {
    most = std::max(most, step.pattern.memory(rank));
    for (const Combine& c : step.combines)
      if (c.rank == rank)
        most = std::max(most, std::max(c.to, c.from) + c.bytes);
  }
  return most;
}

uint64_t Plan::bytes() const {
  uint64_t sum = 0;
  for (const Step& step : steps_)
    sum += step.pattern.bytes();
  return sum;
}

uint64_t Plan::messages() const {
  uint64_t sum = 0;
  for (const Step& step : steps_)
    sum += step.pattern.messages().size();
  return sum;
}

bool Plan::combines() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return !step.combines.empty(); });
}

std::vector<uint64_t> Plan::matrix(int ranks) const {
  std::vector<uint64_t> sum(static_cast<size_t>(ranks) * static_cast<size_t>(ranks));
  for (const Step& step : steps_) {
    const std::vector<uint64_t> part = step.pattern.matrix(ranks);
    std::transform(sum.begin(), sum.end(), part.begin(), sum.begin(), std::plus<>());
  }
  return sum;
}

Plan Plan::within(int group) const {
  std::vector<Step> steps;
  for (const Step& step : steps_)
    steps.push_back({step.pattern.within(group)});
  return Plan(std::move(steps));
}

Plan Plan::between(int group) const {
  std::vector<Step> steps;
  for (const Step& step : steps_)
    steps.push_back({step.pattern.between(group)});
  return Plan(std::move(steps));
}

Plan Plan::then(const Plan& next) const {
  std::vector<Step> steps = steps_;
  steps.insert(steps.end(), next.steps_.begin(), next.steps_.end());
  return Plan(std::move(steps));
}

Result<Plan> Plan::beside(const Plan& other) const {
  uint64_t behind = 0;
  for (int rank = 0; rank < ranks(); ++rank)
    behind = std::max(behind, aligned(memory(rank)));
  std::vector<Step> steps = steps_;
  steps.resize(std::max(steps.size(), other.steps_.size()));
  for (size_t i = 0; i < other.steps_.size(); ++i) {
    const Result<Pattern> moved = other.steps_[i].pattern.shifted(behind);
    if (!moved.ok())
      return moved.status();
    Result<Pattern> both = steps[i].pattern.with(moved.value());
    if (!both.ok())
      return both.status();
    steps[i].pattern = std::move(both.value());
    for (Combine c : other.steps_[i].combines) {
      c.to += behind;
      c.from += behind;
      steps[i].combines.push_back(c);
    }
  }
  return Plan(std::move(steps));
}

Outcome outcome(const Plan& plan, int ranks, int times) {
  LANYARD_CHECK(ranks >= plan.ranks(), "an outcome has all ranks of its plan");
  Outcome result;
  for (int rank = 0; rank < ranks; ++rank)
    result.memories.emplace_back(rank, plan.memory(rank));
  const auto memory = [&](int rank) -> Contents& { return result.memories[static_cast<size_t>(rank)]; };
  const auto read = [&](int rank, uint64_t offset, uint64_t bytes) {
    std::vector<Piece> pieces = memory(rank).read(offset, bytes);
    result.read.insert(result.read.end(), pieces.begin(), pieces.end());
    return pieces;
  };
  for (int i = 0; i < times; ++i)
    for (const Step& step : plan.steps()) {
      for (const Message& m : step.pattern.messages())
        memory(m.destination).write(m.destination_offset, read(m.source, m.source_offset, m.bytes));
      for (const Combine& c : step.combines)
        memory(c.rank).write(c.to, combined(read(c.rank, c.to, c.bytes), read(c.rank, c.from, c.bytes)));
    }
  return result;
}

Result<Plan> make_collective(Collective collective, int ranks, uint64_t bytes) {
  if (ranks < 2 || ranks > Pattern::kMostRanks)
    return Status(Code::kInvalidArgument,
                  fmt::format("a collective of {} ranks: it has 2 to {}", ranks, Pattern::kMostRanks));
  if (bytes < 1 || bytes > Pattern::kMostBytes)
    return Status(Code::kInvalidArgument,
                  fmt::format("{} bytes, and a message has 1 to {}", bytes, Pattern::kMostBytes));
  const uint64_t messages = static_cast<uint64_t>(ranks) * static_cast<uint64_t>(ranks);
  if (collective == Collective::kAllToAll && messages > Pattern::kMostMessages)
    return Status(Code::kInvalidArgument,
                  fmt::format("{} messages: {} are the most", messages, Pattern::kMostMessages));
  const auto block = [&](int i) { return static_cast<uint64_t>(i) * aligned(bytes); };
  PlanBuilder plan;
  if (collective == Collective::kBroadcastTree) {
    broadcast_by_tree(plan, ranks, bytes);
    return plan.take();
  }
  if (collective == Collective::kReduceTree) {
    reduce_by_tree(plan, ranks, bytes);
    return plan.take();
  }
  plan.step();
  for (int r = 0; r < ranks; ++r) {
    for (int s = 0; collective == Collective::kAllToAll && s < ranks; ++s)
      plan.message({r, s, block(s), block(ranks + r), bytes});
    if (r == 0)
      continue;
    if (collective == Collective::kBroadcast)
      plan.message({0, r, 0, 0, bytes});
    if (collective == Collective::kScatter)
      plan.message({0, r, block(r), 0, bytes});
    if (collective == Collective::kGather || collective == Collective::kReduce)
      plan.message({r, 0, 0, block(r), bytes});
    if (collective == Collective::kReduce)
      plan.combine({0, 0, block(r), bytes});
  }
  return plan.take();
}

std::vector<uint64_t> even_stripes(uint64_t bytes, int stripes) {
  const uint64_t count = static_cast<uint64_t>(stripes);
  std::vector<uint64_t> sizes(count, bytes / count);
  std::for_each_n(sizes.begin(), bytes % count, [](uint64_t& size) { ++size; });
  return sizes;
}

Result<Plan> make_direct(int group, uint64_t bytes) {
  if (group < 1 || group > Pattern::kMostRanks / 2)
    return Status(Code::kInvalidArgument,
                  fmt::format("nodes of {} ranks: they have 1 to {}", group, Pattern::kMostRanks / 2));
  Result<Pattern> pattern = Pattern::of({{0, group, 0, aligned(bytes), bytes}});
  if (!pattern.ok())
    return pattern.status();
  return Plan(std::move(pattern.value()));
}

Result<Plan> make_striped(std::span<const uint64_t> stripes) {
  const int group = static_cast<int>(stripes.size());
  if (group < 1 || stripes.size() > static_cast<size_t>(Pattern::kMostRanks / 2))
    return Status(Code::kInvalidArgument, fmt::format("{} stripes: there are 1 to {}, one a rank of a node",
                                                      stripes.size(), Pattern::kMostRanks / 2));
  uint64_t bytes = 0;
  for (const uint64_t stripe : stripes) {
    if (stripe > Pattern::kMostBytes)
      return Status(Code::kInvalidArgument,
                    fmt::format("a stripe of {} bytes: the most is {}", stripe, Pattern::kMostBytes));
    bytes += stripe;
  }
  if (bytes == 0)
    return Status(Code::kInvalidArgument, "no stripe has a byte");
  const uint64_t target = aligned(bytes);
  PlanBuilder split, translate, assemble;
  for (PlanBuilder* plan : {&split, &translate, &assemble})
    plan->step();
  uint64_t offset = 0;
  for (int i = 0; i < group; ++i) {
    const uint64_t stripe = stripes[static_cast<size_t>(i)];
    if (stripe > 0 && i == 0)
      translate.message({0, group, 0, target, stripe});
    if (stripe > 0 && i > 0) {
      split.message({0, i, offset, 0, stripe});
      translate.message({i, group + i, 0, 0, stripe});
      assemble.message({group + i, group, 0, target + offset, stripe});
    }
    offset += stripe;
  }
  Plan all;
  for (PlanBuilder* plan : {&split, &translate, &assemble}) {
    const Result<Plan> part = plan->take();
    if (!part.ok())
      return part.status();
    all = all.then(part.value());
  }
  return all;
}

}  // namespace lanyard::bench
