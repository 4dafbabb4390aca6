// Refinement: the deterministic engine's books accept what threaded NICs did under real traffic,
// and refuse every violation planted in it.
#include "nicsim/deterministic/refinement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nicsim/threaded/trace.h"
#include "tests/core/core_local_job.h"

namespace lanyard {
namespace {

using nicsim::Trace;
using nicsim::TraceEvent;
using Kind = TraceEvent::Kind;

struct Setting {
  std::string name;
  uint32_t ranks = 2;
  uint32_t depth = 504;
  bool helpers = true;
  LocalOptions::Wire wire = LocalOptions::Wire::kShm;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

nicsim::ModelLimits limits_of(const Setting& setting) {
  return {.deferred_depth = setting.depth, .max_message_bytes = 1'000};
}

struct Link {
  uint32_t from = 0, to = 0;
  bool ready = false;
  Request& send;
  Request& receive;
  uint64_t started = 0;
};

// Until no NIC has done anything for a while.
void quiesce(LocalFabric& fabric) {
  constexpr int kQuietRounds = 50;
  uint64_t seen = 0;
  for (int quiet = 0; quiet < kQuietRounds; ++quiet) {
    fabric.progress_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    uint64_t activity = 0;
    for (size_t rank = 0; rank < fabric.size(); ++rank)
      activity += fabric.nic(rank).activity();
    if (std::exchange(seen, activity) != activity)
      quiet = 0;
  }
}

// Every rank sends to every rank, itself included, a thread a rank.
void exchange(LocalJob& job, uint64_t iterations) {
  std::vector<std::unique_ptr<Link>> links;
  for (uint32_t from = 0; from < job.size(); ++from)
    for (uint32_t to = 0; to < job.size(); ++to)
      for (int tag = 0; tag < 4; ++tag) {
        const bool ready = tag % 2 != 0;
        const uint64_t bytes = 600u * static_cast<uint64_t>(tag);
        links.push_back(
            std::make_unique<Link>(Link{from, to, ready, job[from].send(static_cast<int>(to), tag, bytes, ready),
                                        job[to].receive(static_cast<int>(from), tag, bytes)}));
      }
  job.match();
  const auto run = [&](uint32_t which) {
    LocalJob::Rank& rank = job[which];
    std::vector<Request*> receives, sends, all;
    for (const auto& link : links) {
      if (link->to == which)
        receives.push_back(&link->receive);
      if (link->from == which)
        sends.push_back(&link->send);
    }
    all = receives;
    all.insert(all.end(), sends.begin(), sends.end());
    for (uint64_t i = 1; i <= iterations; ++i) {
      rank.start(receives);
      for (const auto& link : links)  // a ready send is one once the receive has started
        if (link->to == which && link->ready)
          rank.enqueue({.kind = gpu::StreamOp::Kind::kWrite64, .word = &link->started, .value = i});
      for (const auto& link : links)
        if (link->from == which && link->ready)
          rank.enqueue({.kind = gpu::StreamOp::Kind::kWait64, .word = &link->started, .value = i});
      rank.start(sends);
      rank.wait(all);
      if (i % 3 == 0)
        rank.synchronize();
    }
    rank.synchronize();
  };
  {
    std::vector<std::jthread> hosts;
    for (uint32_t rank = 0; rank < job.size(); ++rank)
      hosts.emplace_back(run, rank);
  }
  for (const auto& link : links) {
    EXPECT_TRUE(works(job[link->from].endpoint.free_request(&link->send)));
    EXPECT_TRUE(works(job[link->to].endpoint.free_request(&link->receive)));
  }
}

Trace record(const Setting& setting, uint64_t iterations) {
  nicsim::TraceLogs logs;
  {
    LocalJobOptions options;
    options.local.limits = limits_of(setting);
    options.local.wire = setting.wire;
    options.local.traces = &logs;
    options.helpers = setting.helpers;
    LocalJob job(setting.ranks, options);
    exchange(job, iterations);
    quiesce(job.fabric);
  }
  return logs.merged(/*quiesced=*/true);
}

size_t count(const Trace& trace, Kind kind) {
  return static_cast<size_t>(std::count_if(trace.events.begin(), trace.events.end(),
                                           [kind](const TraceEvent& event) { return event.kind == kind; }));
}

class Traffic : public ::testing::TestWithParam<Setting> {};

TEST_P(Traffic, IsAccepted) {
  constexpr uint64_t kIterations = 40;
  const Trace trace = record(GetParam(), kIterations);
  EXPECT_TRUE(works(nicsim::accept(trace, limits_of(GetParam()))));
  // The trace is that of the traffic, and all of it.
  const uint64_t messages = kIterations * 4 * GetParam().ranks * GetParam().ranks;
  EXPECT_GT(count(trace, Kind::kRang), 0u);
  EXPECT_GT(count(trace, Kind::kArrived), messages);
  EXPECT_EQ(count(trace, Kind::kArrived), count(trace, Kind::kCompleted));
  EXPECT_EQ(count(trace, Kind::kPosted), count(trace, Kind::kFired));
  EXPECT_EQ(count(trace, Kind::kIssued), count(trace, Kind::kStarted));
  EXPECT_EQ(count(trace, Kind::kIssued) > 0, GetParam().depth < 100) << "the overflow issues";
}

INSTANTIATE_TEST_SUITE_P(Refinement, Traffic,
                         ::testing::Values(Setting{.name = "OneRank", .ranks = 1}, Setting{.name = "TwoRanks"},
                                           Setting{.name = "ThreeRanks", .ranks = 3},
                                           Setting{.name = "Alone", .ranks = 3, .helpers = false},
                                           Setting{.name = "FiveEntries", .ranks = 2, .depth = 5},
                                           Setting{.name = "Tcp", .ranks = 2, .wire = LocalOptions::Wire::kTcp}),
                         [](const auto& info) { return info.param.name; });

// ---- Planted violations

using Events = std::vector<TraceEvent>;

bool of_one_counter(const TraceEvent& a, const TraceEvent& b) { return a.nic == b.nic && a.counter == b.counter; }
bool is_other_ranks(const TraceEvent& event) {
  return event.kind == Kind::kArrived && event.counter.valid() && event.peer != event.nic;
}
// The last event of which that holds.
template <typename Pred>
size_t last(const Events& events, Pred pred) {
  size_t found = events.size();
  for (size_t i = 0; i < events.size(); ++i)
    if (pred(events[i]))
      found = i;
  EXPECT_LT(found, events.size()) << "the traffic has no such event";
  return found;
}
size_t last(const Events& events, Kind kind) {
  return last(events, [kind](const TraceEvent& event) { return event.kind == kind; });
}
// The step that started the operation of an arrival or a completion.
size_t start_of(const Events& events, size_t of, uint32_t initiator) {
  size_t at = of;
  while (at-- > 0)
    if (events[at].kind == Kind::kFired && events[at].nic == initiator && events[at].token == events[of].token)
      return at;
  ADD_FAILURE() << "nothing started it";
  return 0;
}
// The next firing of the same counter, or the end.
size_t next_firing(const Events& events, size_t firing) {
  size_t next = firing + 1;
  while (next < events.size() && (events[next].kind != Kind::kFired || !of_one_counter(events[next], events[firing])))
    ++next;
  return next;
}
void erase(Events& events, size_t at) { events.erase(events.begin() + static_cast<ptrdiff_t>(at)); }
void move_to(Events& events, size_t from, size_t to) {
  const TraceEvent event = events[from];
  erase(events, from);
  events.insert(events.begin() + static_cast<ptrdiff_t>(to), event);
}

::testing::AssertionResult says(const std::string& message, const std::string& words) {
  if (message.find(words) != std::string::npos)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "instead of \"" << words << "\": " << message;
}

class Planted : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { trace_ = std::make_unique<Trace>(record(kSetting, 10)); }
  static void TearDownTestSuite() { trace_.reset(); }

  void SetUp() override { ASSERT_TRUE(works(nicsim::accept(*trace_, limits_of(kSetting)))); }
  static void expect_refused(const std::function<void(Events&)>& plant, const std::string& words) {
    Trace trace = *trace_;
    plant(trace.events);
    EXPECT_TRUE(says(nicsim::accept(trace, limits_of(kSetting)).message(), words));
  }

  static const Setting kSetting;
  static std::unique_ptr<Trace> trace_;
};
const Setting Planted::kSetting{.name = "Planted", .ranks = 3};
std::unique_ptr<Trace> Planted::trace_;

TEST_F(Planted, DroppedFiring) {
  expect_refused(
      [](Events& events) {
        // One after which its counter fires nothing before the message has arrived.
        size_t arrival = events.size();
        size_t firing = 0;
        do {
          events.resize(arrival);
          arrival = last(events, is_other_ranks);
          firing = start_of(events, arrival, events[arrival].peer);
        } while (next_firing(events, firing) < arrival);
        erase(events, firing);
      },
      "no operation has fired that goes there");
}

TEST_F(Planted, SkippedFiring) {
  expect_refused(
      [](Events& events) {
        // One after which its counter fires another entry before the message has arrived.
        size_t arrival = 0;
        size_t firing = 0;
        do {
          ++arrival;
          ASSERT_LT(arrival, events.size()) << "the traffic has no such firing";
          if (is_other_ranks(events[arrival]))
            firing = start_of(events, arrival, events[arrival].peer);
        } while (!is_other_ranks(events[arrival]) || next_firing(events, firing) > arrival);
        erase(events, firing);
      },
      "before its turn (N2)");
}

TEST_F(Planted, EndBeforeTheLastFiring) {
  expect_refused([](Events& events) { events.resize(last(events, Kind::kFired)); },
                 "an entry should have fired and did not (N1)");
}

TEST_F(Planted, DoubledFiring) {
  expect_refused(
      [](Events& events) {
        const size_t firing = last(events, Kind::kFired);
        events.insert(events.begin() + static_cast<ptrdiff_t>(firing), events[firing]);
      },
      "or twice (N1)");
}

TEST_F(Planted, SwappedFirings) {
  expect_refused(
      [](Events& events) {
        const size_t second = last(events, [](const TraceEvent& event) {
          return event.kind == Kind::kFired && event.value > 2 && event.op.moves_data();
        });
        size_t first = second;
        while (first-- > 0)
          if (events[first].kind == Kind::kFired && of_one_counter(events[first], events[second]) &&
              events[first].value != events[second].value)
            break;
        ASSERT_LT(first, second);
        std::swap(events[first].value, events[second].value);
        std::swap(events[first].op, events[second].op);
      },
      "before its turn (N2)");
}

TEST_F(Planted, LoweredRing) {
  expect_refused([](Events& events) { events[last(events, Kind::kRang)].value = 0; },
                 "before its counter had reached the threshold");
}

TEST_F(Planted, OtherOperation) {
  expect_refused([](Events& events) { ++events[last(events, Kind::kFired)].op.bytes; },
                 "something else than was posted");
}

TEST_F(Planted, DroppedCompletion) {
  expect_refused([](Events& events) { erase(events, last(events, Kind::kCompleted)); },
                 "an operation never completed (N5)");
}

TEST_F(Planted, DoubledCompletion) {
  expect_refused(
      [](Events& events) {
        const size_t completion = last(events, Kind::kCompleted);
        events.insert(events.begin() + static_cast<ptrdiff_t>(completion), events[completion]);
      },
      "the operation never fired, or has completed before (N5)");
}

TEST_F(Planted, CompletionBeforeTheCount) {
  expect_refused(
      [](Events& events) {
        const size_t arrival = last(events, is_other_ranks);
        const TraceEvent& counted = events[arrival];
        size_t completion = arrival;
        while (events[completion].kind != Kind::kCompleted || events[completion].nic != counted.peer ||
               events[completion].token != counted.token)
          ++completion;
        move_to(events, completion, arrival);
      },
      "the target has not counted the operation yet (N5)");
}

TEST_F(Planted, CountBeforeItsFiring) {
  expect_refused(
      [](Events& events) {
        const size_t arrival = last(events, is_other_ranks);
        move_to(events, arrival, start_of(events, arrival, events[arrival].peer));
      },
      "no operation has fired that goes there");
}

TEST_F(Planted, DoubledCount) {
  expect_refused(
      [](Events& events) {
        const size_t arrival = last(events, is_other_ranks);
        events.insert(events.begin() + static_cast<ptrdiff_t>(arrival), events[arrival]);
      },
      "the message was counted before (N4)");
}

TEST_F(Planted, CountOfAnotherCounter) {
  expect_refused([](Events& events) { ++events[last(events, is_other_ranks)].counter.value; },
                 "another counter than its region's");
}

TEST_F(Planted, RegionThatIsGone) {
  expect_refused(
      [](Events& events) {
        const size_t arrival = last(events, is_other_ranks);
        const TraceEvent& firing = events[start_of(events, arrival, events[arrival].peer)];
        const TraceEvent gone{
            .kind = Kind::kDeregistered, .nic = events[arrival].nic, .value = firing.op.remote.key.value};
        events.insert(events.begin() + static_cast<ptrdiff_t>(arrival), gone);
      },
      "not registered (N8)");
}

// ---- What the traffic does not do

// Counter operations, failures, a reset and a flush of one NIC.
Trace record_calls() {
  nicsim::TraceLogs logs;
  {
    LocalOptions options;
    options.traces = &logs;
    LocalFabric fabric(1, options);
    nic::Nic& nic = fabric.nic(0);
    const nic::CounterId trigger = nic.open_counter().value();
    const nic::CounterId target = nic.open_counter().value();
    const auto post = [&](nic::OpKind kind, uint64_t threshold, uint64_t value) {
      nic::DeferredOp entry;
      entry.op.kind = kind;
      entry.op.counter = target;
      entry.op.value = value;
      entry.trigger = trigger;
      entry.threshold = threshold;
      EXPECT_TRUE(works(nic.post({&entry, 1})));
    };
    post(nic::OpKind::kCounterAdd, 2, 5);
    post(nic::OpKind::kCounterSet, 5, 1);
    EXPECT_TRUE(works(nic.add(trigger, 2)));
    EXPECT_TRUE(works(nic.add_error(trigger, 3)));
    while (nic.free_entries() < nic.caps().deferred_depth)
      nic.progress();
    EXPECT_EQ(nic.read(target).value().success, 1u);
    EXPECT_TRUE(works(nic.reset(trigger)));
    EXPECT_EQ(nic.read(trigger).value().reached(), 0u);
    post(nic::OpKind::kCounterAdd, 1, 1);
    EXPECT_TRUE(works(nic.flush()));
    EXPECT_TRUE(works(nic.close_counter(trigger)));
  }
  return logs.merged(/*quiesced=*/true);
}
// What is said of the trace of those calls without the last event of that kind.
std::string without(Kind kind) {
  Trace trace = record_calls();
  erase(trace.events, last(trace.events, kind));
  return nicsim::accept(trace, {}).message();
}

TEST(Calls, AreAccepted) { EXPECT_TRUE(works(nicsim::accept(record_calls(), {}))); }

TEST(Calls, AreAllNeeded) {
  EXPECT_TRUE(says(without(Kind::kAdded), "before its counter had reached the threshold"));
  EXPECT_TRUE(says(without(Kind::kAddedFailures), "before its counter had reached the threshold"));
  EXPECT_TRUE(says(without(Kind::kReset), "does not hold what was counted"));
  EXPECT_TRUE(says(without(Kind::kFlushed), "entries that have not fired"));
  EXPECT_TRUE(says(without(Kind::kOpened), "no such counter is open"));
}

// NIC 0 issues two writes to NIC 1, and loses it between them.
class LostPeer : public ::testing::Test {
 protected:
  void lose() {
    nic::Op write;
    write.completion = kCompletion;
    write.remote.peer = 1;
    from_.write({.kind = Kind::kOpened, .counter = kCompletion});
    from_.write({.kind = Kind::kIssued, .op = write});
    from_.write({.kind = Kind::kStarted, .token = 0});
    from_.write({.kind = Kind::kPeerLost, .peer = 1});
    from_.write({.kind = Kind::kIssued, .op = write});
  }
  std::string verdict() { return nicsim::accept(logs_.merged(/*quiesced=*/true), {}).message(); }

