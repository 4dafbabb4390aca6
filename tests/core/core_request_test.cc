// Requests over their life: freeing, words that are used again, and failures that are reported.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/core/core_manual_job.h"

namespace lanyard {
namespace {

using nicsim::PacketKind;

constexpr uint64_t kBytes = 64;

class RequestLife : public ::testing::Test {
 protected:
  static Status free(ManualJob::Rank& rank, Request& request) { return rank.endpoint.free_request(&request); }
  void iterate(Pair& pair, uint64_t seed) {
    fill(pair.send, seed);
    pair.start_receive();
    job.run();
    pair.start_send();
    pair.wait_send();
    pair.wait_receive();
    job.run();
    EXPECT_TRUE(holds(pair.receive, seed));
  }

  ManualJob job{3};
};

// An increment that was on its way when a failure was told may land in the word at any later time.
TEST_F(RequestLife, TheWordOfWhatWasLetGoOfIsNobodysAgain) {
  Pair pair(job, 0, 1, kBytes, false, 8);
  const uint64_t* const word = pair.send.done.address;
  pair.start_send();
  pair.wait_send();
  job[0].endpoint.release(pair.send);
  ASSERT_TRUE(works(free(job[0], pair.send)));
  for (int tag = 100; tag < 140; ++tag)
    EXPECT_NE(job[0].send(1, tag, kBytes).done.address, word);
  job.run();
}

// Its stream may have rings of it yet, which must not count for another.
TEST_F(RequestLife, TheTriggerOfWhatWasLetGoOfIsNobodysWhileItsStreamMayRingIt) {
  Pair pair(job, 0, 1, kBytes, false, 8);
  const nic::CounterId trigger = pair.send.trigger;
  pair.start_send();
  pair.wait_send();
  job[0].endpoint.release(pair.send);
  ASSERT_FALSE(job[0].stream.empty());
  ASSERT_TRUE(works(free(job[0], pair.send)));
  EXPECT_NE(job[0].send(1, 100, kBytes).trigger, trigger);
  EXPECT_EQ(job[0].endpoint.unclosed(), 1u);
  job.run();
  ASSERT_TRUE(job[0].stream.empty()) << "the wait for it passes";
  EXPECT_EQ(job[0].send(1, 101, kBytes).trigger, trigger);
  EXPECT_EQ(job[0].endpoint.unclosed(), 0u);
}

// As long as anything is still to come, freeing is refused; and a refusal changes nothing.
TEST_F(RequestLife, IsNotFreedBeforeItIsOver) {
  Request& matching = job[0].send(1, 7, kBytes);
  EXPECT_EQ(free(job[0], matching).code(), Code::kInvalidState);
  Request& receive = job[1].receive(0, 7, kBytes);
  job.match();
  Pair pair(job, 0, 1, kBytes, false, 8);
  const nic::Usage usage = job[0].nic().usage();
  const auto refused = [&](ManualJob::Rank& rank, Request& request) {
    const Status status = free(rank, request);
    EXPECT_EQ(status.code(), Code::kInvalidState);
    EXPECT_NE(status.message().find(request.describe()), std::string::npos) << status.message();
    EXPECT_EQ(rank.endpoint.find(request.number), &request);
  };
  pair.start_send();
  refused(job[0], pair.send);
  job.run();
  refused(job[0], pair.send);
  pair.wait_send();
  refused(job[0], pair.send);
  job.fabric.held = [](const ModelFabric::Transit& transit) { return transit.packet.kind == PacketKind::kWrite; };
  pair.start_receive();
  job.run();
  refused(job[0], pair.send);
  refused(job[1], pair.receive);
  job.fabric.held = [](const ModelFabric::Transit& transit) { return transit.from == transit.to; };
  job.run();
  refused(job[0], pair.send);
  job.fabric.held = nullptr;
  job.run();
  refused(job[1], pair.receive);  // complete, and not waited for
  EXPECT_EQ(job[0].nic().usage().counters, usage.counters);
  EXPECT_EQ(job[0].nic().usage().regions, usage.regions);
  EXPECT_TRUE(works(free(job[0], pair.send)));
  pair.wait_receive();
  EXPECT_TRUE(works(free(job[1], pair.receive)));
  EXPECT_TRUE(works(free(job[0], matching))) << "matched, and never started";
  EXPECT_TRUE(works(free(job[1], receive)));
}

TEST_F(RequestLife, FreeingGivesEverythingBack) {
  {
    Pair warm(job, 0, 1, kBytes);  // the first ones register the slabs of words
    ASSERT_TRUE(works(free(job[0], warm.send)));
    ASSERT_TRUE(works(free(job[1], warm.receive)));
  }
  std::vector<nic::Usage> before;
  for (uint32_t rank = 0; rank < 2; ++rank)
    before.push_back(job[rank].nic().usage());
  for (int round = 0; round < 50; ++round) {
    for (const bool ready : {false, true}) {
      Pair pair(job, 0, 1, kBytes, ready);
      if (round % 3 != 0)
        iterate(pair, 1);
      const uint64_t number = pair.send.number;
      ASSERT_TRUE(works(free(job[0], pair.send)));
      ASSERT_TRUE(works(free(job[1], pair.receive)));
      EXPECT_EQ(job[0].endpoint.find(number), nullptr);
    }
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(job[rank].nic().usage().counters, before[rank].counters);
      ASSERT_EQ(job[rank].nic().usage().regions, before[rank].regions);
    }
  }
  EXPECT_TRUE(job[0].queue->settled());
}

// Once an endpoint has all the words it needs, it takes no more memory or regions for them.
TEST_F(RequestLife, WordsAreUsedAgain) {
  Pair first(job, 0, 1, kBytes);
  uint64_t* const word = first.send.done.address;
  for (uint64_t i = 1; i <= 3; ++i)
    iterate(first, i);
  ASSERT_TRUE(works(free(job[0], first.send)));
  ASSERT_TRUE(works(free(job[1], first.receive)));
  bool again = false;
  for (int round = 0; round < 4 && !again; ++round) {
    Pair next(job, 0, 1, kBytes);
    again = next.send.done.address == word || next.send.clear_to_send_word.address == word;
    EXPECT_EQ(next.send.done_base, next.send.done.read());
    EXPECT_EQ(next.send.clear_to_send_base, next.send.clear_to_send_word.read());
    for (uint64_t i = 1; i <= 3; ++i)
      iterate(next, 10 + i);
    EXPECT_EQ(next.send.done.read(), next.send.done_base + 3);
  }
  EXPECT_TRUE(again);
}

// A word that a stream has still to look at is freed and used again: the old wait passes, the new
// one does not pass too soon. (A word that was set back to 0 would hold up the first for ever.)
TEST_F(RequestLife, ALateWaiterIsNotMisled) {
  Pair old(job, 0, 1, kBytes);
  fill(old.send, 1);
  uint64_t gate = 0;
  const gpu::StreamOp closed{.kind = gpu::StreamOp::Kind::kWait64, .word = &gate, .value = 1};
  old.start_receive();
  old.start_send();
  job.run();
  ASSERT_TRUE(works(job[0].stream.enqueue({&closed, 1})));
  old.wait_send();  // the stream gets there only when the word has another user
  old.wait_receive();
  job.run();
  uint64_t* const word = old.send.done.address;
  ASSERT_TRUE(works(free(job[0], old.send)));
  ASSERT_TRUE(works(free(job[1], old.receive)));

  // The other stream has a queue of its own, so it can get ahead of the one that is held up.
  ManualStream ahead;
  const auto queue = std::move(core::Queue::create(job[0].endpoint, ahead).value());
  std::vector<Pair> pairs;  // until one gets the word that was freed
  do
    pairs.emplace_back(job, 0, 2, kBytes);
  while (pairs.back().send.done.address != word && pairs.size() < 4);
  Pair& next = pairs.back();
  ASSERT_EQ(next.send.done.address, word);
  Request* const send[] = {&next.send};
  ASSERT_TRUE(works(queue->start(send)));
  ASSERT_TRUE(works(queue->wait(send)));
  job.run();
  EXPECT_FALSE(ahead.poll()) << "the previous user's completions are not this one's";
  EXPECT_FALSE(queue->settled());
  gate = 1;
  job.run();
  EXPECT_TRUE(job[0].stream.empty()) << "the late waiter";
  EXPECT_FALSE(ahead.poll());
  next.start_receive();
  do
    job.run();
  while (!ahead.poll() && job.fabric.under_way() > 0);
  EXPECT_TRUE(ahead.poll());
  EXPECT_TRUE(queue->settled());
}

// ---- Failures

// The peer's receive is gone: the ready send's write fails, completes all the same (N1), and is
// reported to its own queue, once.
TEST_F(RequestLife, AFailedWriteNamesItsRequest) {
  ManualStream stream;
  const auto other = std::move(core::Queue::create(job[0].endpoint, stream).value());
  Pair bystander(job, 0, 2, kBytes, true, 1);
  Pair pair(job, 0, 1, kBytes, true, 2);
  iterate(bystander, 1);
  iterate(pair, 2);
  core::Queue& queue = *job[0].queue;
  EXPECT_EQ(job[0].endpoint.take_failed(queue), nullptr);
  ASSERT_TRUE(works(free(job[1], pair.receive)));
  pair.start_send();
  pair.wait_send();
  job.run();
  EXPECT_TRUE(job[0].stream.empty()) << "a failure fires the chain";
  EXPECT_EQ(job[0].endpoint.take_failed(*other), nullptr);
  const Request* failed = job[0].endpoint.take_failed(queue);
  ASSERT_EQ(failed, &pair.send);
  EXPECT_EQ(failed->failures, 1u);
  EXPECT_EQ(failed->failure_code, Code::kNotFound);
  EXPECT_EQ(job[0].endpoint.take_failed(queue), nullptr) << "told once";
  EXPECT_EQ(bystander.send.failures, 0u);
  EXPECT_TRUE(works(free(job[0], pair.send)));
}

// The receiver did not count what failed, so the pair would be out of step for ever.
TEST_F(RequestLife, WhatHasFailedStartsNoMore) {
  Pair bystander(job, 0, 2, kBytes, true, 1);
  Pair pair(job, 0, 1, kBytes, true, 2);
  ASSERT_TRUE(works(free(job[1], pair.receive)));
  pair.start_send();
  pair.wait_send();
  job.run();
  const Status status = job[0].start({&bystander.send, &pair.send});
  EXPECT_EQ(status.code(), Code::kFailed);
  EXPECT_NE(status.message().find("tag 2"), std::string::npos) << status.message();
  EXPECT_FALSE(bystander.send.needs_wait()) << "all or none";
  EXPECT_EQ(job[0].endpoint.take_failed(*job[0].queue), &pair.send) << "and is still told";
  EXPECT_TRUE(works(free(job[0], pair.send)));
  iterate(bystander, 1);
}

// The NIC keeps a limited number of records; that more failed must not get lost.
TEST_F(RequestLife, FailuresWithoutARecordAreCounted) {
  core::Endpoint& endpoint = job[0].endpoint;
  nic::Nic& nic = job[0].nic();
  constexpr uint64_t kKept = 1024, kMore = 3;
  nic::Op op;
  op.kind = nic::OpKind::kWrite;
  op.local.region = nic.register_region(nullptr, 0).value();
  op.remote.peer = 1;  // with a key that nobody has
  for (uint64_t i = 0; i < kKept + kMore; ++i) {
    ASSERT_TRUE(works(nic.issue(op)));
    job.settle();
  }
  EXPECT_EQ(endpoint.take_failed(*job[0].queue), nullptr) << "nobody's";
  EXPECT_EQ(endpoint.take_unrecorded_failures(), kMore);
  EXPECT_EQ(endpoint.take_unrecorded_failures(), 0u) << "told once";
  ASSERT_TRUE(works(nic.issue(op)));
  job.settle();
  EXPECT_EQ(endpoint.take_unrecorded_failures(), 0u) << "there is room for records again";
}

// Who frees a request before hearing of its failure is told that there was one.
TEST_F(RequestLife, AFailureIsToldThoughItsRequestIsFreed) {
  Pair pair(job, 0, 1, kBytes, true, 2);
  ASSERT_TRUE(works(free(job[1], pair.receive)));
  pair.start_send();
  pair.wait_send();
  job.run();
  ASSERT_TRUE(works(free(job[0], pair.send)));
  EXPECT_EQ(job[0].endpoint.take_failed(*job[0].queue), nullptr) << "there is nobody to name";
  EXPECT_EQ(job[0].endpoint.take_unrecorded_failures(), 1u);
  EXPECT_EQ(job[0].endpoint.take_unrecorded_failures(), 0u) << "told once";
}

// The sender is gone: the clear-to-send fails, and it is the receive that is named.
TEST_F(RequestLife, AFailedClearToSendNamesItsRequest) {
  Pair pair(job, 0, 1, kBytes);
  iterate(pair, 1);
  ASSERT_TRUE(works(free(job[0], pair.send)));
  pair.start_receive();
  pair.wait_receive();
  job.run();
  EXPECT_FALSE(job[1].stream.empty());
  ASSERT_EQ(job[1].endpoint.take_failed(*job[1].queue), &pair.receive);
  EXPECT_EQ(pair.receive.failure_code, Code::kNotFound);
  EXPECT_EQ(job[0].endpoint.take_failed(*job[0].queue), nullptr);
}

TEST_F(RequestLife, ALostPeerFailsWhatIsUnderWayToIt) {
  Pair lost(job, 0, 1, kBytes, false, 1);
  Pair fine(job, 0, 2, kBytes, false, 1);
  fill(fine.send, 3);
  lost.start_receive();
  fine.start_receive();
  job.run();
  job.fabric.held = [](const ModelFabric::Transit& transit) { return transit.packet.kind == PacketKind::kWrite; };
  ASSERT_TRUE(works(job[0].start({&lost.send, &fine.send})));
  ASSERT_TRUE(works(job[0].wait({&lost.send, &fine.send})));
  job.run();
  job.fabric.lose(0, 1);
  job.fabric.held = nullptr;
  job.run();
  EXPECT_TRUE(job[0].stream.empty());
  EXPECT_TRUE(holds(fine.receive, 3));
  ASSERT_EQ(job[0].endpoint.take_failed(*job[0].queue), &lost.send);
  EXPECT_EQ(lost.send.failure_code, Code::kFailed);
  EXPECT_EQ(job[0].endpoint.take_failed(*job[0].queue), nullptr);
}

// What failed and was freed since is nobody's any more.
TEST_F(RequestLife, AFreedRequestIsNotReported) {
  Pair pair(job, 0, 1, kBytes, true);
  ASSERT_TRUE(works(free(job[1], pair.receive)));
  pair.start_send();
  pair.wait_send();
  job.run();
  ASSERT_EQ(job[0].nic().failures(), 1u);
  ASSERT_TRUE(works(free(job[0], pair.send)));
  EXPECT_EQ(job[0].endpoint.take_failed(*job[0].queue), nullptr);
}

}  // namespace
}  // namespace lanyard
