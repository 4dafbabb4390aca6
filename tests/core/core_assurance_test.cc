// With sender flags, a receiver's queue is settled only after the sender has reported that its
// sends succeeded (api/doc/protocol.md, P3).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "tests/core/core_local_job.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using core::Strategy;

constexpr uint64_t kBytes = 64;

// While it lags, it reports no failure and confirms only starts up to `confirmed`.
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
  bool confirms(std::span<const nic::ContextStarts> starts) override {
    return !lags_ ||
           std::all_of(starts.begin(), starts.end(), [this](const auto& asked) { return asked.starts <= confirmed; });
  }
  void catch_up() { lags_ = false; }

  uint64_t confirmed = 0;

 private:
  nic::Caps caps_;
  std::atomic<bool> lags_;
};

class Assurance : public ::testing::Test {
 protected:
  void build(bool lagging, bool ready = false) {
    for (auto& rank : ranks_)
      rank.reset();
    fabric_ = std::make_unique<LocalFabric>(2);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      nics_[rank] = std::make_unique<LaggingNic>(fabric_->nic(rank), lagging && rank == 0);
      ranks_[rank] = std::make_unique<LocalJob::Rank>(*nics_[rank], rank, mail_,
                                                      LocalJobOptions{.local = {}, .strategy = strategy});
    }
    send = &sender().send(1, 7, kBytes, ready);
    receive = &receiver().receive(0, 7, kBytes);
    talk();
    ASSERT_TRUE(send->matched() && receive->matched());
  }
  LocalJob::Rank& sender() { return *ranks_[0]; }
  LocalJob::Rank& receiver() { return *ranks_[1]; }
  LaggingNic& lagging_nic() { return *nics_[0]; }
  void talk() {
    do
      for (auto& rank : ranks_)
        rank->matcher.progress();
    while (mail_.under_way() > 0);
  }
  // Makes the send's writes fail.
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
  void transfer() {
    start();
    receiver().synchronize();
    sender().synchronize();
  }
  bool settled() { return receiver().queue->settled(); }
  const Request* failed() { return receiver().endpoint.take_failed(*receiver().queue); }

 private:
  Mail mail_{2};
  std::unique_ptr<LocalFabric> fabric_;
  std::array<std::unique_ptr<LaggingNic>, 2> nics_;
  std::array<std::unique_ptr<LocalJob::Rank>, 2> ranks_;

 protected:
  uint64_t cards_sent() const { return mail_.sent(); }
  void break_mail_down() { mail_.break_down(1); }

  Strategy strategy = Strategy::kSenderFlag;
  Request* send = nullptr;
  Request* receive = nullptr;
};

TEST_F(Assurance, AReceiverAsksOncePerWait) {
  build(false);
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = cards_sent();
    transfer();
    EXPECT_FALSE(settled());
    EXPECT_FALSE(settled());
    EXPECT_EQ(receiver().queue->explain_stall(),
              "everything that was started has completed, but rank 0 has not said yet whether its sends went well "
              "(recv, peer 0, tag 7, 64 B)");
    EXPECT_TRUE(eventually([&] { return settled(); }));
    EXPECT_EQ(cards_sent() - before, 2u) << "expected one question and one answer";
    EXPECT_TRUE(sender().queue->settled()) << "a sender must not need to ask";
    EXPECT_EQ(failed(), nullptr);
  }
}

TEST_F(Assurance, TheAnswerWaitsForLaggingFailures) {
  build(true, true);
  take_memory_away();
  start();
  receiver().synchronize();
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(settled());
    sender().helper.help();
    talk();
  }
  lagging_nic().catch_up();
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(failed(), receive);
}

