// Matches that fail: messages longer than their receive. And matched pairs that come and go.
#include <array>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Truncation : ::testing::Test {
  Stream stream;
  Queue queue{stream};
  Buffer shorter{100}, longer{200};

  void SetUp() override {
    if (partner() == rank())
      GTEST_SKIP() << "needs an even number of ranks";
    shorter.poison();
    longer.poison();
  }
  bool sends() const { return rank() % 2 == 0; }
};

TEST_F(Truncation, IsAnErrorOnBothSidesAndLeavesBothRequestsUsable) {
  // The sender has a long and a short message, the receiver a short and a long buffer.
  Requests requests;
  if (sends()) {
    requests.send(longer.data(), longer.count(), partner(), 1);
    requests.send(shorter.data(), shorter.count(), partner(), 1);
  } else {
    requests.receive(shorter.data(), shorter.count(), partner(), 1);
    requests.receive(longer.data(), longer.count(), partner(), 1);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(fails(MPIX_Match(requests.at(0), MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, {"200", "100"}));
    int flag = -1;
    ASSERT_TRUE(ok(MPIX_Is_matched(requests[0], &flag)));
    EXPECT_EQ(flag, 0);
    EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST, {"not matched"}));
  }
  // Each of the two with a fitting partner: the long send with the long receive, then the short
  // ones.
  ASSERT_TRUE(ok(MPIX_Match(requests.at(sends() ? 0 : 1), MPI_STATUS_IGNORE)));
  ASSERT_TRUE(ok(MPIX_Match(requests.at(sends() ? 1 : 0), MPI_STATUS_IGNORE)));
  if (sends()) {
    longer.fill(1);
    shorter.fill(2);
  }
  requests.start(queue);
  requests.wait(queue);
  queue.wait();
  EXPECT_EQ(longer.mistakes(1), 0u);
  EXPECT_EQ(shorter.mistakes(2), 0u);
}

// The request is what it was before Lanyard saw it: MPI itself can start it.
TEST_F(Truncation, LeavesRequestsThatMpiCanStart) {
  Requests requests;
  if (sends())
    requests.send(longer.data(), longer.count(), partner(), 1);
  else
    requests.receive(shorter.data(), shorter.count(), partner(), 1);
  EXPECT_TRUE(fails(MPIX_Match(requests.at(0), MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE));
  MPI_Request other = MPI_REQUEST_NULL;
  if (sends()) {
    longer.fill(3);
    ASSERT_TRUE(ok(MPI_Irecv(shorter.data(), shorter.count(), MPI_BYTE, partner(), 1, MPI_COMM_WORLD, &other)));
  } else {
    ASSERT_TRUE(ok(MPI_Irecv(longer.data(), longer.count(), MPI_BYTE, partner(), 1, MPI_COMM_WORLD, &other)));
    shorter.poison();
  }
  if (sends()) {
    ASSERT_TRUE(ok(MPI_Start(requests.at(0))));
    ASSERT_TRUE(ok(MPI_Wait(requests.at(0), MPI_STATUS_IGNORE)));
    Buffer fitting(100);
    fitting.fill(4);
    MPI_Send(fitting.data(), 100, MPI_BYTE, partner(), 1, MPI_COMM_WORLD);
    ASSERT_TRUE(ok(MPI_Cancel(&other)));
    ASSERT_TRUE(ok(MPI_Wait(&other, MPI_STATUS_IGNORE)));
  } else {
    ASSERT_TRUE(ok(MPI_Wait(&other, MPI_STATUS_IGNORE)));
    EXPECT_EQ(longer.mistakes(3), 0u);
    ASSERT_TRUE(ok(MPI_Start(requests.at(0))));
    ASSERT_TRUE(ok(MPI_Wait(requests.at(0), MPI_STATUS_IGNORE)));
    EXPECT_EQ(shorter.mistakes(4), 0u);
  }
}

TEST_F(Truncation, OfOneAmongManyStandsInItsStatus) {
  std::array<Buffer, 3> buffers{Buffer(100), Buffer(sends() ? 101 : 100), Buffer(100)};
  Requests requests;
  for (int i = 0; i < 3; ++i) {
    Buffer& buffer = buffers[static_cast<size_t>(i)];
    buffer.poison();
    if (sends())
      requests.send(buffer.data(), buffer.count(), partner(), i);
    else
      requests.receive(buffer.data(), buffer.count(), partner(), i);
  }
  std::array<MPI_Status, 3> statuses;
  EXPECT_TRUE(fails(MPIX_Matchall(3, requests.data(), statuses.data()), MPI_ERR_IN_STATUS));
  EXPECT_EQ(statuses[0].MPI_ERROR, MPI_SUCCESS);
  EXPECT_TRUE(fails(statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE, {"101", "100"}));
  EXPECT_EQ(statuses[2].MPI_ERROR, MPI_SUCCESS);
  for (int i = 0; i < 3; ++i) {
    int flag = -1;
    ASSERT_TRUE(ok(MPIX_Is_matched(requests[i], &flag)));
    EXPECT_EQ(flag, i != 1);
  }
  // The others work, and together with the failed one nothing does.
  const Enqueued before(queue);
  EXPECT_TRUE(fails(MPIX_Enqueue_startall(queue, 3, requests.data()), MPI_ERR_REQUEST));
  EXPECT_EQ(Enqueued(queue), before);
  std::array<MPI_Request, 2> good{requests[0], requests[2]};
  if (sends())
    for (Buffer& buffer : buffers)
      buffer.fill(9);
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 2, good.data())));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 2, good.data())));
  queue.wait();
  EXPECT_EQ(buffers[0].mistakes(9), 0u);
  EXPECT_EQ(buffers[2].mistakes(9), 0u);
  if (!sends()) {
    EXPECT_TRUE(buffers[1].untouched());
  }
}

