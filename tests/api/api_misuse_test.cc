// Misuse of requests in matching and enqueuing: the right error class, a message with the facts, nothing changed.
#include <array>

#include "tests/api/api_misuse.h"

namespace lanyard::api_test {
namespace {

struct Requesting : Misuse {};

// ---- The order of matching, starting, waiting

TEST_F(Requesting, StartBeforeMatching) {
  Requests pair;
  add_pair(pair);
  refused([&] { return MPIX_Enqueue_start(queue, pair.at(0)); }, MPI_ERR_REQUEST, {"not matched"});
  refused([&] { return MPIX_Enqueue_startall(queue, 2, pair.data()); }, MPI_ERR_REQUEST, {"request 0", "not matched"});
  refused([&] { return MPIX_Enqueue_wait(queue, pair.at(0)); }, MPI_ERR_REQUEST);
  pair.match();
  verify_pair(pair);
}

TEST_F(Requesting, StartWhileMatching) {
  Requests pair;
  add_pair(pair);
  MPI_Request matches[2];
  ASSERT_TRUE(ok(MPIX_Imatch(pair.at(0), &matches[0])));
  refused([&] { return MPIX_Enqueue_start(queue, pair.at(0)); }, MPI_ERR_REQUEST, {"recv", myself(), "tag 3", "40 B"});
  ASSERT_TRUE(ok(MPIX_Imatch(pair.at(1), &matches[1])));
  ASSERT_TRUE(ok(MPI_Waitall(2, matches, MPI_STATUSES_IGNORE)));
  verify_pair(pair);
}

TEST_F(Requesting, ASecondStartWithoutAWait) {
  Requests pair;
  add_pair(pair);
  pair.match();
  out.fill(1);
  pair.start(queue);
  refused([&] { return MPIX_Enqueue_start(queue, pair.at(1)); }, MPI_ERR_REQUEST,
          {"send", myself(), "tag 3", "40 B", "wait"});
  refused([&] { return MPIX_Enqueue_start(queue, pair.at(0)); }, MPI_ERR_REQUEST, {"recv", "wait"});
  // Completion does not replace the wait.
  queue.wait();
  refused([&] { return MPIX_Enqueue_startall(queue, 2, pair.data()); }, MPI_ERR_REQUEST, {"wait"});
  pair.wait(queue);
  verify_pair(pair);
}

TEST_F(Requesting, AWaitWithoutAStart) {
  Requests pair;
  add_pair(pair);
  pair.match();
  refused([&] { return MPIX_Enqueue_wait(queue, pair.at(0)); }, MPI_ERR_REQUEST, {"recv", "tag 3", "start"});
  verify_pair(pair, 1);
  refused([&] { return MPIX_Enqueue_waitall(queue, 2, pair.data()); }, MPI_ERR_REQUEST, {"start"});
  verify_pair(pair);
}

TEST_F(Requesting, AWaitOnAnotherQueue) {
  Stream other_stream;
  Queue other(other_stream);
  Requests pair;
  add_pair(pair);
  pair.match();
  out.fill(1);
  pair.start(queue);
  const Enqueued before(other);
  refused([&] { return MPIX_Enqueue_waitall(other, 2, pair.data()); }, MPI_ERR_REQUEST, {"another queue", "recv"});
  EXPECT_EQ(Enqueued(other).waits, before.waits);
  pair.wait(queue);
  queue.wait();
  EXPECT_EQ(in.mistakes(1), 0u);
}

TEST_F(Requesting, MatchingTwice) {
  Requests pair;
  add_pair(pair);
  pair.match();
  MPI_Request match = MPI_REQUEST_NULL;
  refused([&] { return MPIX_Match(pair.at(0), MPI_STATUS_IGNORE); }, MPI_ERR_REQUEST, {"recv", "matched already"});
  refused([&] { return MPIX_Imatch(pair.at(1), &match); }, MPI_ERR_REQUEST, {"send", "matched already"});
  refused([&] { return MPIX_Matchall(2, pair.data(), MPI_STATUSES_IGNORE); }, MPI_ERR_REQUEST, {"request 0"});
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  verify_pair(pair);
}

TEST_F(Requesting, MatchingWhileMatching) {
  Requests pair;
  add_pair(pair);
  MPI_Request match = MPI_REQUEST_NULL, again = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(pair.at(0), &match)));
  refused([&] { return MPIX_Imatch(pair.at(0), &again); }, MPI_ERR_REQUEST, {"being matched"});
  refused([&] { return MPIX_Match(pair.at(0), MPI_STATUS_IGNORE); }, MPI_ERR_REQUEST, {"being matched"});
  refused([&] { return MPIX_Matchall(2, pair.data(), MPI_STATUSES_IGNORE); }, MPI_ERR_REQUEST, {"being matched"});
  refused([&] { return MPI_Start(pair.at(0)); }, MPI_ERR_REQUEST);
  refused([&] { return MPI_Request_free(pair.at(0)); }, MPI_ERR_REQUEST, {"matched"});
  ASSERT_NE(pair[0], MPI_REQUEST_NULL);
  ASSERT_TRUE(ok(MPIX_Match(pair.at(1), MPI_STATUS_IGNORE)));
  ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  verify_pair(pair);
}

