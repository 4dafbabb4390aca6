// The end of a pair: how one side learns that the other's request was freed or has failed, while
// both processes live. With sender flags, a receiver's queue is settled only after the sender has
// reported that its sends succeeded (api/doc/protocol.md, P3).
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/core/core_local_job.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using core::Strategy;

constexpr uint64_t kBytes = 64;

// A send of rank 0 and a receive of rank 1.
struct PairInJob {
  void build(const LocalJobOptions& options, bool ready) {
    job = std::make_unique<LocalJob>(2, options);
    send = &rank(0).send(1, 7, kBytes, ready);
    receive = &rank(1).receive(0, 7, kBytes);
    job->match();
    ASSERT_TRUE(send->matched() && receive->matched());
  }
  LocalJob::Rank& rank(uint32_t which) { return (*job)[which]; }
  Request*& side(uint32_t which) { return which == 0 ? send : receive; }
  void start(uint32_t which) {
    rank(which).start({&side(which), 1});
    rank(which).wait({&side(which), 1});
  }
  void start_both() {
    start(1);
    start(0);
  }
  void transfer() {
    start_both();
    for (const uint32_t which : {1u, 0u})
      rank(which).synchronize();
  }
  // Makes the send's writes fail.
  void take_memory_away() { ASSERT_TRUE(works(rank(1).endpoint.nic().deregister_region(receive->buffer))); }
  void free(uint32_t which) {
    EXPECT_TRUE(works(rank(which).matcher.free(*side(which))));
    side(which) = nullptr;
  }
  // Progresses both processes until `done`.
  template <typename Done>
  [[nodiscard]] bool until(Done done) {
    return eventually(done, [&] {
      for (const uint32_t each : {0u, 1u}) {
        rank(each).helper.help();
        rank(each).matcher.progress();
      }
    });
  }
  const Request* failed(uint32_t which) { return rank(which).endpoint.take_failed(*rank(which).queue); }

  std::unique_ptr<LocalJob> job;
  Request* send = nullptr;
  Request* receive = nullptr;
};

class PairEnd : public PairInJob, public ::testing::TestWithParam<Strategy> {
 protected:
  void build(bool ready) { PairInJob::build({.strategy = GetParam()}, ready); }
  // The text of that rank's failure, or "" if none comes.
  std::string failure_at(uint32_t which) {
    const Request* found = nullptr;
    if (!until([&] { return (found = failed(which)) != nullptr; }))
      return "";
    EXPECT_EQ(found, side(which));
    const std::string words = rank(which).endpoint.explain_failure(*found);
    rank(which).endpoint.release(*rank(which).endpoint.find(found->number));
    return words;
  }
  Status refusal_at(uint32_t which) {
    const Status status = rank(which).queue->start(std::array{side(which)});
    EXPECT_EQ(status.code(), Code::kFailed);
    return status;
  }
  bool nothing_is_reported(uint32_t which) {
    return failed(which) == nullptr && rank(which).endpoint.take_unrecorded_failures() == 0;
  }
};

// A regular send after its receive was freed, and a receive after its ready send was freed.
TEST_P(PairEnd, AStartThatWouldWaitForAFreedRequestIsRefused) {
  for (const uint32_t first : {0u, 1u}) {
    build(first == 0);
    transfer();
    free(first);
    job->match();
    EXPECT_TRUE(has(refusal_at(1 - first), "rank " + std::to_string(first) + " has freed its request"));
    EXPECT_TRUE(nothing_is_reported(1 - first));
    free(1 - first);
  }
}

// A start before the news arrives is allowed; its message fails. A start before the other side is
// freed waits for a clear-to-send or a message that will never come, and fails too.
TEST_P(PairEnd, AStartWithAFreedRequestFails) {
  for (const uint32_t first : {0u, 1u})
    for (const bool early : {false, true}) {
      build(!early && first == 1);
      transfer();
      if (early)
        start(1 - first);
      free(first);
      if (!early) {
        job->match();
        start(1 - first);
      }
      const std::string failure = "rank " + std::to_string(first) + " has freed its request";
      const std::string words = failure_at(1 - first);
      EXPECT_TRUE(early ? words.starts_with(failure) : words == failure + ", whose memory is not registered any more")
          << words;
      rank(1 - first).synchronize();
      EXPECT_TRUE(nothing_is_reported(1 - first)) << "the failure is reported twice";
      free(1 - first);
    }
}

