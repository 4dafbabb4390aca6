// Requests over their lifetime: freeing, reuse of words, reports of failures, and resources that
// the NIC does not close.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/contract/local_fabric.h"
#include "tests/core/core_manual_job.h"
#include "tests/core/core_process.h"
#include "transport/core/resources.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

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
TEST_F(RequestLife, TheWordOfAReleasedRequestIsNeverReused) {
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

TEST_F(RequestLife, TheTriggerOfAReleasedRequestIsKeptWhileItsStreamMayRing) {
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
  ASSERT_TRUE(job[0].stream.empty()) << "the released request's wait must pass";
  EXPECT_EQ(job[0].send(1, 101, kBytes).trigger, trigger);
  EXPECT_EQ(job[0].endpoint.unclosed(), 0u);
}

// free() is refused while anything is still to come: see also the mistakes freed-in-flight and
// freed-before-unpacked of tools/mutants.txt. A refusal changes nothing.
TEST_F(RequestLife, IsNotFreedBeforeItIsDone) {
  Request& matching = job[0].send(1, 7, kBytes);
  EXPECT_EQ(free(job[0], matching).code(), Code::kInvalidState);
  job[1].receive(0, 7, kBytes);
  job.match();
  Pair pair(job, 0, 1, kBytes, false, 8);
  pair.start_send();
  pair.wait_send();
  pair.start_receive();
  const Status status = free(job[0], pair.send);
  EXPECT_EQ(status.code(), Code::kInvalidState);
  EXPECT_TRUE(has(status, pair.send.describe()));
  EXPECT_EQ(job[0].endpoint.find(pair.send.number), &pair.send);
  job.run();
  EXPECT_EQ(free(job[1], pair.receive).code(), Code::kInvalidState) << "it is complete, but its wait is missing";
  EXPECT_TRUE(works(free(job[0], pair.send)));
  pair.wait_receive();
  EXPECT_TRUE(works(free(job[1], pair.receive)));
  EXPECT_TRUE(works(free(job[0], matching))) << "a matched request that never started";
}

// An endpoint that has enough words takes no more memory or regions for them.
TEST_F(RequestLife, WordsAreReused) {
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

// A failed write still completes its request (N1). The request's own queue reports it once.
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
  EXPECT_TRUE(job[0].stream.empty()) << "a failure must fire the chain too";
  EXPECT_EQ(job[0].endpoint.take_failed(*other), nullptr);
  const Request* failed = job[0].endpoint.take_failed(queue);
  ASSERT_EQ(failed, &pair.send);
  EXPECT_EQ(failed->failures, 1u);
  EXPECT_EQ(failed->failure_code, Code::kNotFound);
  EXPECT_EQ(job[0].endpoint.take_failed(queue), nullptr) << "the failure is reported twice";
  EXPECT_EQ(bystander.send.failures, 0u);
  EXPECT_TRUE(works(free(job[0], pair.send)));
}

// The receiver has not counted the failed message, so the pair would stay out of step.
TEST_F(RequestLife, AFailedRequestCannotStart) {
  Pair bystander(job, 0, 2, kBytes, true, 1);
  Pair pair(job, 0, 1, kBytes, true, 2);
  ASSERT_TRUE(works(free(job[1], pair.receive)));
  pair.start_send();
  pair.wait_send();
  job.run();
  const Status status = job[0].start({&bystander.send, &pair.send});
  EXPECT_EQ(status.code(), Code::kFailed);
  EXPECT_TRUE(has(status, "tag 2"));
  EXPECT_FALSE(bystander.send.needs_wait()) << "part of the refused call started";
  EXPECT_EQ(job[0].endpoint.take_failed(*job[0].queue), &pair.send) << "the failure must still be reported";
  EXPECT_TRUE(works(free(job[0], pair.send)));
  iterate(bystander, 1);
}

// The NIC keeps a limited number of failure records. Further failures must still be counted.
TEST_F(RequestLife, FailuresWithoutARecordAreCounted) {
  core::Endpoint& endpoint = job[0].endpoint;
  nic::Nic& nic = job[0].nic();
  constexpr uint64_t kKept = 1024, kMore = 3;
  nic::Op op;
  op.kind = nic::OpKind::kWrite;
  op.local.region = nic.register_region(nullptr, 0).value();
  op.remote.peer = 1;  // with an unknown key
  for (uint64_t i = 0; i < kKept + kMore; ++i) {
    ASSERT_TRUE(works(nic.issue(op)));
    job.settle();
  }
  EXPECT_EQ(endpoint.take_failed(*job[0].queue), nullptr) << "the failures belong to no request";
  EXPECT_EQ(endpoint.take_unrecorded_failures(), kMore);
  EXPECT_EQ(endpoint.take_unrecorded_failures(), 0u) << "the failure is reported twice";
  ASSERT_TRUE(works(nic.issue(op)));
  job.settle();
  EXPECT_EQ(endpoint.take_unrecorded_failures(), 0u) << "there was room for every record";
}

// A request may be freed before its failure is reported. The failure is then reported
// without a request.
TEST_F(RequestLife, AFailureIsReportedThoughItsRequestIsFreed) {
  Pair pair(job, 0, 1, kBytes, true, 2);
  ASSERT_TRUE(works(free(job[1], pair.receive)));
  pair.start_send();
  pair.wait_send();
  job.run();
  ASSERT_TRUE(works(free(job[0], pair.send)));
  EXPECT_EQ(job[0].endpoint.take_failed(*job[0].queue), nullptr) << "reports a freed request";
  EXPECT_EQ(job[0].endpoint.take_unrecorded_failures(), 1u);
  EXPECT_EQ(job[0].endpoint.take_unrecorded_failures(), 0u) << "the failure is reported twice";
}

// ---- Resources that the NIC does not close

using core::ResourcePool;
using core::Resources;
using core::WordPool;

// Refuses to deregister regions while `holds`, as if a dead peer's message were still landing.
class HoldingNic final : public nic::ForwardingNic {
 public:
  using ForwardingNic::ForwardingNic;
  Status deregister_region(nic::RegionId region) override {
    if (!holds)
      return ForwardingNic::deregister_region(region);
    ++asked;
    return {Code::kAgain, "messages are landing in the region"};
  }
  bool holds = false;
  uint64_t asked = 0;
};

class Pool : public ::testing::Test {
 protected:
  Resources open() {
    core::Transfer transfer;
    transfer.direction = core::Direction::kReceive;
    transfer.buffer = buffer_;
    transfer.bytes = sizeof buffer_;
    return pool_.open(transfer, core::Strategy::kTargetCounter).value();
  }

  uint8_t buffer_[64] = {};
  LocalFabric fabric_{1};
  HoldingNic nic_{fabric_.nic(0)};
  ResourcePool pool_{nic_, /*whole_pages=*/false};
};

TEST_F(Pool, ClosingIsRetriedLessAndLessOften) {
  constexpr uint64_t kCalls = 200;
  Resources held = open();
  nic_.holds = true;
  pool_.close(held);
  EXPECT_FALSE(held.buffer.valid());
  ASSERT_EQ(pool_.unclosed(), 1u);
  const uint64_t asked_at_once = nic_.asked;
  std::vector<Resources> others;
  for (uint64_t call = 0; call < kCalls; ++call)
    others.push_back(open());
  // Retried after 1, 2, 4 ... calls.
  const uint64_t asked = nic_.asked - asked_at_once;
  EXPECT_GE(asked, 2u);
  EXPECT_LE(asked, static_cast<uint64_t>(std::bit_width(kCalls)));
  EXPECT_EQ(pool_.unclosed(), 1u);
  // When the NIC agrees, the region is closed within as many further calls.
  nic_.holds = false;
  for (uint64_t call = 0; call < 2 * kCalls && pool_.unclosed() > 0; ++call)
    others.push_back(open());
  EXPECT_EQ(pool_.unclosed(), 0u);
  for (Resources& other : others)
    pool_.close(other);
  EXPECT_EQ(pool_.unclosed(), 0u);
}

// A word that may still be incremented is not reused.
TEST_F(Pool, TheWordOfAHeldRegionIsNotReused) {
  Resources held = open();
  const uint64_t* const word = held.done.address;
  nic_.holds = true;
  pool_.close(held);
  std::vector<Resources> others;
  for (int call = 0; call < 20; ++call) {
    others.push_back(open());
    EXPECT_NE(others.back().done.address, word);
  }
  nic_.holds = false;
  for (Resources& other : others)
    pool_.close(other);
}

// Whether `word` has not been freed: new allocations of its size would get freed memory.
::testing::AssertionResult is_kept(uint64_t* word) {
  static auto& kept = *new std::vector<uint64_t*>;  // leaked on purpose
  kept.push_back(word);
  *static_cast<volatile uint64_t*>(word) = *word;
  std::vector<std::unique_ptr<uint64_t[]>> others;
  for (int i = 0; i < 64; ++i) {
    others.push_back(std::make_unique<uint64_t[]>(WordPool::kFirstSlabWords));
    if (word >= others.back().get() && word < others.back().get() + WordPool::kFirstSlabWords)
      return ::testing::AssertionFailure() << "the word's memory was freed and allocated again";
  }
  return ::testing::AssertionSuccess();
}

TEST(WordPoolTest, WordsThatTheNicHoldsOutliveThePool) {
  LocalFabric fabric(1);
  HoldingNic nic(fabric.nic(0));
  nic.holds = true;
  uint64_t* word = nullptr;
  {
    WordPool pool(nic, false);
    word = pool.take().value().address;
  }
  EXPECT_TRUE(is_kept(word));
}

}  // namespace
}  // namespace lanyard
