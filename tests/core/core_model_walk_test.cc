// NicModel on long random walks, beside an oracle that keeps plain lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "nicsim/model/nic_model.h"

namespace lanyard::nicsim {
namespace {

using nic::CounterId;
using nic::CounterValue;
using nic::kMaxFailure;

// What nic.h says about counters and entries (N1, N2, N5, N6), without linked lists or pools.
class Oracle {
 public:
  struct Entry {
    uint64_t id = 0;
    size_t trigger = 0;
    size_t completion = 0;
    uint64_t threshold = 0;
  };
  static constexpr size_t kCounters = 5;

  void post(const Entry& entry) {
    auto& list = waiting_[entry.trigger];
    const auto after =
        std::find_if(list.begin(), list.end(), [&](const Entry& other) { return other.threshold > entry.threshold; });
    list.insert(after, entry);
    release(entry.trigger);
  }
  void advance(size_t counter, uint64_t success, uint32_t failure) {
    values_[counter].success += success;
    values_[counter].failure = std::min(kMaxFailure, values_[counter].failure + failure);
    release(counter);
  }
  void reset(size_t counter) { values_[counter] = {}; }
  Entry fire() {
    const Entry entry = ready_.front();
    ready_.pop_front();
    return entry;
  }
  void flush() {
    ready_.clear();
    for (auto& list : waiting_)
      list.clear();
  }

  const std::deque<Entry>& ready() const { return ready_; }
  CounterValue value(size_t counter) const { return values_[counter]; }
  size_t waiting_on(size_t counter) const { return waiting_[counter].size(); }
  size_t waiting() const {
    size_t count = 0;
    for (const auto& list : waiting_)
      count += list.size();
    return count;
  }

 private:
  void release(size_t counter) {
    auto& list = waiting_[counter];
    while (!list.empty() && list.front().threshold <= values_[counter].reached()) {
      ready_.push_back(list.front());
      list.erase(list.begin());
    }
  }

  std::array<CounterValue, kCounters> values_{};
  std::array<std::vector<Entry>, kCounters> waiting_;
  std::deque<Entry> ready_;
};

class Walk {
 public:
  Walk(uint64_t seed, const ModelLimits& limits) : random_(seed), limits_(limits), model_(limits, 0) {
    for (CounterId& counter : counters_)
      counter = model_.open_counter().value();
    region_ = model_.register_region(&word_, sizeof word_, {}).value();
  }

  void step() {
    const size_t counter = random_() % Oracle::kCounters;
    switch (random_() % 16) {
      case 0:
      case 1:
      case 2:
      case 3: return post(counter);
      case 4:
      case 5: return add(counter, random_() % 4);
      case 6: {
        const auto errors = static_cast<uint32_t>(random_() % 3);
        const bool fits = errors <= kMaxFailure - oracle_.value(counter).failure;
        ASSERT_EQ(model_.add_error(counters_[counter], errors).ok(), fits);
        if (fits)
          oracle_.advance(counter, 0, errors);
        return;
      }
      case 7:
        if (random_() % 8 != 0)
          return;
        ASSERT_TRUE(model_.reset(counters_[counter]).ok());
        return oracle_.reset(counter);
      case 8:
        if (random_() % 64 != 0)
          return;
        model_.flush();
        return oracle_.flush();
      case 9:
      case 10:
      case 11: return fire();
      case 12: return issue(counter);
      default: return complete();
    }
  }

  // Every entry is free, waiting or ready; and the two agree on everything that can be seen.
  void check() {
    ASSERT_EQ(model_.free_entries() + oracle_.waiting() + oracle_.ready().size(), limits_.deferred_depth);
    ASSERT_EQ(model_.in_flight(), flights_.size());
    for (size_t i = 0; i < Oracle::kCounters; ++i) {
      ASSERT_EQ(model_.read(counters_[i]).value(), oracle_.value(i)) << "counter " << i;
      ASSERT_EQ(model_.waiting_on(counters_[i]), oracle_.waiting_on(i)) << "counter " << i;
    }
    ASSERT_EQ(model_.ready().has_value(), !oracle_.ready().empty() && flights_.size() < limits_.max_in_flight);
    std::optional<uint32_t> at = model_.ready();
    if (!at)
      return;
    for (const Oracle::Entry& entry : oracle_.ready()) {
      ASSERT_TRUE(at.has_value());
      ASSERT_EQ(model_.trigger_of(*at), counters_[entry.trigger]);
      at = model_.next_ready(*at);
    }
    ASSERT_FALSE(at.has_value());
  }