// The sender's NIC finds the receive's memory deregistered. Both sides learn of the failure.
TEST_P(PairEnd, AFailedSendFailsItsReceive) {
  build(true);
  transfer();
  take_memory_away();
  start_both();
  EXPECT_NE(failure_at(0), "");
  EXPECT_EQ(failure_at(1), "rank 0 has found that an operation of its side failed");
  for (const uint32_t which : {0u, 1u})
    rank(which).synchronize();
  job->match();
  for (const uint32_t which : {0u, 1u})
    EXPECT_TRUE(nothing_is_reported(which)) << "the failure is reported twice, or sent back";
  EXPECT_NE(refusal_at(1).message(), "");
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
  job->match();
  EXPECT_TRUE(nothing_is_reported(1));
  transfer();
  for (const uint32_t which : {0u, 1u})
    free(which);
}

std::string name(const ::testing::TestParamInfo<Strategy>& info) {
  return info.param == Strategy::kTargetCounter ? "TargetCounter" : "SenderFlag";
}
INSTANTIATE_TEST_SUITE_P(Of, PairEnd, ::testing::ValuesIn(core::kStrategies), name);

// ---- The sender's report

// While it lags, it reports no failure and confirms no start.
class LaggingNic final : public nic::ForwardingNic {
 public:
  LaggingNic(nic::Nic& inner, bool lags) : nic::ForwardingNic(inner), caps_(inner.caps()), lags_(lags) {
    caps_.failures_lag = lags;
  }
  const nic::Caps& caps() const override { return caps_; }
  uint64_t failures() const override { return lags_ ? 0 : nic::ForwardingNic::failures(); }
  std::optional<nic::FailureRecord> take_failure() override {
    return lags_ ? std::nullopt : nic::ForwardingNic::take_failure();
  }
  bool confirms(std::span<const nic::ContextStarts> starts) override { return !lags_ || starts.empty(); }
  void catch_up() { lags_ = false; }

 private:
  nic::Caps caps_;
  std::atomic<bool> lags_;
};

class Assurance : public PairInJob, public ::testing::Test {
 protected:
  ~Assurance() override { job.reset(); }
  void build(bool lagging, bool ready = false) {
    job.reset();
    const auto wrap = [&](uint32_t rank, nic::Nic& nic) -> nic::Nic& {
      return rank == 0 ? senders_nic.emplace(nic, lagging) : nic;
    };
    PairInJob::build({.strategy = strategy, .wrap = wrap}, ready);
  }
  void talk() {
    do
      for (const uint32_t which : {0u, 1u})
        rank(which).matcher.progress();
    while (job->mail.under_way() > 0);
  }
  bool settled() { return rank(1).queue->settled(); }
  bool settles() {
    return until([&] { return settled(); });
  }

  Strategy strategy = Strategy::kSenderFlag;
  std::optional<LaggingNic> senders_nic;
};

TEST_F(Assurance, AReceiverAsksOncePerWait) {
  build(false);
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = job->mail.sent();
    transfer();
    EXPECT_FALSE(settled());
    EXPECT_FALSE(settled());
    EXPECT_EQ(rank(1).queue->explain_stall(),
              "everything that was started has completed, but rank 0 has not said yet whether its sends went well "
              "(recv, peer 0, tag 7, 64 B)");
    EXPECT_TRUE(settles());
    EXPECT_EQ(job->mail.sent() - before, 2u) << "expected one question and one answer";
    EXPECT_TRUE(rank(0).queue->settled()) << "a sender must not need to ask";
    EXPECT_EQ(failed(1), nullptr);
  }
}