// The sender's next start waits for the receiver, and the receiver waits for the answer.
TEST_F(Assurance, AnAnswerDoesNotWaitForALaterStart) {
  build(true);
  transfer();
  sender().start(std::array{send});
  sender().wait(std::array{send});
  EXPECT_FALSE(settled());
  lagging_nic().confirmed = 1;
  EXPECT_TRUE(eventually([&] { return settled(); }));
  lagging_nic().catch_up();
  receiver().start(std::array{receive});
  receiver().wait(std::array{receive});
  receiver().synchronize();
  sender().synchronize();
  EXPECT_TRUE(eventually([&] { return settled(); }));
}

TEST_F(Assurance, AFreedSendAnswersOnlyWhenItsResultIsKnown) {
  for (const bool fails : {true, false}) {
    build(true, true);
    if (fails)
      take_memory_away();
    start();
    receiver().synchronize();
    sender().synchronize();
    EXPECT_FALSE(settled());
    EXPECT_TRUE(works(sender().matcher.free(*send)));
    for (int i = 0; i < 100; ++i) {
      talk();
      EXPECT_FALSE(settled());
    }
    EXPECT_EQ(sender().matcher.owes(), 1u);
    lagging_nic().catch_up();
    EXPECT_TRUE(eventually([&] { return settled(); }));
    EXPECT_EQ(failed(), fails ? receive : nullptr);
    EXPECT_EQ(sender().matcher.owes(), 0u);
  }
}

TEST_F(Assurance, AReceiverThatCannotAskFails) {
  build(false);
  transfer();
  break_mail_down();
  EXPECT_FALSE(settled());
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(failed(), receive);
}

TEST_F(Assurance, AReceiverDoesNotWaitForALostSender) {
  build(true);
  transfer();
  EXPECT_FALSE(settled());
  talk();
  EXPECT_FALSE(settled());
  receiver().matcher.lose_peer(0, "rank 0 has ended");
  EXPECT_TRUE(settled());
  EXPECT_EQ(failed(), receive);
}

TEST_F(Assurance, WithTargetCountersNobodyAsks) {
  strategy = Strategy::kTargetCounter;
  build(false);
  const uint64_t before = cards_sent();
  transfer();
  EXPECT_TRUE(settled());
  talk();
  EXPECT_EQ(cards_sent(), before);
}

// More operations fail than the NIC keeps records of. The requests of the other
// failures are unknown.
TEST(LostRecords, SuccessIsNotConfirmed) {
  constexpr uint64_t kPieces = 20;
  LocalJobOptions options{.local = {}, .strategy = Strategy::kSenderFlag};
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
  const auto eventually = [&](const std::function<bool()>& condition) {
    const auto deadline = LocalJob::Clock::now() + LocalJob::kBound;
    while (!condition()) {
      if (LocalJob::Clock::now() > deadline)
        return false;
      for (LocalJob::Rank* rank : {&sender, &receiver}) {
        rank->helper.help();
        rank->stream.poll();
        if (talks)
          rank->matcher.progress();
      }
    }
    return true;
  };
  receiver.start(receives);
  receiver.wait(receives);
  sender.start(sends);
  sender.wait(sends);
  EXPECT_TRUE(eventually([&] { return sender.endpoint.nic().failures() == kPieces + 1; }));
  talks = true;
  std::vector<const Request*> failed;
  EXPECT_TRUE(eventually([&] {
    while (const Request* each = receiver.endpoint.take_failed(*receiver.queue)) {
      failed.push_back(each);
      receiver.endpoint.release(*receiver.endpoint.find(each->number));
    }
    return receiver.stream.poll() && receiver.queue->settled();
  }));
  EXPECT_EQ(failed.size(), 2u);
  EXPECT_EQ(sends[1]->failures, 1u) << "its own operation may be the unrecorded failure";
  EXPECT_EQ(sender.endpoint.explain_failure(*sends[1]),
            "more operations have failed than the NIC keeps records of, and this request's may be among them");
  for (Request* send : sends)
    sender.endpoint.release(*send);
  EXPECT_TRUE(eventually([&] { return sender.stream.poll(); }));
}

}  // namespace
}  // namespace lanyard
