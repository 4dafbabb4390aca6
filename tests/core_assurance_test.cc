// Where senders raise their receives' flags: no queue of a receiver's is settled before the sender has said that what
// it sent went well.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "tests/core_local_job.h"
#include "transport/nic/forwarding_nic.h"

namespace lanyard {
namespace {

using core::Strategy;

constexpr uint64_t kBytes = 64;

// Its failures count, and are confirmed, when the test says so; starts beyond `confirmed` never.
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
  bool confirms(std::span<const uint64_t> contexts) override { return contexts.empty() || !lags_; }
  bool confirms_starts(uint64_t, uint64_t start) override { return !lags_ || start <= confirmed; }
  void catch_up() { lags_ = false; }

  uint64_t confirmed = 0;

 private:
  nic::Caps caps_;
  std::atomic<bool> lags_;
};

class Assurance : public ::testing::TestWithParam<Strategy> {
 protected:
  void build(bool lagging, bool ready = false) {
    for (auto& rank : ranks_)
      rank.reset();
    for (uint32_t rank = 0; rank < 2; ++rank) {
      nics_[rank] = std::make_unique<LaggingNic>(fabric_.nic(rank), lagging && rank == 0);
      ranks_[rank] = std::make_unique<LocalJob::Rank>(*nics_[rank], rank, mail_,
                                                      LocalJobOptions{.local = {}, .strategy = GetParam()});
    }
    send = &sender().send(1, 7, kBytes, ready);
    receive = &receiver().receive(0, 7, kBytes);
    talk();
    ASSERT_TRUE(send->matched() && receive->matched());
  }
  LocalJob::Rank& sender() { return *ranks_[0]; }
  LocalJob::Rank& receiver() { return *ranks_[1]; }
  LaggingNic& card() { return *nics_[0]; }
  void talk() {
    do
      for (auto& rank : ranks_)
        rank->matcher.progress();
    while (mail_.under_way() > 0);
  }
  // So that the send's writes fail.
  void take_memory_away() { ASSERT_TRUE(works(receiver().endpoint.nic().deregister_region(receive->buffer))); }
  void start() {
    receiver().start(std::array{receive});
    receiver().wait(std::array{receive});
    sender().start(std::array{send});
    sender().wait(std::array{send});
  }
  bool eventually(const std::function<bool()>& condition) {
    const auto deadline = LocalJob::Clock::now() + LocalJob::kBound;
    while (!condition()) {
      if (LocalJob::Clock::now() > deadline)
        return false;
      for (auto& rank : ranks_)
        rank->helper.help();
      talk();
    }
    return true;
  }
  // Both streams have passed their waits.
  void transfer() {
    start();
    receiver().synchronize();
    sender().synchronize();
  }
  bool settled() { return receiver().queue->settled(); }
  const Request* failed() { return receiver().endpoint.take_failed(*receiver().queue); }

 private:
  Mail mail_{2};
  LocalFabric fabric_{2};
  std::array<std::unique_ptr<LaggingNic>, 2> nics_;
  std::array<std::unique_ptr<LocalJob::Rank>, 2> ranks_;

 protected:
  uint64_t cards() const { return mail_.sent(); }
  void break_mail_down() { mail_.break_down(1); }

  Request* send = nullptr;
  Request* receive = nullptr;
};

TEST_P(Assurance, AReceiverAsksOnceAWait) {
  build(false);
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = cards();
    transfer();
    EXPECT_FALSE(settled());
    EXPECT_FALSE(settled());
    EXPECT_EQ(receiver().queue->explain_stall(),
              "everything that was started has completed, but rank 0 has not said yet whether its sends went well "
              "(recv, peer 0, tag 7, 64 B)");
    EXPECT_TRUE(eventually([&] { return settled(); }));
    EXPECT_EQ(cards() - before, 2u) << "a question and an answer";
    EXPECT_TRUE(sender().queue->settled()) << "who sends knows by itself";
    EXPECT_EQ(failed(), nullptr);
  }
}

TEST_P(Assurance, OneQuestionIsForAllStartsSinceTheLast) {
  build(false);
  const uint64_t before = cards();
  for (int i = 0; i < 3; ++i)
    transfer();
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(cards() - before, 2u);
}