TEST_F(Assurance, TheAnswerWaitsForLaggingFailures) {
  build(true, true);
  take_memory_away();
  start_both();
  rank(1).synchronize();
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(settled());
    rank(0).helper.help();
    talk();
  }
  senders_nic->catch_up();
  EXPECT_TRUE(settles());
  EXPECT_EQ(failed(1), receive);
}

TEST_F(Assurance, AFreedSendAnswersOnlyWhenItsResultIsKnown) {
  for (const bool fails : {true, false}) {
    build(true, true);
    if (fails)
      take_memory_away();
    transfer();
    EXPECT_FALSE(settled());
    free(0);
    for (int i = 0; i < 100; ++i) {
      talk();
      EXPECT_FALSE(settled());
    }
    EXPECT_EQ(rank(0).matcher.owes(), 1u);
    senders_nic->catch_up();
    EXPECT_TRUE(settles());
    EXPECT_EQ(failed(1), fails ? receive : nullptr);
    EXPECT_EQ(rank(0).matcher.owes(), 0u);
  }
}

TEST_F(Assurance, AReceiverThatCannotAskFails) {
  build(false);
  transfer();
  job->mail.break_down(1);
  EXPECT_FALSE(settled());
  EXPECT_TRUE(settles());
  EXPECT_EQ(failed(1), receive);
}

TEST_F(Assurance, WithTargetCountersNobodyAsks) {
  strategy = Strategy::kTargetCounter;
  build(false);
  const uint64_t before = job->mail.sent();
  transfer();
  EXPECT_TRUE(settled());
  talk();
  EXPECT_EQ(job->mail.sent(), before);
}

// More operations fail than the NIC keeps records of. The requests of the other
// failures are unknown.
TEST(LostRecords, SuccessIsNotConfirmed) {
  constexpr uint64_t kPieces = 20;
  LocalJobOptions options{.strategy = Strategy::kSenderFlag};
  options.local.limits.max_message_bytes = 1;
  options.local.limits.kept_failures = 8;
  LocalJob job(2, options);
  LocalJob::Rank &sender = job[0], &receiver = job[1];
  std::array<Request*, 2> sends{}, receives{};
  for (const int tag : {0, 1}) {
    const uint64_t bytes = tag == 0 ? kPieces : 1;
    sends[tag] = &sender.send(1, tag, bytes, true);
    receives[tag] = &receiver.receive(0, tag, bytes);
  }
  job.match();
  for (const Request* receive : receives)
    EXPECT_TRUE(works(receiver.endpoint.nic().deregister_region(receive->buffer)));
  bool talks = false;
  const auto drive = [&] {
    for (LocalJob::Rank* rank : {&sender, &receiver}) {
      rank->helper.help();
      rank->stream.poll();
      if (talks)
        rank->matcher.progress();
    }
  };
  receiver.start(receives);
  receiver.wait(receives);
  sender.start(sends);
  sender.wait(sends);
  EXPECT_TRUE(eventually([&] { return sender.endpoint.nic().failures() == kPieces + 1; }, drive));
  talks = true;
  std::vector<const Request*> failed;
  const auto over = [&] {
    while (const Request* each = receiver.endpoint.take_failed(*receiver.queue)) {
      failed.push_back(each);
      receiver.endpoint.release(*receiver.endpoint.find(each->number));
    }
    return receiver.stream.poll() && receiver.queue->settled();
  };
  EXPECT_TRUE(eventually(over, drive));
  EXPECT_EQ(failed.size(), 2u);
  EXPECT_EQ(sends[1]->failures, 1u) << "its own operation may be the unrecorded failure";
  EXPECT_EQ(sender.endpoint.explain_failure(*sends[1]),
            "more operations have failed than the NIC keeps records of, and this request's may be among them");
  for (Request* send : sends)
    sender.endpoint.release(*send);
  EXPECT_TRUE(eventually([&] { return sender.stream.poll(); }, drive));
}

}  // namespace
}  // namespace lanyard
