// Deadlines: what never happens becomes an error that explains itself, and the call can be repeated. Each test waits
// for the deadline once or twice, so there are few of them, with much in each.
#include <cstdlib>
#include <string>

#include "tests/api/api_misuse.h"

namespace lanyard::api_test {
namespace {

struct Stall : Misuse {
  Requests requests;

  void SetUp() override {
    if (partner() == rank())
      GTEST_SKIP() << "needs an even number of ranks";
  }
  void TearDown() override {
    requests.free();
    Misuse::TearDown();
  }
  bool sends() const { return rank() % 2 == 0; }
  // Calls again while the other side is slower than the deadline, as a sanitized build may be.
  template <typename Call>
  static int in_the_end(Call call) {
    constexpr int kDeadlines = 60;
    int code = call();
    for (int i = 1; i < kDeadlines && error_class(code) == MPIX_ERR_STALLED; ++i)
      code = call();
    return code;
  }
  std::string other() const { return "peer " + std::to_string(partner()); }
};

// ---- Matching

// Both match their receive before their send: legal with matchall only.
TEST_F(Stall, BlockingMatchesInOppositeOrders) {
  requests.receive(in.data(), in.count(), partner(), 3);
  requests.send(out.data(), out.count(), partner(), 3);
  EXPECT_TRUE(
      reports([&] { return MPIX_Match(requests.at(0), MPI_STATUS_IGNORE); }, MPIX_ERR_STALLED,
              {"deadline", "recv", other(), "tag 3", "40 B", "not matched", "opposite order", "MPIX_Matchall"}));
  MPI_Barrier(MPI_COMM_WORLD);
  // The receive is still being matched; it belongs to Lanyard until it is.
  int flag = -1;
  EXPECT_TRUE(ok(MPIX_Is_matched(requests[0], &flag)));
  EXPECT_EQ(flag, 0);
  EXPECT_TRUE(fails(MPI_Start(requests.at(0)), MPI_ERR_REQUEST));
  MPI_Barrier(MPI_COMM_WORLD);
  // The same call with what it needs.
  MPI_Status statuses[2];
  ASSERT_TRUE(ok(MPIX_Matchall(2, requests.data(), statuses)));
  EXPECT_EQ(statuses[0].MPI_SOURCE, partner());
  EXPECT_EQ(statuses[0].MPI_TAG, 3);
  out.fill(seed_of(rank(), partner(), 0));
  requests.start(queue);
  requests.wait(queue);
  EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Queue_wait(queue); })));
  EXPECT_EQ(in.mistakes(seed_of(partner(), rank(), 0)), 0u);
}

// Of a call that has given up some requests are matched: the same call goes on with the others.
TEST_F(Stall, AMatchallOfWhichOneIsMadeLate) {
  requests.receive(in.data(), in.count(), partner(), 3);
  requests.receive(in.data(), in.count(), partner(), 4);
  Requests mine;
  mine.send(out.data(), out.count(), partner(), 3);
  mine.send(out.data(), out.count(), partner(), 4);
  MPI_Request first = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(mine.at(0), &first)));
  EXPECT_TRUE(reports([&] { return MPIX_Matchall(2, requests.data(), MPI_STATUSES_IGNORE); }, MPIX_ERR_STALLED,
                      {"not matched", "tag 4"}));
  int flag = -1;
  EXPECT_TRUE(ok(MPIX_Is_matched(requests[0], &flag)));
  EXPECT_EQ(flag, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Request second = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(mine.at(1), &second)));
  EXPECT_TRUE(ok(MPIX_Matchall(2, requests.data(), MPI_STATUSES_IGNORE)));
  EXPECT_TRUE(fails(MPIX_Matchall(2, requests.data(), MPI_STATUSES_IGNORE), MPI_ERR_REQUEST, {"matched already"}));
  EXPECT_TRUE(ok(MPI_Wait(&first, MPI_STATUS_IGNORE)));
  EXPECT_TRUE(ok(MPI_Wait(&second, MPI_STATUS_IGNORE)));
  mine.free();
}

// Who is asked about thousands of requests names some of them.
TEST_F(Stall, ThousandsOfUnmatchedRequests) {
  constexpr int kMany = 3000;
  if (sends()) {
    Requests nobodys;
    nobodys.send(out.data(), out.count(), partner(), kMany);
    EXPECT_TRUE(reports([&] { return MPIX_Match(nobodys.at(0), MPI_STATUS_IGNORE); }, MPIX_ERR_STALLED,
                        {"of the receives for it, these are not matched", "more"}));
    MPI_Barrier(MPI_COMM_WORLD);
    nobodys.free();
    for (int tag = 0; tag < kMany; ++tag)
      requests.send(out.data(), out.count(), partner(), tag, MPI_COMM_WORLD, Mode::kRsend);  // one counter each
    EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Matchall(kMany, requests.data(), MPI_STATUSES_IGNORE); })));
  } else {
    for (int tag = 0; tag < kMany; ++tag)
      requests.receive(in.data(), in.count(), partner(), tag);
    MPI_Request all = MPI_REQUEST_NULL;
    ASSERT_TRUE(ok(MPIX_Imatchall(kMany, requests.data(), &all)));
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_TRUE(ok(in_the_end([&] { return MPI_Wait(&all, MPI_STATUS_IGNORE); })));
  }
}

