// Requests over their life: freeing, words that are used again, and failures that are reported.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

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

// The NIC may still increment the word.
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
    EXPECT_EQ(next.send.done.base, next.send.done.read());
    EXPECT_EQ(next.send.clear_to_send_word.base, next.send.clear_to_send_word.read());
    for (uint64_t i = 1; i <= 3; ++i)
      iterate(next, 10 + i);
    EXPECT_EQ(next.send.done.read(), next.send.done.base + 3);
  }
  EXPECT_TRUE(again);
}

// ---- Failures

// The write completes all the same (N1), and is reported to its own queue, once.
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

}  // namespace
}  // namespace lanyard
