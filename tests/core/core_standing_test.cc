// Standing requests: how starts are counted, what a refusal leaves, captures, and entries
// without overflow.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tests/core/core_manual_job.h"
#include "transport/core/standing.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using nicsim::PacketKind;

constexpr uint64_t kBytes = 64;

// Rings like a kernel.
void ring(const Request& request) {
  const core::Standing& standing = *request.standing;
  const std::atomic_ref word(*standing.bell.word);
  if (standing.rings != nullptr) {
    word.store(++*standing.rings);
  } else {
    word.fetch_add(1);
  }
}
void count_on(const Request& request) { ++*request.standing->count; }

// ---- Counting starts

// Runs a function just before or just after a counter is read.
struct InterruptedNic final : nic::ForwardingNic {
  using ForwardingNic::ForwardingNic;
  Result<nic::CounterValue> read(nic::CounterId counter) override {
    if (counter == interrupted && before)
      std::exchange(before, nullptr)();
    const Result<nic::CounterValue> value = inner().read(counter);
    if (counter == interrupted && after)
      std::exchange(after, nullptr)();
    return value;
  }
  nic::CounterId interrupted;
  std::function<void()> before, after;
};

// A standing send of rank 0, and a receive of rank 1 that the test starts.
class StartsCounted : public ::testing::TestWithParam<bool> {
 protected:
  StartsCounted() {
    EXPECT_TRUE(works(job[0].queue->stand(sends())));
    nic->interrupted = send->trigger;
  }
  std::span<Request* const> sends() { return {&send, 1}; }
  core::StandingOrders& standing() { return job[0].endpoint.standing(); }
  void start_receive() {
    pair.start_receive();
    pair.wait_receive();
    job[1].stream.poll();
  }
  // Starts the receive. Its clear-to-send is held in the network.
  void hold() {
    fabric.held = [](const ModelFabric::Transit& transit) { return transit.packet.kind != PacketKind::kAck; };
    start_receive();
  }
  // Delivers the clear-to-send at the next read of the counter. Holds the write.
  void come_at_the_reading() {
    (GetParam() ? nic->after : nic->before) = [this] {
      fabric.held = [](const ModelFabric::Transit& transit) { return transit.packet.kind == PacketKind::kWrite; };
      fabric.quiesce();
    };
  }
  void run() {
    fabric.held = nullptr;
    fabric.quiesce();
    job[1].stream.poll();
    fabric.quiesce();
    EXPECT_TRUE(job[1].stream.poll());
  }

  std::optional<InterruptedNic> nic;
  ManualJob job{2, {.wrap = [this](uint32_t rank, nic::Nic& inner) -> nic::Nic& {
                  return rank == 0 ? nic.emplace(inner) : inner;
                }}};
  ModelFabric& fabric = job.fabric;
  Pair pair{job, 0, 1, kBytes};
  Request* const send = &pair.send;
};
INSTANTIATE_TEST_SUITE_P(ClearToSend, StartsCounted, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "AfterTheReading" : "BeforeTheReading"; });

// The trigger counts starts and clear-to-sends, the word only clear-to-sends. A clear-to-send
// arrives between the two reads.
TEST_P(StartsCounted, AClearToSendInBetweenIsNotAStart) {
  for (uint64_t i = 1; i <= 3; ++i) {
    hold();
    fabric.quiesce();
    come_at_the_reading();
    EXPECT_EQ(standing().started(*send), i - 1) << "a clear-to-send counts as a start";
    EXPECT_EQ(send->clear_to_send_word.count(), i) << "the clear-to-send has not arrived in between";
    ring(*send);
    run();
    count_on(*send);
    EXPECT_EQ(standing().started(*send), i);
    EXPECT_EQ(send->iterations_done(), i);
  }
  EXPECT_TRUE(works(job[0].queue->dismiss()));
  EXPECT_EQ(send->starts, 3u);
}