TEST_P(Assurance, AWriteThatFailedIsToldBeforeTheQueueIsSettled) {
  build(false, true);
  take_memory_away();
  start();
  receiver().synchronize();
  EXPECT_FALSE(settled()) << "the flag is up, and there is nothing";
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(failed(), receive);
}

TEST_P(Assurance, FailuresThatLagAreWaitedFor) {
  build(true, true);
  take_memory_away();
  start();
  receiver().synchronize();
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(settled());
    sender().helper.help();
    talk();
  }
  card().catch_up();
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(failed(), receive);
}

// The sender is a start ahead, which waits for the receiver, which waits for the answer.
TEST_P(Assurance, AnAnswerDoesNotWaitForALaterStart) {
  build(true);
  transfer();
  sender().start(std::array{send});
  sender().wait(std::array{send});
  EXPECT_FALSE(settled());
  card().confirmed = 1;
  EXPECT_TRUE(eventually([&] { return settled(); }));
  card().catch_up();
  receiver().start(std::array{receive});
  receiver().wait(std::array{receive});
  receiver().synchronize();
  sender().synchronize();
  EXPECT_TRUE(eventually([&] { return settled(); }));
}

// Whoever frees a send right after its stream has passed the wait does not know yet how it ended.
TEST_P(Assurance, ASendThatIsFreedTellsNothingBeforeItIsKnown) {
  for (const bool fails : {true, false}) {
    build(true, true);
    if (fails)
      take_memory_away();
    start();
    receiver().synchronize();
    if (GetParam() == Strategy::kWriteBack && fails)
      return;  // its wait does not pass before it is told
    sender().synchronize();
    EXPECT_FALSE(settled());
    EXPECT_TRUE(works(sender().matcher.free(*send)));
    for (int i = 0; i < 100; ++i) {
      talk();
      EXPECT_FALSE(settled());
    }
    EXPECT_EQ(sender().matcher.owes(), 1u);
    card().catch_up();
    EXPECT_TRUE(eventually([&] { return settled(); }));
    EXPECT_EQ(failed(), fails ? receive : nullptr);
    EXPECT_EQ(sender().matcher.owes(), 0u);
  }
}

TEST_P(Assurance, ASendThatWasFreedIsAnswerEnough) {
  build(false);
  transfer();
  EXPECT_TRUE(works(sender().matcher.free(*send)));
  EXPECT_FALSE(settled());
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(failed(), nullptr);
}

TEST_P(Assurance, AReceiveThatWasFreedOwesNothing) {
  build(false);
  transfer();
  EXPECT_FALSE(settled());
  EXPECT_TRUE(works(receiver().matcher.free(*receive)));
  EXPECT_TRUE(settled());
  talk();
  EXPECT_EQ(sender().matcher.owes(), 0u);
}

TEST_P(Assurance, WhoCannotAskIsTold) {
  build(false);
  transfer();
  break_mail_down();
  EXPECT_FALSE(settled());
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(failed(), receive);
}

TEST_P(Assurance, WhoWillNotAnswerIsNotWaitedFor) {
  build(true);
  transfer();
  EXPECT_FALSE(settled());
  talk();
  EXPECT_FALSE(settled());
  receiver().matcher.lose_peer(0, "rank 0 has ended");
  EXPECT_TRUE(settled());
  EXPECT_EQ(failed(), receive);
}

INSTANTIATE_TEST_SUITE_P(Of, Assurance, ::testing::Values(Strategy::kSenderFlag, Strategy::kWriteBack),
                         [](const auto& info) {
                           return info.param == Strategy::kSenderFlag ? "SenderFlag" : "WriteBack";
                         });

// The receiver's card knows by itself.
class NoAssurance : public Assurance {};
TEST_P(NoAssurance, NobodyAsks) {
  build(false);
  const uint64_t before = cards();
  transfer();
  EXPECT_TRUE(settled());
  talk();
  EXPECT_EQ(cards(), before);
}
INSTANTIATE_TEST_SUITE_P(Of, NoAssurance, ::testing::Values(Strategy::kTargetCounter));

}  // namespace
}  // namespace lanyard