// ---- What is not a persistent request, and arrays

TEST_F(Requesting, AHandleThatWasFreed) {
  Requests pair;
  add_pair(pair);
  pair.match();
  const MPI_Request stale[] = {pair[0], pair[1]};
  pair.free();
  for (MPI_Request copy : stale) {
    refused([&] { return MPIX_Enqueue_start(queue, &copy); }, MPI_ERR_REQUEST);
    refused([&] { return MPIX_Match(&copy, MPI_STATUS_IGNORE); }, MPI_ERR_REQUEST);
  }
}

TEST_F(Requesting, OneStandsInACallTwice) {
  Requests pair;
  add_pair(pair);
  std::array<MPI_Request, 3> twice{pair[0], pair[1], pair[0]};
  MPI_Request match = MPI_REQUEST_NULL;
  refused([&] { return MPIX_Matchall(3, twice.data(), MPI_STATUSES_IGNORE); }, MPI_ERR_REQUEST, {"request 2", "twice"});
  refused([&] { return MPIX_Imatchall(3, twice.data(), &match); }, MPI_ERR_REQUEST, {"request 2", "twice"});
  pair.match();
  refused([&] { return MPIX_Enqueue_startall(queue, 3, twice.data()); }, MPI_ERR_REQUEST, {"recv", "twice"});
  pair.start(queue);
  refused([&] { return MPIX_Enqueue_waitall(queue, 3, twice.data()); }, MPI_ERR_REQUEST, {"recv", "twice"});
  pair.wait(queue);
  queue.wait();
  verify_pair(pair);
}

TEST_F(Requesting, AllOrNone) {
  Requests good, unmatched;
  for (int tag = 0; tag < 3; ++tag)
    add_pair(good, tag);
  good.match();
  add_pair(unmatched, 9);
  for (int bad = 0; bad < 7; ++bad) {
    std::vector<MPI_Request> requests(good.data(), good.data() + 6);
    requests.insert(requests.begin() + bad, unmatched[0]);
    refused([&] { return MPIX_Enqueue_startall(queue, 7, requests.data()); }, MPI_ERR_REQUEST,
            {"request " + std::to_string(bad)});
  }
  // The last three have no start.
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 4, good.data())));
  refused([&] { return MPIX_Enqueue_waitall(queue, 6, good.data()); }, MPI_ERR_REQUEST);
  refused([&] { return MPIX_Enqueue_startall(queue, 3, good.at(3)); }, MPI_ERR_REQUEST);
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 4, good.data())));
  queue.wait();
  verify_pair(good);
}

TEST_F(Requesting, NegativeCountsAndNoArrays) {
  Requests pair;
  add_pair(pair);
  MPI_Request match = MPI_REQUEST_NULL;
  refused([&] { return MPIX_Matchall(-1, pair.data(), MPI_STATUSES_IGNORE); }, MPI_ERR_COUNT);
  refused([&] { return MPIX_Imatchall(-1, pair.data(), &match); }, MPI_ERR_COUNT);
  refused([&] { return MPIX_Enqueue_startall(queue, -1, pair.data()); }, MPI_ERR_COUNT);
  refused([&] { return MPIX_Enqueue_waitall(queue, -1, pair.data()); }, MPI_ERR_COUNT);
  refused([&] { return MPIX_Match(nullptr, MPI_STATUS_IGNORE); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Matchall(2, nullptr, MPI_STATUSES_IGNORE); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Imatch(nullptr, &match); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Imatch(pair.at(0), nullptr); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Imatchall(2, pair.data(), nullptr); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Enqueue_start(queue, nullptr); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Enqueue_startall(queue, 2, nullptr); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Enqueue_wait(queue, nullptr); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Enqueue_waitall(queue, 2, nullptr); }, MPI_ERR_ARG);
  // Nothing is nothing, and no error.
  EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue, 0, nullptr)));
  EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue, 0, nullptr)));
  pair.match();
  verify_pair(pair);
}