TEST_P(StartsCounted, AStartInFlightIsSeenDespiteAClearToSend) {
  for (uint64_t i = 1; i <= 3; ++i) {
    hold();
    ring(*send);
    fabric.quiesce();
    come_at_the_reading();
    EXPECT_EQ(standing().can_end(*send).code(), Code::kInvalidState);
    EXPECT_EQ(send->clear_to_send_word.count(), i) << "the clear-to-send has not arrived in between";
    EXPECT_EQ(standing().started(*send), i);
    EXPECT_EQ(job[0].queue->dismiss(sends()).code(), Code::kInvalidState);
    ASSERT_NE(send->standing, nullptr);
    run();
    count_on(*send);
    EXPECT_EQ(send->iterations_done(), i);
  }
  EXPECT_TRUE(works(job[0].queue->dismiss(sends())));
  EXPECT_EQ(send->starts, 3u);
}

// ---- All requests of a call end, or none

// Two pairs from rank 0 to rank 1. Rank 0's sends stand; its NIC accepts sums in its doorbells.
class Standing : public ::testing::Test {
 protected:
  explicit Standing(const ManualJobOptions& options = {.stream_calls = false})
      : job(2, options), a(job, 0, 1, kBytes, false, 1), b(job, 0, 1, kBytes, false, 2) {
    job.fabric.nic(0).mutable_caps().doorbell_totals = true;
  }
  core::Queue& queue() { return *job[0].queue; }
  core::StandingOrders& standing() { return job[0].endpoint.standing(); }
  Status stand(std::initializer_list<Request*> requests) { return queue().stand({requests.begin(), requests.size()}); }
  Status dismiss(std::initializer_list<Request*> requests) {
    return queue().dismiss({requests.begin(), requests.size()});
  }
  void receive(Pair& pair) {
    pair.start_receive();
    pair.wait_receive();
    run();
  }
  // Runs the streams, the NICs and the upkeep of standing requests.
  void run() {
    do {
      job.run();
    } while (standing().keep_up() > 0);
  }
  // A start by a kernel, and the rest of its iteration.
  void iterate(Pair& pair, uint64_t seed) {
    fill(pair.send, seed);
    ring(pair.send);
    receive(pair);
    count_on(pair.send);
    EXPECT_TRUE(holds(pair.receive, seed));
  }
  // The same with a start by the host.
  void iterate_by_host(Pair& pair, uint64_t seed) {
    fill(pair.send, seed);
    pair.start_send();
    pair.wait_send();
    receive(pair);
    EXPECT_TRUE(holds(pair.receive, seed));
  }

  ManualJob job;
  Pair a, b;
};

TEST_F(Standing, ARequestInFlightKeepsTheOthersStanding) {
  ASSERT_TRUE(works(stand({&a.send, &b.send})));
  iterate(a, 1);
  ring(b.send);
  run();
  const nic::Usage usage = job[0].nic().usage();
  const uint32_t free_entries = job[0].nic().free_entries();
  const uint64_t held = standing().held();
  const auto refused = [&](const Status& status) {
    EXPECT_EQ(status.code(), Code::kInvalidState);
    EXPECT_TRUE(has(status, b.send.describe()));
    for (const Pair* pair : {&a, &b}) {
      EXPECT_NE(pair->send.standing, nullptr);
      EXPECT_EQ(pair->send.listed, &queue());
      EXPECT_EQ(pair->send.starts, 0u);
    }
    EXPECT_EQ(job[0].stream.counts, 4) << "expected a ring count and a wait count per request";
    EXPECT_EQ(standing().held(), held);
    EXPECT_EQ(job[0].nic().usage().counters, usage.counters);
    EXPECT_EQ(job[0].nic().usage().regions, usage.regions);
    EXPECT_EQ(job[0].nic().free_entries(), free_entries);
  };
  refused(dismiss({&a.send, &b.send}));
  refused(dismiss({&b.send, &a.send}));
  refused(queue().dismiss());
  // The refused calls changed nothing.
  iterate(a, 2);
  refused(dismiss({&a.send, &b.send}));
  receive(b);
  count_on(b.send);
  iterate(b, 3);
  EXPECT_TRUE(works(queue().dismiss()));
  EXPECT_EQ(a.send.starts, 2u);
  EXPECT_EQ(b.send.starts, 2u);
  EXPECT_EQ(job[0].stream.counts, 0);
  iterate_by_host(a, 4);
  iterate_by_host(b, 5);
}

