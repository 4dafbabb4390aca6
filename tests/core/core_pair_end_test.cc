// The end of a pair: how one side learns that the other's request was freed or has failed, while
// both processes live.
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
  // Progresses both processes until that rank reports a failure. Returns its text, or "" if none
  // comes within kBound.
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
  void deliver_news() {
    while (job->mail.under_way() > 0)
      job->match();
  }
  bool nothing_is_reported(uint32_t which) {
    return rank(which).endpoint.take_failed(*rank(which).queue) == nullptr &&
           rank(which).endpoint.take_unrecorded_failures() == 0;
  }

  std::unique_ptr<LocalJob> job;
  Request* send = nullptr;
  Request* receive = nullptr;
};

// A regular send after its receive was freed, and a receive after its ready send was freed.
TEST_P(PairEnd, AStartThatWouldWaitForAFreedRequestIsRefused) {
  for (const uint32_t first : {0u, 1u}) {
    build(first == 0);
    transfer();
    free(first);
    deliver_news();
    EXPECT_NE(refusal_at(1 - first).find("rank " + std::to_string(first) + " has freed its request"),
              std::string::npos);
    EXPECT_TRUE(nothing_is_reported(1 - first));
    free(1 - first);
  }
}

// A start before the news arrives is allowed; its message fails.
TEST_P(PairEnd, AStartToAFreedRequestFails) {
  for (const uint32_t first : {0u, 1u}) {
    build(first == 1);
    transfer();
    free(first);
    deliver_news();
    start(1 - first);
    wait(1 - first);
    EXPECT_EQ(failure_at(1 - first),
              "rank " + std::to_string(first) + " has freed its request, whose memory is not registered any more");
    rank(1 - first).synchronize();
    EXPECT_TRUE(nothing_is_reported(1 - first)) << "the failure is reported twice";
    free(1 - first);
  }
}

// A send waits for a clear-to-send, or a receive for a message, that will never come.
TEST_P(PairEnd, AWaitForAFreedRequestFails) {
  for (const uint32_t first : {0u, 1u}) {
    build(false);
    transfer();
    start(1 - first);
    wait(1 - first);
    free(first);
    EXPECT_TRUE(failure_at(1 - first).starts_with("rank " + std::to_string(first) + " has freed its request"));
    rank(1 - first).synchronize();
    EXPECT_TRUE(nothing_is_reported(1 - first)) << "the failure is reported twice";
    free(1 - first);
  }
}

// The sender's NIC finds the receive's memory deregistered. Both sides learn of the failure.
TEST_P(PairEnd, AFailedSendFailsItsReceive) {
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
  deliver_news();
  for (const uint32_t which : {0u, 1u})
    EXPECT_TRUE(nothing_is_reported(which)) << "the failure is reported twice, or sent back";
  EXPECT_NE(refusal_at(1), "");
}

// Cards from another process, or for another request, or for a freed one, are ignored.
TEST_P(PairEnd, InvalidCardsAreIgnored) {
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
  deliver_news();
  EXPECT_TRUE(nothing_is_reported(1));
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
