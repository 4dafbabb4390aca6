// Misuse of queues and streams, and queues with work outstanding.
#include <algorithm>
#include <array>

#include "tests/api/api_misuse.h"

namespace lanyard::api_test {
namespace {

struct Queueing : Misuse {};

TEST_F(Queueing, HandlesThatAreNoQueue) {
  Requests pair;
  add_pair(pair);
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

TEST_F(Queueing, QueuesOfNoKindOrStream) {
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

TEST_F(Queueing, StreamsOfGpusThatAreNotThere) {
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
  // Another one once the first has gone.
  Stream other;
  for (int i = 0; i < 3; ++i)
    Queue one_after_another(other);
}

TEST_F(Queueing, AStreamOutlivesItsQueue) {
  refused([&] { return MPIX_Host_stream_free(&stream.handle()); }, MPIX_ERR_BUSY, {"queue"});
  EXPECT_NE(stream.handle(), MPIX_HOST_STREAM_NULL);
}

// It would wait for itself.
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

TEST_F(Queueing, HandlesThatAreNoStream) {
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

// ---- Work outstanding

TEST_F(Queueing, NoFreeingWithAStartThatHasNoWait) {
  Requests pair;
  add_pair(pair);
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