TEST_F(Standing, WithoutACountNothingStands) {
  const nic::Usage before = job[0].nic().usage();
  for (const int left : {0, 1, 2, 3}) {
    job[0].stream.most_counts = left;
    EXPECT_EQ(stand({&a.send, &b.send}).code(), Code::kExhausted);
    job[0].stream.capture = 1;
    EXPECT_EQ(job[0].start({&a.send, &b.send}).code(), Code::kExhausted);
    job[0].stream.capture = 0;
    EXPECT_TRUE(job[0].stream.captured.empty());
    for (const Pair* pair : {&a, &b})
      EXPECT_EQ(pair->send.standing, nullptr);
    EXPECT_EQ(job[0].stream.counts, 0);
    EXPECT_EQ(job[0].nic().usage().counters, before.counters);
  }
  // The same if the stream refuses the capture.
  job[0].stream.most_counts = 1000;
  job[0].stream.full = true;
  job[0].stream.capture = 1;
  EXPECT_EQ(job[0].start({&a.send, &b.send}).code(), Code::kAgain);
  job[0].stream.full = false;
  job[0].stream.capture = 0;
  EXPECT_EQ(a.send.standing, nullptr);
  EXPECT_EQ(job[0].stream.counts, 0);
  EXPECT_EQ(job[0].nic().usage().counters, before.counters);
  iterate_by_host(a, 1);
}

// ---- Entries that fire without a start

// The clear-to-sends of a released receive fire entries that were posted ahead. Their done word
// is never reused.
TEST_F(Standing, EntriesThatFireWithoutAStartTouchNoOtherWord) {
  ASSERT_TRUE(works(stand({&a.send})));
  for (int start = 0; start < 2; ++start) {
    a.start_receive();
    a.wait_receive();
  }
  job[1].endpoint.release(a.receive);
  const core::WordPool::Word done = a.send.done;
  job.fabric.held = [&done](const ModelFabric::Transit& transit) {
    return transit.packet.kind == PacketKind::kAtomic && transit.from == 0 && transit.to == 0 &&
           transit.packet.key == done.key.value && transit.packet.offset == done.offset;
  };
  job.run();
  EXPECT_EQ(job.fabric.under_way(), 1u) << "expected a completed write whose done word is held";
  ASSERT_TRUE(works(queue().dismiss()));
  EXPECT_EQ(a.send.starts, 0u);
  EXPECT_EQ(job[0].start({&a.send}).code(), Code::kFailed) << "completions cannot be assigned to starts any more";
  EXPECT_EQ(a.send.starts, 0u);
  EXPECT_EQ(job[0].endpoint.take_failed(queue()), nullptr) << "no start has failed";
  ASSERT_TRUE(works(job[0].endpoint.free_request(&a.send)));

  Pair later(job, 0, 1, kBytes, false, 3);
  iterate_by_host(later, 1);
  job.fabric.held = nullptr;
  run();
  EXPECT_EQ(later.send.iterations_done(), 1u);
}

// ---- Abandoned captures

class AbandonedCapture : public Standing {
 protected:
  // Captures a start without its wait.
  void give_up(Pair& pair) {
    job[0].stream.capture = ++captures_;
    pair.start_send();
    EXPECT_EQ(queue().unwaited(), 1u);
    EXPECT_EQ(queue().dismiss().code(), Code::kInvalidState) << "its wait may still be captured";
    EXPECT_EQ(job[0].endpoint.free_request(&pair.send).code(), Code::kInvalidState);
    EXPECT_NE(pair.send.standing, nullptr);
    EXPECT_EQ(queue().unwaited(), 1u);
    job[0].stream.capture = 0;
  }
  // Captures an iteration and replays it three times.
  void capture_and_replay(Pair& pair) {
    job[0].stream.captured.clear();
    job[0].stream.capture = ++captures_;
    pair.start_send();
    pair.wait_send();
    job[0].stream.capture = 0;
    EXPECT_EQ(queue().unwaited(), 0u);
    for (uint64_t i = 1; i <= 3; ++i) {
      fill(pair.send, 10 * captures_ + i);
      job[0].stream.replay();
      receive(pair);
      EXPECT_TRUE(job[0].stream.empty());
      EXPECT_TRUE(holds(pair.receive, 10 * captures_ + i));
    }
  }