TEST_F(Truncation, ComesOutOfAMatchRequest) {
  Requests requests;
  if (sends())
    requests.send(longer.data(), longer.count(), partner(), 1);
  else
    requests.receive(shorter.data(), shorter.count(), partner(), 1);
  // By MPI_Wait, by MPI_Test and by MPI_Waitall.
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(requests.at(0), &match)));
  EXPECT_TRUE(fails(MPI_Wait(&match, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, {"200", "100"}));
  EXPECT_EQ(match, MPI_REQUEST_NULL);

  ASSERT_TRUE(ok(MPIX_Imatchall(1, requests.data(), &match)));
  int flag = 0, code = MPI_SUCCESS;
  while (!flag && code == MPI_SUCCESS)
    code = MPI_Test(&match, &flag, MPI_STATUS_IGNORE);
  EXPECT_TRUE(fails(code, MPI_ERR_TRUNCATE, {"200", "100"}));
  EXPECT_EQ(match, MPI_REQUEST_NULL);

  int message = -1, rank_out = rank();
  std::array<MPI_Request, 3> all;
  MPI_Irecv(&message, 1, MPI_INT, partner(), 2, MPI_COMM_WORLD, &all[0]);
  ASSERT_TRUE(ok(MPIX_Imatch(requests.at(0), &all[1])));
  MPI_Isend(&rank_out, 1, MPI_INT, partner(), 2, MPI_COMM_WORLD, &all[2]);
  std::array<MPI_Status, 3> statuses;
  for (MPI_Status& status : statuses)
    status.MPI_ERROR = MPI_SUCCESS;
  EXPECT_TRUE(fails(MPI_Waitall(3, all.data(), statuses.data()), MPI_ERR_IN_STATUS));
  EXPECT_TRUE(fails(statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE, {"200", "100"}));
  for (MPI_Request& request : all)
    if (request != MPI_REQUEST_NULL) {
      ASSERT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));
    }
  EXPECT_EQ(message, partner());
}