  uint64_t fired() const { return fired_; }

 private:
  struct Flight {
    uint32_t token = 0;
    size_t completion = 0;
  };

  nic::Op op(uint64_t id, size_t completion) {
    nic::Op op;
    op.kind = nic::OpKind::kAtomic;
    op.completion = counters_[completion];
    op.local = {region_, 0};
    op.remote = {1, {}, 8 * id};
    return op;
  }
  void post(size_t trigger) {
    if (model_.free_entries() == 0)
      return;
    const uint64_t reached = oracle_.value(trigger).reached();
    const Oracle::Entry entry{.id = ++ids_,
                              .trigger = trigger,
                              .completion = random_() % Oracle::kCounters,
                              .threshold = reached + random_() % 12 - std::min<uint64_t>(reached, 3)};
    model_.post({.op = op(entry.id, entry.completion), .trigger = counters_[trigger], .threshold = entry.threshold});
    oracle_.post(entry);
  }
  void add(size_t counter, uint64_t value) {
    if (random_() % 2 == 0)
      model_.ring(counters_[counter], value);
    else
      ASSERT_TRUE(model_.add(counters_[counter], value).ok());
    oracle_.advance(counter, value, 0);
  }
  void fire() {
    const std::optional<uint32_t> entry = model_.ready();
    if (!entry)
      return;
    const std::optional<Launch> launch = model_.fire(*entry);
    const Oracle::Entry expected = oracle_.fire();
    ASSERT_TRUE(launch.has_value());
    ASSERT_EQ(launch->packet.offset / 8, expected.id);
    flights_.push_back({launch->packet.token, expected.completion});
    ++fired_;
  }
  void issue(size_t completion) {
    if (!model_.room_in_flight())
      return;
    flights_.push_back({model_.issue(op(0, completion))->packet.token, completion});
  }
  void complete() {
    if (flights_.empty())
      return;
    std::swap(flights_[random_() % flights_.size()], flights_.back());
    const Flight flight = flights_.back();
    flights_.pop_back();
    const bool good = random_() % 16 != 0;
    model_.complete(
        {.kind = PacketKind::kAck, .code = good ? Code::kOk : Code::kNotFound, .source = 1, .token = flight.token});
    oracle_.advance(flight.completion, good ? 1 : 0, good ? 0 : 1);
  }

  std::mt19937_64 random_;
  const ModelLimits limits_;
  NicModel model_;
  Oracle oracle_;
  std::array<CounterId, Oracle::kCounters> counters_;
  uint64_t word_ = 1;
  nic::RegionId region_;
  std::vector<Flight> flights_;
  uint64_t ids_ = 0;
  uint64_t fired_ = 0;
};

// How many entries fired.
uint64_t walk(const ModelLimits& limits, uint64_t seed, int steps) {
  Walk walk(seed, limits);
  for (int i = 0; i < steps; ++i) {
    walk.step();
    walk.check();
    if (!::testing::Test::HasFatalFailure())
      continue;
    ADD_FAILURE() << "seed " << seed << " step " << i;
    break;
  }
  return walk.fired();
}

TEST(NicModelWalk, OneHundredThousandSteps) {
  EXPECT_GT(walk({.deferred_depth = 12, .max_in_flight = 5}, 1, 100'000), 10'000u);
}

TEST(NicModelWalk, ManySeedsAndLimits) {
  uint64_t fired = 0;
  for (uint64_t seed = 2; seed < 50 && !HasFatalFailure(); ++seed)
    fired += walk(
        {.deferred_depth = static_cast<uint32_t>(1 + seed % 20), .max_in_flight = static_cast<uint32_t>(1 + seed % 7)},
        seed, 1'000);
  EXPECT_GT(fired, 1'000u) << "the walks hardly tested anything";
}

}  // namespace
}  // namespace lanyard::nicsim