 private:
  uint64_t captures_ = 0;
};

TEST_F(AbandonedCapture, ItsRequestsBecomeOrdinary) {
  give_up(a);
  EXPECT_TRUE(works(queue().dismiss()));
  EXPECT_EQ(a.send.standing, nullptr);
  EXPECT_EQ(queue().unwaited(), 0u);
  EXPECT_EQ(job[0].endpoint.find_unwaited(queue()), nullptr);
  EXPECT_EQ(job[0].stream.counts, 0);
  iterate_by_host(a, 1);
  capture_and_replay(a);
  capture_and_replay(b);
  EXPECT_TRUE(works(queue().dismiss()));
}

TEST_F(AbandonedCapture, TwoCapturesOfARequestTakeTurns) {
  iterate_by_host(a, 1);
  std::vector<gpu::StreamOp> captures[2];
  for (auto& capture : captures) {
    capture_and_replay(a);
    capture = job[0].stream.captured;
  }
  for (uint64_t i = 0; i < 6; ++i) {
    fill(a.send, 100 + i);
    job[0].stream.captured = captures[i % 2];
    job[0].stream.replay();
    receive(a);
    EXPECT_TRUE(holds(a.receive, 100 + i));
  }
  EXPECT_TRUE(works(queue().dismiss()));
  EXPECT_EQ(a.send.starts, 13u);
  iterate_by_host(a, 2);
}

// Another capture begins; the abandoned one is over all the same.
TEST_F(AbandonedCapture, DoesNotBlockTheNextCapture) {
  give_up(a);
  job[0].stream.captured.clear();
  job[0].stream.capture = 100;
  EXPECT_EQ(job[0].start({&b.send}).code(), Code::kInvalidState) << "the abandoned capture lacks a wait";
  EXPECT_EQ(b.send.standing, nullptr);
  EXPECT_TRUE(works(dismiss({&a.send})));
  EXPECT_TRUE(works(job[0].start({&b.send})));
  EXPECT_EQ(queue().unwaited(), 1u);
  EXPECT_TRUE(works(job[0].wait({&b.send})));
  EXPECT_EQ(queue().unwaited(), 0u);
  job[0].stream.capture = 0;
  fill(b.send, 1);
  job[0].stream.replay();
  receive(b);
  EXPECT_TRUE(holds(b.receive, 1));
  EXPECT_TRUE(works(queue().dismiss()));
  iterate_by_host(a, 2);
}

TEST_F(AbandonedCapture, AnInvalidCaptureIsRefused) {
  job[0].stream.capture = 1;
  EXPECT_EQ(job[0].wait({&a.send}).code(), Code::kInvalidState) << "there is no start to wait for";
  EXPECT_TRUE(works(job[0].start({&a.send})));
  EXPECT_EQ(job[0].start({&a.send}).code(), Code::kInvalidState) << "a second start before the wait";
  EXPECT_EQ(job[0].stream.captured.size(), 1u);
  job[0].stream.capture = 0;
  EXPECT_EQ(job[0].wait({&a.send}).code(), Code::kInvalidState) << "the start was captured, not made";
}

