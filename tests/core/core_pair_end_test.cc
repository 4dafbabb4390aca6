// The end of a pair: what the other side is told when a request was freed or has failed, while its process lives.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "tests/core/core_local_job.h"

namespace lanyard {
namespace {

using core::Strategy;

constexpr uint64_t kBytes = 64;

class PairEnd : public ::testing::TestWithParam<Strategy> {
 protected:
  void build(bool ready) {
    job = std::make_unique<LocalJob>(2, LocalJobOptions{.local = {}, .strategy = GetParam()});
    send = &rank(0).send(1, 7, kBytes, ready);
    receive = &rank(1).receive(0, 7, kBytes);
    job->match();
    ASSERT_TRUE(send->matched() && receive->matched());
  }
  LocalJob::Rank& rank(uint32_t which) { return (*job)[which]; }
  void start(uint32_t which) { rank(which).start({&side(which), 1}); }
  void wait(uint32_t which) { rank(which).wait({&side(which), 1}); }
  Request*& side(uint32_t which) { return which == 0 ? send : receive; }
  void transfer() {
    for (const uint32_t which : {1u, 0u}) {
      start(which);
      wait(which);
    }
    for (const uint32_t which : {0u, 1u})
      rank(which).synchronize();
  }
  void free(uint32_t which) {
    EXPECT_TRUE(works(rank(which).matcher.free(*side(which))));
    side(which) = nullptr;
  }
  // Both processes go on until that one has a failure to tell. Its words; "" where there is none within the bound.
  std::string failure_at(uint32_t which) {
    const auto deadline = LocalJob::Clock::now() + LocalJob::kBound;
    while (LocalJob::Clock::now() < deadline) {
      for (const uint32_t each : {0u, 1u}) {
        rank(each).helper.help();
        rank(each).matcher.progress();
      }
      if (const Request* failed = rank(which).endpoint.take_failed(*rank(which).queue)) {
        EXPECT_EQ(failed, side(which));
        const std::string words = rank(which).endpoint.explain_failure(*failed);
        rank(which).endpoint.release(*rank(which).endpoint.find(failed->number));
        return words;
      }
    }
    return "";
  }
  std::string refusal_at(uint32_t which) {
    const Status status = rank(which).queue->start(std::array{side(which)});
    EXPECT_EQ(status.code(), Code::kFailed);
    return status.message();
  }
  void hear() {
    while (job->mail.under_way() > 0)
      job->match();
  }
  bool nothing_is_told(uint32_t which) {
    return rank(which).endpoint.take_failed(*rank(which).queue) == nullptr &&
           rank(which).endpoint.take_unrecorded_failures() == 0;
  }

  std::unique_ptr<LocalJob> job;
  Request* send = nullptr;
  Request* receive = nullptr;
};

// A regular send whose receive was freed, and a receive whose ready send was.
TEST_P(PairEnd, NoStartIsMadeThatWouldWaitForAFreedRequest) {
  for (const uint32_t first : {0u, 1u}) {
    build(first == 0);
    transfer();
    free(first);
    hear();
    EXPECT_NE(refusal_at(1 - first).find("rank " + std::to_string(first) + " has freed its request"),
              std::string::npos);
    EXPECT_TRUE(nothing_is_told(1 - first));
    free(1 - first);
  }
}

// What it sends fails.
TEST_P(PairEnd, AStartThatFindsOutByItselfMayDoSo) {
  for (const uint32_t first : {0u, 1u}) {
    build(first == 1);
    transfer();
    free(first);
    hear();
    start(1 - first);
    wait(1 - first);
    EXPECT_EQ(failure_at(1 - first),
              "rank " + std::to_string(first) + " has freed its request, whose memory is not registered any more");
    rank(1 - first).synchronize();
    EXPECT_TRUE(nothing_is_told(1 - first)) << "once";
    free(1 - first);
  }
}

// A regular send for its clear-to-send, a receive for its message: neither will come.
TEST_P(PairEnd, WhatWaitsForAFreedRequestFails) {
  for (const uint32_t first : {0u, 1u}) {
    build(false);
    transfer();
    start(1 - first);
    wait(1 - first);
    free(first);
    EXPECT_TRUE(failure_at(1 - first).starts_with("rank " + std::to_string(first) + " has freed its request"));
    rank(1 - first).synchronize();
    EXPECT_TRUE(nothing_is_told(1 - first)) << "once";
    free(1 - first);
  }
}

// The sender's card finds the receive's memory gone. Both sides are told.
TEST_P(PairEnd, ASendThatFailedFailsItsReceive) {
  build(true);
  transfer();
  ASSERT_TRUE(works(rank(1).endpoint.nic().deregister_region(receive->buffer)));
  start(1);
  wait(1);
  start(0);
  wait(0);
  EXPECT_NE(failure_at(0), "");
  EXPECT_EQ(failure_at(1), "rank 0 has found that an operation of its side failed");
  for (const uint32_t which : {0u, 1u})
    rank(which).synchronize();
  hear();
  for (const uint32_t which : {0u, 1u})
    EXPECT_TRUE(nothing_is_told(which)) << "once, and not back again";
  EXPECT_NE(refusal_at(1), "");
}

// Cards of another process, for another request, or for one that is gone.
TEST_P(PairEnd, CardsOfNoSenseAreNobodys) {
  build(false);
  transfer();
  for (const auto kind : {core::MatchCard::Kind::kFreed, core::MatchCard::Kind::kFailed}) {
    core::MatchCard card;
    card.kind = kind;
    card.from_nic = 0;
    card.writer = send->number + 1000;
    card.reader = receive->number;
    (void)job->mail.courier(0).send(1, card);
    card.writer = send->number;
    card.reader = receive->number + 1000;
    (void)job->mail.courier(0).send(1, card);
    card.from_nic = 1;
    card.reader = receive->number;
    (void)job->mail.courier(0).send(1, card);
  }
  hear();
  EXPECT_TRUE(nothing_is_told(1));
  transfer();
  for (const uint32_t which : {0u, 1u})
    free(which);
}

std::string name(const ::testing::TestParamInfo<Strategy>& info) {
  return info.param == Strategy::kTargetCounter ? "TargetCounter" : "SenderFlag";
}
INSTANTIATE_TEST_SUITE_P(Of, PairEnd, ::testing::ValuesIn(core::kStrategies), name);

}  // namespace
}  // namespace lanyard