TEST_F(Requesting, BadArgumentsOfTheMpisOwnCalls) {
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_TRUE(fails(MPI_Send_init(out.data(), -1, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request), MPI_ERR_COUNT));
  EXPECT_TRUE(fails(MPI_Recv_init(in.data(), 1, MPI_BYTE, ranks(), 1, MPI_COMM_WORLD, &request), MPI_ERR_RANK));
  EXPECT_TRUE(fails(MPI_Send_init(out.data(), 1, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request), MPI_ERR_RANK));
  EXPECT_TRUE(fails(MPI_Ssend_init(out.data(), 1, MPI_BYTE, 0, -5, MPI_COMM_WORLD, &request), MPI_ERR_TAG));
  EXPECT_TRUE(fails(MPI_Rsend_init(out.data(), 1, MPI_DATATYPE_NULL, 0, 1, MPI_COMM_WORLD, &request), MPI_ERR_TYPE));
}

// ---- What cannot be matched at all

TEST_F(Requesting, DatatypesThatAreNotFollowed) {
  MPI_Datatype share = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
  const int cells = 8, cyclic = MPI_DISTRIBUTE_CYCLIC, argument = MPI_DISTRIBUTE_DFLT_DARG, processes = 2;
  MPI_Type_create_darray(2, 0, 1, &cells, &cyclic, &argument, &processes, MPI_ORDER_C, MPI_BYTE, &share);
  MPI_Type_contiguous(2, share, &type);
  MPI_Type_commit(&type);
  MPI_Request match = MPI_REQUEST_NULL;
  Requests pair;
  pair.receive(in.data(), 1, rank(), 1, MPI_COMM_WORLD, type);
  pair.send(out.data(), 1, rank(), 1, MPI_COMM_WORLD, Mode::kSend, type);
  refused([&] { return MPIX_Match(pair.at(0), MPI_STATUS_IGNORE); }, MPI_ERR_UNSUPPORTED_OPERATION,
          {"MPI_Type_create_darray", "MPI_Pack"});
  refused([&] { return MPIX_Imatch(pair.at(1), &match); }, MPI_ERR_UNSUPPORTED_OPERATION, {"darray"});
  refused([&] { return MPIX_Matchall(2, pair.data(), MPI_STATUSES_IGNORE); }, MPI_ERR_UNSUPPORTED_OPERATION);
  // MPI itself can use them.
  EXPECT_TRUE(ok(MPI_Startall(2, pair.data())));
  EXPECT_TRUE(ok(MPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE)));
  MPI_Type_free(&share);
  MPI_Type_free(&type);
}

// MPI's own start is under way: the request is MPI's until it has completed.
TEST_F(Requesting, AStartedRequest) {
  Requests pair;
  add_pair(pair);
  ASSERT_TRUE(ok(MPI_Start(pair.at(0))));
  MPI_Request match = MPI_REQUEST_NULL;
  refused([&] { return MPIX_Match(pair.at(0), MPI_STATUS_IGNORE); }, MPI_ERR_REQUEST, {"MPI_Start"});
  refused([&] { return MPIX_Imatchall(2, pair.data(), &match); }, MPI_ERR_REQUEST, {"MPI_Start"});
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  ASSERT_TRUE(ok(MPI_Start(pair.at(1))));
  ASSERT_TRUE(ok(MPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE)));
  pair.match();
  verify_pair(pair);
}

// One unfit request keeps the others of the call from being matched.
TEST_F(Requesting, AFailedMatchallMatchesNone) {
  Requests pair;
  add_pair(pair);
  std::array<MPI_Request, 3> bad{pair[0], pair[1], MPI_REQUEST_NULL};
  MPI_Request match = MPI_REQUEST_NULL;
  refused([&] { return MPIX_Matchall(3, bad.data(), MPI_STATUSES_IGNORE); }, MPI_ERR_REQUEST, {"request 2"});
  refused([&] { return MPIX_Imatchall(3, bad.data(), &match); }, MPI_ERR_REQUEST, {"request 2"});
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  for (int i = 0; i < 2; ++i) {
    int flag = 1;
    ASSERT_TRUE(ok(MPIX_Is_matched(pair[i], &flag)));
    EXPECT_FALSE(flag);
  }
  ASSERT_TRUE(ok(MPI_Startall(2, pair.data())));
  ASSERT_TRUE(ok(MPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE)));
  pair.match();
  verify_pair(pair);
}

}  // namespace
}  // namespace lanyard::api_test