// A longer receive than the message is no error: only what was sent is written.
TEST_F(Truncation, IsNotAShortMessage) {
  Requests requests;
  if (sends())
    requests.send(shorter.data(), shorter.count(), partner(), 1);
  else
    requests.receive(longer.data(), longer.count(), partner(), 1);
  requests.match();
  if (sends())
    shorter.fill(5);
  for (int i = 0; i < 3; ++i) {
    requests.start(queue);
    requests.wait(queue);
  }
  queue.wait();
  if (!sends()) {
    EXPECT_EQ(longer.mistakes(5, 100), 0u);
  }
}

// ---- Coming and going

struct Resources {
  uint64_t counters, regions, entries_in_use;
  explicit Resources(const Queue& queue)
      : counters(queue.figure("counters")),
        regions(queue.figure("regions")),
        entries_in_use(queue.figure("entries_in_use")) {}
  friend bool operator==(const Resources&, const Resources&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Resources& r) {
    return out << r.counters << " counters, " << r.regions << " regions, " << r.entries_in_use << " entries";
  }
};

TEST(Lifetimes, FreedRequestsLeaveNothingBehind) {
  Stream stream;
  Queue queue(stream);
  Buffer out(64), in(64);
  std::vector<Resources> after;
  const uint64_t failures_before = queue.figure("failures");  // the process's
  for (int i = 0; i < 1000; ++i) {
    {
      Requests requests;
      requests.receive(in.data(), in.count(), partner(), 1);
      requests.send(out.data(), out.count(), partner(), 1, MPI_COMM_WORLD, i % 2 == 0 ? Mode::kSend : Mode::kSsend);
      requests.match();
      out.fill(seed_of(rank(), partner(), i));
      in.poison();
      requests.start(queue);
      requests.wait(queue);
      queue.wait();
      ASSERT_EQ(in.mistakes(seed_of(partner(), rank(), i)), 0u) << "cycle " << i;
    }
    if (i == 10 || i == 999)
      after.emplace_back(queue);
  }
  EXPECT_EQ(after.front(), after.back());
  EXPECT_EQ(queue.figure("failures"), failures_before);
}

TEST(Lifetimes, AMatchedRequestThatWasNeverStartedLeavesNothingBehind) {
  Stream stream;
  Queue queue(stream);
  int out = 0, in = 0;
  std::vector<Resources> after;
  for (int i = 0; i < 100; ++i) {
    Requests requests;
    requests.receive(&in, sizeof in, partner(), 1);
    requests.send(&out, sizeof out, partner(), 1, MPI_COMM_WORLD, i % 2 == 0 ? Mode::kSend : Mode::kRsend);
    requests.match();
    requests.free();
    after.emplace_back(queue);
  }
  EXPECT_EQ(after[1], after.back());
}

TEST(Lifetimes, AFailedMatchLeavesNothingBehind) {
  Stream stream;
  Queue queue(stream);
  Buffer out(20), in(10);
  const Resources before(queue);
  Requests requests;
  requests.receive(in.data(), in.count(), rank(), 1);
  requests.send(out.data(), out.count(), rank(), 1);
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(fails(MPIX_Matchall(2, requests.data(), MPI_STATUSES_IGNORE), MPI_ERR_IN_STATUS, {"20", "10"}));
  EXPECT_EQ(Resources(queue), before);
}

// As users do who build their requests anew for every phase, with other buffers at the same
// addresses.
TEST(Lifetimes, ManyRequestsAtOnce) {
  Stream stream;
  Queue queue(stream);
  constexpr int kCount = 300;
  for (int phase = 0; phase < 2; ++phase) {
    std::vector<int> out(kCount), in(kCount, -1);
    Requests requests;
    for (size_t i = 0; i < kCount; ++i) {
      out[i] = static_cast<int>(i) + 1000 * rank() + phase;
      requests.receive(&in[i], sizeof(int), partner(), static_cast<int>(i));
      requests.send(&out[i], sizeof(int), partner(), static_cast<int>(i));
    }
    requests.match();
    for (int i = 0; i < 3; ++i) {
      requests.start(queue);
      requests.wait(queue);
    }
    queue.wait();
    for (size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(in[i], static_cast<int>(i) + 1000 * partner() + phase);
  }
}

}  // namespace
}  // namespace lanyard::api_test
