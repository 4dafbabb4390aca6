// Misuse of requests, queues and streams: the right error class, a message with the facts,
// and no change.
#include <array>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Requesting : MisuseOfPair {};

// ---- The order of matching, starting, waiting

TEST_F(Requesting, StartBeforeMatching) {
  refused([&] { return MPIX_Enqueue_start(queue, pair.at(0)); }, MPI_ERR_REQUEST, {"not matched"});
  refused([&] { return MPIX_Enqueue_startall(queue, 2, pair.data()); }, MPI_ERR_REQUEST, {"request 0", "not matched"});
  refused([&] { return MPIX_Enqueue_wait(queue, pair.at(0)); }, MPI_ERR_REQUEST);
  pair.match();
  verify_pair(pair);
}

TEST_F(Requesting, ASecondStartWithoutAWait) {
  pair.match();
  out.fill(1);
  pair.start(queue);
  refused([&] { return MPIX_Enqueue_start(queue, pair.at(1)); }, MPI_ERR_REQUEST,
          {"send", myself(), "tag 3", "40 B", "wait"});
  refused([&] { return MPIX_Enqueue_start(queue, pair.at(0)); }, MPI_ERR_REQUEST, {"recv", "wait"});
  // Completion does not replace MPIX_Enqueue_wait.
  queue.wait();
  refused([&] { return MPIX_Enqueue_startall(queue, 2, pair.data()); }, MPI_ERR_REQUEST, {"wait"});
  pair.wait(queue);
  verify_pair(pair);
}

TEST_F(Requesting, AWaitWithoutAStart) {
  pair.match();
  refused([&] { return MPIX_Enqueue_wait(queue, pair.at(0)); }, MPI_ERR_REQUEST, {"recv", "tag 3", "start"});
  verify_pair(pair, 1);
  refused([&] { return MPIX_Enqueue_waitall(queue, 2, pair.data()); }, MPI_ERR_REQUEST, {"start"});
  verify_pair(pair);
}

TEST_F(Requesting, AWaitOnAnotherQueue) {
  Stream other_stream;
  Queue other(other_stream);
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
  pair.match();
  MPI_Request match = MPI_REQUEST_NULL;
  refused([&] { return MPIX_Match(pair.at(0), MPI_STATUS_IGNORE); }, MPI_ERR_REQUEST, {"recv", "matched already"});
  refused([&] { return MPIX_Imatch(pair.at(1), &match); }, MPI_ERR_REQUEST, {"send", "matched already"});
  refused([&] { return MPIX_Matchall(2, pair.data(), MPI_STATUSES_IGNORE); }, MPI_ERR_REQUEST, {"request 0"});
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  verify_pair(pair);
}

TEST_F(Requesting, MatchingWhileMatching) {
  MPI_Request match = MPI_REQUEST_NULL, again = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(pair.at(0), &match)));
  refused([&] { return MPIX_Enqueue_start(queue, pair.at(0)); }, MPI_ERR_REQUEST, {"recv", myself(), "tag 3", "40 B"});
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

// ---- Handles that are no persistent requests; arrays

TEST_F(Requesting, AHandleThatWasFreed) {
  pair.match();
  const MPI_Request stale[] = {pair[0], pair[1]};
  pair.free();
  for (MPI_Request copy : stale) {
    refused([&] { return MPIX_Enqueue_start(queue, &copy); }, MPI_ERR_REQUEST);
    refused([&] { return MPIX_Match(&copy, MPI_STATUS_IGNORE); }, MPI_ERR_REQUEST);
  }
}

TEST_F(Requesting, ARequestListedTwice) {
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
  // The last three have not been started.
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 4, good.data())));
  refused([&] { return MPIX_Enqueue_waitall(queue, 6, good.data()); }, MPI_ERR_REQUEST);
  refused([&] { return MPIX_Enqueue_startall(queue, 3, good.at(3)); }, MPI_ERR_REQUEST);
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 4, good.data())));
  queue.wait();
  verify_pair(good);
}

TEST_F(Requesting, NegativeCountsAndNoArrays) {
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
  // Calls on no requests succeed.
  EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue, 0, nullptr)));
  EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue, 0, nullptr)));
  pair.match();
  verify_pair(pair);
}

// ---- Requests that cannot be matched