  static constexpr nic::CounterId kCompletion{0};
  nicsim::TraceLogs logs_;
  nicsim::TraceLog& from_ = logs_.add();
  nicsim::TraceLog& to_ = logs_.add();
};

TEST_F(LostPeer, FailsWhatIsUnderWayAndWhatComesLater) {
  lose();
  from_.write({.kind = Kind::kStarted});
  from_.write({.kind = Kind::kRead, .counter = kCompletion, .failures = 2});
  to_.write({.kind = Kind::kArrived, .peer = 0, .token = 0});  // was on its way
  EXPECT_EQ(verdict(), "");
}

TEST_F(LostPeer, IsSentNothingMore) {
  lose();
  from_.write({.kind = Kind::kStarted, .token = 0});
  EXPECT_TRUE(says(verdict(), "the operation goes where nothing can"));
}

TEST_F(LostPeer, CountsOnce) {
  lose();
  from_.write({.kind = Kind::kStarted});
  to_.write({.kind = Kind::kArrived, .peer = 0, .token = 0});
  to_.write({.kind = Kind::kArrived, .peer = 0, .token = 0});
  EXPECT_TRUE(says(verdict(), "no operation has fired that goes there"));
}

TEST_F(LostPeer, CompletesNothingMore) {
  lose();
  from_.write({.kind = Kind::kCompleted, .peer = 1, .token = 0});
  EXPECT_TRUE(says(verdict(), "has completed before"));
}

TEST_F(LostPeer, LeavesNothingIssued) {
  lose();
  EXPECT_TRUE(says(verdict(), "should have started and did not"));
}

}  // namespace
}  // namespace lanyard
