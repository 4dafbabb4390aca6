// Failures in an exchange: which requests learn of them, what the stream does, and what a stall
// report says (api/doc/protocol.md, P9 and P14).
#include <array>
#include <string>
#include <vector>

#include "tests/core/core_exchange_test.h"

namespace lanyard {
namespace {

using core::Direction;

struct ExchangeFailures : ExchangeTest {
  std::string stall() { return us().queue->explain_stall(); }
  void start_one(size_t which) { EXPECT_TRUE(works(peer().queue->start(std::array{theirs[which]}))); }
  void deliver_news() {
    job.run();
    for (uint32_t rank : {0u, 1u})
      job[rank].matcher.progress();
    job.match();
    job.run();
  }
  void expect_released() {
    job.run();
    EXPECT_TRUE(us().stream.empty());
    EXPECT_TRUE(us().queue->settled());
    EXPECT_TRUE(release_failed(us()).empty()) << "a request is reported twice";
    const Status status = us().queue->start(ours);
    EXPECT_EQ(status.code(), Code::kFailed) << status.to_string();
  }
  void free_ours() {
    for (Request* request : ours)
      free(us(), request);
    ours.clear();
    deliver_news();
  }
};

TEST_F(ExchangeFailures, AFreedReceiverFailsTheWholeExchange) {
  build(3, 2);
  iteration();
  free(peer(), theirs[1]);  // the other side of a regular send; our side does not know yet
  theirs.erase(theirs.begin() + 1);
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  start_theirs();
  wait_theirs();
  deliver_news();
  EXPECT_FALSE(us().stream.empty());
  EXPECT_FALSE(us().queue->settled());
  EXPECT_EQ(us().endpoint.free_request(ours[0]).code(), Code::kInvalidState);
  EXPECT_EQ(release_failed(us()), std::vector<const Request*>{ours[1]});
  expect_released();
  EXPECT_EQ(us().endpoint.explain_failure(*ours[0]),
            "its exchange \"halo\" has failed with (send, peer 1, tag 1, 64 B)");
  EXPECT_EQ(us().endpoint.explain_failure(*ours[1]), "rank 1 has freed its request");
  // Nothing was sent to the other requests, which would wait forever: they must fail too.
  deliver_news();
  EXPECT_EQ(release_failed(peer()).size(), 2u) << "only the receives fail; the sends have completed";
  job.run();
  EXPECT_TRUE(peer().stream.empty());
  EXPECT_EQ(peer().queue->start(std::array{theirs[3]}).code(), Code::kFailed) << "its receive has failed";
  free_all();
}

TEST_F(ExchangeFailures, AFailedMessageDoesNotCountAsLanded) {
  build(1, 2);
  iteration();
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  job.run();
  start_one(0);
  start_one(1);
  job.run();
  EXPECT_EQ(us().stream.size(), 1u) << "the wait must not pass without the last message";
  job.fabric.lose(1, 0);  // its NIC loses rank 0, so that the last write fails
  start_one(2);
  wait_theirs();
  deliver_news();
  EXPECT_EQ(us().stream.size(), 1u) << "a failed message counts as landed";
  EXPECT_EQ(release_failed(peer()), std::vector<const Request*>{theirs[2]});
  deliver_news();
  EXPECT_EQ(release_failed(us()), std::vector<const Request*>{ours[2]});
  expect_released();
  EXPECT_GT(ours[0]->failures + ours[1]->failures, 0u);
  EXPECT_TRUE(us().endpoint.has_unannounced_failures()) << "the peers do not know of the failures yet";
  free_ours();
}

// The stream still runs the starts that were enqueued before the release.
TEST_F(ExchangeFailures, AReleasedReceiverSendsNoMoreClearToSends) {
  build(2, 0);
  iteration();
  ASSERT_TRUE(theirs[0]->trigger.valid()) << "needs a trigger of its own";
  for (int start = 0; start < 2; ++start) {
    start_one(0);
    EXPECT_TRUE(works(peer().queue->wait(std::array{theirs[0]})));
  }
  job.run();
  EXPECT_EQ(ours[0]->clearances(), 2u);
  peer().endpoint.failures().add(*theirs[0], Code::kFailed);
  EXPECT_EQ(release_failed(peer()), std::vector<const Request*>{theirs[0]});
  job.run();
  EXPECT_TRUE(peer().stream.empty());
  EXPECT_EQ(ours[0]->clearances(), 2u) << "a clear-to-send of the third start was sent";
  deliver_news();
  EXPECT_EQ(release_failed(us()), std::vector<const Request*>{}) << "none of our requests is in flight";
  EXPECT_EQ(us().queue->start(ours).code(), Code::kFailed);
  free_all();
}

// ---- Stall reports

TEST_F(ExchangeFailures, NamesTheMissingClearToSends) {
  build(3, 1);
  iteration();
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  EXPECT_EQ(stall(),
            "the exchange \"halo\" (3 sends, 1 receives) waits for iteration 2: done word 1 of 2 <- counter of "
            "messages 4 of 8 <- this stream has not reached start 2");
  job.run();
  start_one(0);
  start_one(3);
  job.run();
  EXPECT_EQ(stall(),
            "the exchange \"halo\" (3 sends, 1 receives) waits for iteration 2: done word 1 of 2 <- counter of "
            "messages 5 of 8 <- clear-to-send 2 from rank 1 has not arrived (send, peer 1, tag 1, 64 B) <- "
            "clear-to-send 2 from rank 1 has not arrived (send, peer 1, tag 2, 64 B)");
  const core::Queue::Explanation why = us().queue->explain(*ours[0], 2);
  EXPECT_EQ(why.about, ours[1]);
  EXPECT_EQ(why.missing, core::Queue::Missing::kPeer);
  EXPECT_EQ(us().queue->head().request, ours[0]);
  EXPECT_EQ(us().queue->progress_of(*ours[3], 2), core::Queue::Progress::kReached);
  EXPECT_EQ(us().queue->progress_of(*ours[3], 3), core::Queue::Progress::kNotStarted);
}

TEST_F(ExchangeFailures, CountsTheMissingMessages) {
  build(1, 2);
  iteration();
  EXPECT_TRUE(works(us().queue->start(ours)));
  EXPECT_TRUE(works(us().queue->wait(ours)));
  start_one(0);
  start_one(2);
  job.run();
  EXPECT_EQ(stall(),
            "the exchange \"halo\" (1 sends, 2 receives) waits for iteration 2: done word 1 of 2 <- counter of "
            "messages 5 of 6 <- 1 missing, of the messages from rank 1, rank 1 and the acknowledgements of rank 1");
  EXPECT_EQ(us().queue->explain(*ours[0], 2).about, ours[1]);
  // For a member, the report names the member itself.
  EXPECT_EQ(us().queue->explain_part(*ours[0], 2).missing, core::Queue::Missing::kAnswer);
  EXPECT_EQ(us().queue->explain_part(*ours[2], 2).about, ours[2]);
}

}  // namespace
}  // namespace lanyard