TEST_F(Requesting, DatatypesThatAreNotFollowed) {
  MPI_Datatype share = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
  const int cells = 8, cyclic = MPI_DISTRIBUTE_CYCLIC, argument = MPI_DISTRIBUTE_DFLT_DARG, processes = 2;
  MPI_Type_create_darray(2, 0, 1, &cells, &cyclic, &argument, &processes, MPI_ORDER_C, MPI_BYTE, &share);
  MPI_Type_contiguous(2, share, &type);
  MPI_Type_commit(&type);
  MPI_Request match = MPI_REQUEST_NULL;
  Requests dealt;
  dealt.receive(in.data(), 1, rank(), 1, MPI_COMM_WORLD, type);
  dealt.send(out.data(), 1, rank(), 1, MPI_COMM_WORLD, Mode::kSend, type);
  refused([&] { return MPIX_Match(dealt.at(0), MPI_STATUS_IGNORE); }, MPI_ERR_UNSUPPORTED_OPERATION,
          {"MPI_Type_create_darray", "MPI_Pack"});
  refused([&] { return MPIX_Imatch(dealt.at(1), &match); }, MPI_ERR_UNSUPPORTED_OPERATION, {"darray"});
  refused([&] { return MPIX_Matchall(2, dealt.data(), MPI_STATUSES_IGNORE); }, MPI_ERR_UNSUPPORTED_OPERATION);
  // MPI itself can use them.
  EXPECT_TRUE(ok(MPI_Startall(2, dealt.data())));
  EXPECT_TRUE(ok(MPI_Waitall(2, dealt.data(), MPI_STATUSES_IGNORE)));
  MPI_Type_free(&share);
  MPI_Type_free(&type);
}

