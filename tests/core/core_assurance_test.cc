// Where senders raise their receives' flags: no queue of a receiver's is settled before the sender has said that what
// it sent went well.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/core/core_local_job.h"
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
                                                      LocalJobOptions{.local = {}, .strategy = strategy_});
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
  std::unique_ptr<LocalFabric> fabric_;
  std::array<std::unique_ptr<LaggingNic>, 2> nics_;
  std::array<std::unique_ptr<LocalJob::Rank>, 2> ranks_;

 protected:
  uint64_t cards() const { return mail_.sent(); }
  void break_mail_down() { mail_.break_down(1); }

  Request* send = nullptr;
  Request* receive = nullptr;
  Strategy strategy_ = Strategy::kSenderFlag;
};

TEST_F(Assurance, AReceiverAsksOnceAWait) {
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

TEST_F(Assurance, OneQuestionIsForAllStartsSinceTheLast) {
  build(false);
  const uint64_t before = cards();
  for (int i = 0; i < 3; ++i)
    transfer();
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(cards() - before, 2u);
}

TEST_F(Assurance, AWriteThatFailedIsToldBeforeTheQueueIsSettled) {
  build(false, true);
  take_memory_away();
  start();
  receiver().synchronize();
  EXPECT_FALSE(settled()) << "the flag is up, and there is nothing";
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(failed(), receive);
}

TEST_F(Assurance, FailuresThatLagAreWaitedFor) {
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
TEST_F(Assurance, AnAnswerDoesNotWaitForALaterStart) {
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
TEST_F(Assurance, ASendThatIsFreedTellsNothingBeforeItIsKnown) {
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
    card().catch_up();
    EXPECT_TRUE(eventually([&] { return settled(); }));
    EXPECT_EQ(failed(), fails ? receive : nullptr);
    EXPECT_EQ(sender().matcher.owes(), 0u);
  }
}

TEST_F(Assurance, ASendThatWasFreedIsAnswerEnough) {
  build(false);
  transfer();
  EXPECT_TRUE(works(sender().matcher.free(*send)));
  EXPECT_FALSE(settled());
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(failed(), nullptr);
}

TEST_F(Assurance, AReceiveThatWasFreedOwesNothing) {
  build(false);
  transfer();
  EXPECT_FALSE(settled());
  EXPECT_TRUE(works(receiver().matcher.free(*receive)));
  EXPECT_TRUE(settled());
  talk();
  EXPECT_EQ(sender().matcher.owes(), 0u);
}

TEST_F(Assurance, WhoCannotAskIsTold) {
  build(false);
  transfer();
  break_mail_down();
  EXPECT_FALSE(settled());
  EXPECT_TRUE(eventually([&] { return settled(); }));
  EXPECT_EQ(failed(), receive);
}

TEST_F(Assurance, WhoWillNotAnswerIsNotWaitedFor) {
  build(true);
  transfer();
  EXPECT_FALSE(settled());
  talk();
  EXPECT_FALSE(settled());
  receiver().matcher.lose_peer(0, "rank 0 has ended");
  EXPECT_TRUE(settled());
  EXPECT_EQ(failed(), receive);
}

// The start on the first queue failed, and nobody knows yet; a start on a second one does not hide it.
TEST_F(Assurance, AStartOnAnotherQueueHidesNoFailure) {
  build(false, true);
  take_memory_away();
  start();
  receiver().synchronize();
  gpu::HostStream other_stream;
  const std::unique_ptr<core::Queue> other = std::move(core::Queue::create(receiver().endpoint, other_stream).value());
  ASSERT_TRUE(works(other->start(std::array{receive})));
  EXPECT_FALSE(settled());
  const Request* told = nullptr;
  EXPECT_TRUE(eventually([&] { return (told = failed()) != nullptr; }));
  EXPECT_EQ(told, receive);
  EXPECT_TRUE(settled()) << "told once";
  EXPECT_EQ(receiver().endpoint.take_failed(*other), nullptr);
  ASSERT_TRUE(works(other->wait(std::array{receive})));
  receiver().endpoint.release(*receive);
  sender().endpoint.release(*send);
  EXPECT_TRUE(eventually([&] { return other_stream.poll() && sender().stream.poll(); }));
  EXPECT_TRUE(works(receiver().matcher.free(*receive)));
  EXPECT_TRUE(eventually([&] { return other->settled(); }));
}

// Without a failure either queue is settled when its own starts are known to have gone well.
TEST_F(Assurance, AStartOnAnotherQueueIsAskedForThere) {
  build(false);
  transfer();
  gpu::HostStream other_stream;
  const std::unique_ptr<core::Queue> other = std::move(core::Queue::create(receiver().endpoint, other_stream).value());
  ASSERT_TRUE(works(other->start(std::array{receive})));
  EXPECT_TRUE(eventually([&] { return settled(); })) << "the second start is not the first queue's";
  EXPECT_FALSE(other->settled());
  sender().start(std::array{send});
  sender().wait(std::array{send});
  ASSERT_TRUE(works(other->wait(std::array{receive})));
  EXPECT_TRUE(eventually([&] { return other_stream.poll() && sender().stream.poll() && other->settled(); }));
  EXPECT_EQ(failed(), nullptr);
  EXPECT_TRUE(works(receiver().matcher.free(*receive)));
}

// The receiver's card knows by itself.
class NoAssurance : public Assurance {
 protected:
  NoAssurance() { strategy_ = Strategy::kTargetCounter; }
};
TEST_F(NoAssurance, NobodyAsks) {
  build(false);
  const uint64_t before = cards();
  transfer();
  EXPECT_TRUE(settled());
  talk();
  EXPECT_EQ(cards(), before);
}
// The stream of a ready send passes its wait though the write has failed, of which nobody knows yet.
TEST_F(NoAssurance, ASendThatIsFreedTellsOfAFailureThatIsKnownLater) {
  build(true, true);
  take_memory_away();
  start();
  sender().synchronize();
  EXPECT_TRUE(works(sender().matcher.free(*send)));
  EXPECT_EQ(sender().matcher.owes(), 1u);
  talk();
  EXPECT_EQ(receive->failures, 0u);
  card().catch_up();
  EXPECT_TRUE(eventually([&] { return failed() == receive; }));
  EXPECT_EQ(sender().matcher.owes(), 0u);
  receiver().endpoint.release(*receive);
  receiver().synchronize();
}

// More operations fail than the card keeps records of, before anybody looks: whose the rest were is not known.
class LostRecords : public ::testing::Test {
 protected:
  static constexpr uint64_t kKept = 8, kPieces = 20;

  LostRecords() {
    LocalJobOptions options{.local = {}, .strategy = Strategy::kSenderFlag};
    options.local.limits.max_message_bytes = 1;
    options.local.limits.kept_failures = kKept;
    job = std::make_unique<LocalJob>(2, options);
    for (const int tag : {0, 1}) {
      const uint64_t bytes = tag == 0 ? kPieces : 1;
      sends[tag] = &(*job)[0].send(1, tag, bytes, true);
      receives[tag] = &(*job)[1].receive(0, tag, bytes);
    }
    job->match();
    for (const Request* receive : receives)
      EXPECT_TRUE(works((*job)[1].endpoint.nic().deregister_region(receive->buffer)));
    (*job)[1].start(receives);
    (*job)[1].wait(receives);
    (*job)[0].start(sends);
    (*job)[0].wait(sends);
    EXPECT_TRUE(eventually([&] { return (*job)[0].endpoint.nic().failures() == kPieces + 1; }, false));
  }
  bool eventually(const std::function<bool()>& condition, bool talk = true) {
    const auto deadline = LocalJob::Clock::now() + LocalJob::kBound;
    while (!condition()) {
      if (LocalJob::Clock::now() > deadline)
        return false;
      for (uint32_t rank = 0; rank < 2; ++rank) {
        (*job)[rank].helper.help();
        (*job)[rank].stream.poll();
        if (talk)
          (*job)[rank].matcher.progress();
      }
    }
    return true;
  }

  std::unique_ptr<LocalJob> job;
  std::array<Request*, 2> sends{}, receives{};
};

TEST_F(LostRecords, NobodySaysThatAllWentWell) {
  LocalJob::Rank& receiver = (*job)[1];
  std::vector<const Request*> failed;
  EXPECT_TRUE(eventually([&] {
    while (const Request* each = receiver.endpoint.take_failed(*receiver.queue)) {
      failed.push_back(each);
      receiver.endpoint.release(*receiver.endpoint.find(each->number));
    }
    return receiver.stream.poll() && receiver.queue->settled();
  }));
  EXPECT_EQ(failed.size(), 2u);
  EXPECT_EQ(sends[1]->failures, 1u) << "it may have been its own";
  EXPECT_EQ((*job)[0].endpoint.explain_failure(*sends[1]),
            "more operations have failed than the NIC keeps records of, and this request's may be among them");
  for (Request* send : sends)
    (*job)[0].endpoint.release(*send);
  EXPECT_TRUE(eventually([&] { return (*job)[0].stream.poll(); }));
}

// Nor does who frees its send: what it leaves behind is a failure, as far as anybody knows.
TEST_F(LostRecords, ASendThatIsFreedMayHaveFailed) {
  ASSERT_TRUE(eventually([&] { return (*job)[0].stream.poll(); }, false));
  for (Request* send : sends)
    EXPECT_TRUE(works((*job)[0].matcher.free(*send)));
  EXPECT_TRUE(eventually([&] { return receives[0]->failures > 0 && receives[1]->failures > 0; }));
  for (Request* receive : receives)
    (*job)[1].endpoint.release(*receive);
  EXPECT_TRUE(eventually([&] { return (*job)[1].stream.poll(); }));
}

}  // namespace
}  // namespace lanyard