// A match request in MPI's own waits has the same deadline.
TEST_F(Stall, AMatchRequestThatThePeerMakesLate) {
  MPI_Request match = MPI_REQUEST_NULL;
  if (sends())
    requests.send(out.data(), out.count(), partner(), 3);
  else
    requests.receive(in.data(), in.count(), partner(), 3);
  if (sends()) {
    ASSERT_TRUE(ok(MPIX_Imatch(requests.at(0), &match)));
    EXPECT_TRUE(fails(MPI_Wait(&match, MPI_STATUS_IGNORE), MPIX_ERR_STALLED, {"deadline", "send", other(), "tag 3"}));
    ASSERT_NE(match, MPI_REQUEST_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    ASSERT_TRUE(ok(MPIX_Imatch(requests.at(0), &match)));
  }
  EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  EXPECT_EQ(match, MPI_REQUEST_NULL);
}

// ---- Transfers

struct Direction {
  const char* name;
  Mode mode;
  bool sender_starts;
};

struct OneSide : Stall, ::testing::WithParamInterface<Direction> {};

// After two good iterations one side alone starts the third. Its report names the request and what
// has not happened; when the other has started too, waiting succeeds.
TEST_P(OneSide, StartsAlone) {
  Buffer data(16'384);
  data.poison();
  if (sends())
    requests.send(data.data(), data.count(), partner(), 7, MPI_COMM_WORLD, GetParam().mode);
  else
    requests.receive(data.data(), data.count(), partner(), 7);
  requests.match();
  if (sends())
    data.fill(1);
  for (int i = 0; i < 2; ++i) {
    if (GetParam().mode == Mode::kRsend && sends())
      MPI_Barrier(MPI_COMM_WORLD);
    requests.start(queue);
    if (GetParam().mode == Mode::kRsend && !sends())
      MPI_Barrier(MPI_COMM_WORLD);
    requests.wait(queue);
    EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Queue_wait(queue); })));
  }
  const bool alone = sends() == GetParam().sender_starts;
  if (alone) {
    requests.start(queue);
    requests.wait(queue);
    const std::string partner_rank = "rank " + std::to_string(partner());
    EXPECT_TRUE(reports([&] { return MPIX_Queue_wait(queue); }, MPIX_ERR_STALLED,
                        {"deadline", sends() ? "send" : "recv", other(), "tag 7", "16384 B", "iteration 3", "2 of 3",
                         partner_rank, "has enqueued 2 starts", "start 3 has not been"}));
    // The first missing edge, by the side's own counters.
    EXPECT_TRUE(reports([&] { return MPIX_Queue_wait(queue); }, MPIX_ERR_STALLED,
                        {sends() ? "clear-to-send 3" : "has not landed"}));
    // Freeing waits first, with the same result; nothing is freed.
    EXPECT_TRUE(reports([&] { return MPIX_Queue_free(&queue.handle()); }, MPIX_ERR_STALLED, {"iteration 3"}));
    ASSERT_NE(queue.handle(), MPIX_QUEUE_NULL);
    EXPECT_TRUE(fails(MPI_Request_free(requests.at(0)), MPI_ERR_REQUEST, {"not completed"}));
    if (sends())
      data.fill(2);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (!alone) {
    if (sends())
      data.fill(2);
    requests.start(queue);
    requests.wait(queue);
  }
  EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Queue_wait(queue); })));
  EXPECT_EQ(data.mistakes(2), 0u);
}

INSTANTIATE_TEST_SUITE_P(Of, OneSide,
                         ::testing::Values(Direction{"TheReceiver", Mode::kSend, false},
                                           Direction{"TheSender", Mode::kSend, true},
                                           Direction{"TheReceiverOfAReadySend", Mode::kRsend, false}),
                         [](const auto& info) { return info.param.name; });

// Its own stream is held up: the report must not accuse the peer.
TEST_F(Stall, AStreamThatDoesNotGetToTheStart) {
  add_pair(requests);
  requests.match();
  out.fill(1);
  Gate gate(stream);
  requests.start(queue);
  requests.wait(queue);
  EXPECT_TRUE(reports([&] { return MPIX_Queue_wait(queue); }, MPIX_ERR_STALLED, {"this stream has not reached"}));
  gate.open();
  EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Queue_wait(queue); })));
  EXPECT_EQ(in.mistakes(1), 0u);
}

}  // namespace
}  // namespace lanyard::api_test