// A receive from a ready send posts nothing when started: only its bell shows the start.
TEST(StandingReady, AReceiveWhoseSenderIsFreedFails) {
  for (const core::Strategy strategy : core::kStrategies) {
    ManualJob job(2, {.stream_calls = false, .strategy = strategy});
    job.fabric.nic(1).mutable_caps().doorbell_totals = true;
    Pair pair(job, 0, 1, kBytes, true);
    ManualJob::Rank& receiver = pair.receiver;
    receiver.stream.capture = 1;
    pair.start_receive();
    pair.wait_receive();
    receiver.stream.capture = 0;
    EXPECT_TRUE(works(pair.sender.matcher.free(pair.send)));
    job.match();
    EXPECT_EQ(receiver.endpoint.take_failed(*receiver.queue), nullptr) << "it has not been started";
    receiver.stream.replay();
    job.run();
    receiver.endpoint.fail_requests_of_lost_peers();
    ASSERT_EQ(receiver.endpoint.take_failed(*receiver.queue), &pair.receive);
    EXPECT_EQ(receiver.endpoint.explain_failure(pair.receive), "rank 0 has freed its request");
    EXPECT_FALSE(receiver.stream.empty()) << "its wait must pass only after the release";
    receiver.endpoint.release(pair.receive);
    job.run();
    EXPECT_TRUE(receiver.stream.empty());
  }
}

// ---- Without overflow

// Eight entries: one iteration each of four standing sends.
class WithoutOverflow : public Standing {
 protected:
  WithoutOverflow()
      : Standing({.limits = {.deferred_depth = 8}, .overflow = false, .stream_calls = false}),
        c(job, 0, 1, kBytes, false, 3),
        d(job, 0, 1, kBytes, false, 4),
        e(job, 0, 1, kBytes, false, 5) {}
  uint64_t used() { return 8 - job[0].nic().free_entries(); }

  Pair c, d, e;
};

TEST_F(WithoutOverflow, MoreThanTheNicHasCannotStand) {
  ASSERT_TRUE(works(stand({&a.send, &b.send, &c.send})));
  const nic::Usage usage = job[0].nic().usage();
  const uint64_t held = standing().held();
  const Status status = stand({&d.send, &e.send});
  EXPECT_EQ(status.code(), Code::kExhausted);
  for (const char* fact : {"10", "8", "overflow"})
    EXPECT_TRUE(has(status, fact));
  EXPECT_EQ(d.send.standing, nullptr) << "part of the refused call stands";
  EXPECT_EQ(e.send.standing, nullptr);
  EXPECT_EQ(job[0].stream.counts, 6) << "expected two counts per standing request";
  EXPECT_EQ(standing().held(), held);
  EXPECT_EQ(job[0].nic().usage().counters, usage.counters);
  ASSERT_TRUE(works(stand({&d.send})));
  for (Pair* pair : {&a, &b, &c, &d})
    iterate(*pair, 1);
  EXPECT_TRUE(works(queue().dismiss()));
  EXPECT_EQ(standing().held(), 0u);
  EXPECT_EQ(used(), 0u);
  for (Pair* pair : {&a, &b, &c, &d, &e})
    iterate_by_host(*pair, 2);
}

// A start that can never fit beside the entries of standing requests is refused at once.
TEST_F(WithoutOverflow, OrdinaryStartsUseTheRemainingEntries) {
  ASSERT_TRUE(works(stand({&a.send, &b.send, &c.send})));
  EXPECT_EQ(standing().held(), 6u);
  EXPECT_EQ(used(), 6u);
  const uint64_t epoch = job[0].queue->epoch_entries();
  const Status status = job[0].start({&d.send, &e.send});
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_TRUE(has(status, "4 deferred-work entries, the NIC has 2"));
  EXPECT_EQ(d.send.starts, 0u);
  EXPECT_EQ(job[0].queue->epoch_entries(), epoch);
  EXPECT_TRUE(job[0].stream.empty());
  iterate_by_host(d, 1);
  iterate_by_host(e, 1);
  iterate(a, 2);
  EXPECT_TRUE(works(dismiss({&c.send})));
  EXPECT_EQ(standing().held(), 4u);
  ASSERT_TRUE(works(job[0].start({&d.send, &e.send})));
  ASSERT_TRUE(works(job[0].wait({&d.send, &e.send})));
  receive(d);
  receive(e);
  EXPECT_TRUE(job[0].stream.empty());
  EXPECT_TRUE(works(queue().dismiss()));
}

}  // namespace
}  // namespace lanyard