// Started by MPI_Start: the request belongs to MPI until it completes.
TEST_F(Requesting, AStartedRequest) {
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

// One invalid request in the call: none is matched.
TEST_F(Requesting, AFailedMatchallMatchesNone) {
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

// ---- Queues and streams

struct Queueing : MisuseOfPair {};

TEST_F(Queueing, InvalidQueueHandles) {
  pair.match();
  int no_queue = 0;
  MPIX_Queue stale = MPIX_QUEUE_NULL;
  {
    Stream other_stream;
    Queue other(other_stream);
    stale = other.handle();
  }
  for (MPIX_Queue bad : {MPIX_QUEUE_NULL, stale, reinterpret_cast<MPIX_Queue>(&no_queue)}) {
    MPI_Info info = MPI_INFO_NULL;
    MPIX_Queue copy = bad;
    refused([&] { return MPIX_Enqueue_start(bad, pair.at(0)); }, MPIX_ERR_QUEUE, {"queue"});
    refused([&] { return MPIX_Enqueue_startall(bad, 2, pair.data()); }, MPIX_ERR_QUEUE);
    refused([&] { return MPIX_Enqueue_wait(bad, pair.at(0)); }, MPIX_ERR_QUEUE);
    refused([&] { return MPIX_Enqueue_waitall(bad, 2, pair.data()); }, MPIX_ERR_QUEUE);
    refused([&] { return MPIX_Queue_wait(bad); }, MPIX_ERR_QUEUE);
    refused([&] { return MPIX_Queue_free(&copy); }, MPIX_ERR_QUEUE);
    refused([&] { return MPIX_Queue_get_info(bad, &info); }, MPIX_ERR_QUEUE);
    EXPECT_EQ(copy, bad);
    EXPECT_EQ(info, MPI_INFO_NULL);
  }
  refused([&] { return MPIX_Queue_free(nullptr); }, MPIX_ERR_QUEUE);
  refused([&] { return MPIX_Queue_get_info(queue, nullptr); }, MPI_ERR_ARG);
  verify_pair(pair);
}

TEST_F(Queueing, QueuesOfAnInvalidKindOrStream) {
  Stream other;
  MPIX_Queue made = MPIX_QUEUE_NULL;
  MPIX_Host_stream none = MPIX_HOST_STREAM_NULL;
  refused([&] { return MPIX_Queue_init(nullptr, MPIX_QUEUE_HOST, &other.handle()); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Queue_init(&made, MPIX_QUEUE_HOST, nullptr); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Queue_init(&made, MPIX_QUEUE_HOST, &none); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Queue_init(&made, static_cast<MPIX_Queue_type>(0), &other.handle()); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Queue_init(&made, static_cast<MPIX_Queue_type>(99), &other.handle()); }, MPI_ERR_ARG,
          {"99"});
  EXPECT_EQ(made, MPIX_QUEUE_NULL);
  Queue fine(other);
}

TEST_F(Queueing, StreamsOfMissingGpus) {
  void* no_stream = nullptr;
  MPIX_Queue made = MPIX_QUEUE_NULL;
  for (MPIX_Queue_type type : {MPIX_QUEUE_CUDA, MPIX_QUEUE_HIP})
    refused([&] { return MPIX_Queue_init(&made, type, &no_stream); }, MPI_ERR_UNSUPPORTED_OPERATION, {"host"});
  EXPECT_EQ(made, MPIX_QUEUE_NULL);
}

TEST_F(Queueing, AStreamHasOneQueue) {
  MPIX_Queue second = MPIX_QUEUE_NULL;
  refused([&] { return MPIX_Queue_init(&second, MPIX_QUEUE_HOST, &stream.handle()); }, MPIX_ERR_BUSY, {"stream"});
  EXPECT_EQ(second, MPIX_QUEUE_NULL);
  // A stream may get another queue after the first is freed.
  Stream other;
  for (int i = 0; i < 3; ++i)
    Queue one_after_another(other);
}

TEST_F(Queueing, AStreamOutlivesItsQueue) {
  refused([&] { return MPIX_Host_stream_free(&stream.handle()); }, MPIX_ERR_BUSY, {"queue"});
  EXPECT_NE(stream.handle(), MPIX_HOST_STREAM_NULL);
}

// The kernel would wait for itself.
TEST_F(Queueing, AKernelWaitsForNoStream) {
  int waited = MPI_SUCCESS, synchronised = MPI_SUCCESS;
  stream.launch([&] {
    waited = MPIX_Queue_wait(queue);
    synchronised = MPIX_Host_stream_synchronize(stream.handle());
  });
  stream.synchronize();
  EXPECT_TRUE(fails(waited, MPIX_ERR_BUSY, {"MPIX_Queue_wait", "kernel"}));
  EXPECT_TRUE(fails(synchronised, MPIX_ERR_BUSY, {"MPIX_Host_stream_synchronize", "kernel"}));
}

TEST_F(Queueing, InvalidStreamHandles) {
  MPIX_Host_stream freed = MPIX_HOST_STREAM_NULL;
  ASSERT_TRUE(ok(MPIX_Host_stream_create(&freed)));
  ASSERT_TRUE(ok(MPIX_Host_stream_free(&freed)));
  EXPECT_EQ(freed, MPIX_HOST_STREAM_NULL);
  alignas(64) std::array<uint64_t, 256> other_memory{};
  const auto other = reinterpret_cast<MPIX_Host_stream>(other_memory.data());
  for (MPIX_Host_stream bad : {freed, other}) {
    MPIX_Queue made = MPIX_QUEUE_NULL;
    refused(
        [&] {
          return MPIX_Host_stream_launch(
              bad, [](void*) {}, nullptr);
        },
        MPI_ERR_ARG, {"stream"});
    refused([&] { return MPIX_Host_stream_synchronize(bad); }, MPI_ERR_ARG, {"stream"});
    refused([&] { return MPIX_Queue_init(&made, MPIX_QUEUE_HOST, &bad); }, MPI_ERR_ARG, {"stream"});
    MPIX_Host_stream again = bad;
    refused([&] { return MPIX_Host_stream_free(&again); }, MPI_ERR_ARG, {"stream"});
  }
  refused([&] { return MPIX_Host_stream_create(nullptr); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Host_stream_free(nullptr); }, MPI_ERR_ARG);
  refused([&] { return MPIX_Host_stream_launch(stream.handle(), nullptr, nullptr); }, MPI_ERR_ARG);
}

// ---- Freeing with work in flight

TEST_F(Queueing, NoFreeingWithAStartThatHasNoWait) {
  pair.match();
  Stream other_stream;
  Queue other(other_stream);
  out.fill(1);
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(other, 2, pair.data())));
  refused([&] { return MPIX_Queue_free(&other.handle()); }, MPIX_ERR_BUSY, {"wait", "recv", "tag 3", "40 B"});
  ASSERT_NE(other.handle(), MPIX_QUEUE_NULL);
  ASSERT_TRUE(ok(MPIX_Enqueue_wait(other, pair.at(0))));
  refused([&] { return MPIX_Queue_free(&other.handle()); }, MPIX_ERR_BUSY, {"wait", "send", "tag 3", "40 B"});
  ASSERT_TRUE(ok(MPIX_Enqueue_wait(other, pair.at(1))));
  ASSERT_TRUE(ok(MPIX_Queue_free(&other.handle())));
  EXPECT_EQ(other.handle(), MPIX_QUEUE_NULL);
  EXPECT_EQ(in.mistakes(1), 0u);
  verify_pair(pair);
}

}  // namespace
}  // namespace lanyard::api_test
