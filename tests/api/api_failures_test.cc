// Failed messages: each side gets an error, no call reports success, and failed
// requests can be freed.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

// ---- MPIX_Queue_wait reports a failure at once. LANYARD_TEST_SENDS: number of tries

int tries() {
  const char* const number = std::getenv("LANYARD_TEST_SENDS");
  return number == nullptr ? 100 : std::max(1, std::atoi(number));
}

// Rank 0: a ready send to rank 1, which has freed its receive, so that the write finds no region.
// Other ranks: null.
MPI_Request doomed_send(Buffer& buffer) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 0)
    MPI_Rsend_init(buffer.data(), buffer.count(), MPI_BYTE, 1, 5, MPI_COMM_WORLD, &request);
  if (rank() == 1)
    MPI_Recv_init(buffer.data(), buffer.count(), MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
  if (rank() < 2) {
    EXPECT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
  }
  if (rank() == 1) {
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return request;
}

// Synchronizes ranks 0 and 1.
void meet() {
  MPI_Sendrecv(nullptr, 0, MPI_BYTE, 1 - rank(), 9, nullptr, 0, MPI_BYTE, 1 - rank(), 9, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

::testing::AssertionResult names_the_send(MPIX_Queue queue) {
  return fails(MPIX_Queue_wait(queue), MPIX_ERR_FAILED, {"rsend, peer 1, tag 5, 40 B"});
}

struct Silent : OnAQueue {
  void TearDown() override {
    MPI_Barrier(MPI_COMM_WORLD);
    verify_exchange(queue, stream);
  }
};

// With the request's wait enqueued before the failure or after it. Request, queue and
// stream can be freed.
TEST_F(Silent, AFailedSendIsNeverReportedAsSuccess) {
  Buffer buffer(40);
  int silent = 0;
  for (int i = 0; i < tries(); ++i) {
    MPI_Request request = doomed_send(buffer);
    if (rank() == 0) {
      Stream stream;
      Queue queue(stream);
      EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
      if (i % 2 == 0) {
        EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
      }
      silent += !names_the_send(queue);
      while (silent > 0 && MPIX_Queue_wait(queue) != MPI_SUCCESS) {
      }
      if (i % 2 == 1) {
        EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
      }
      EXPECT_TRUE(ok(MPIX_Queue_wait(queue))) << "the failure is reported twice";
      EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, &request), MPIX_ERR_FAILED));
      step("freeing a failed request");
      EXPECT_TRUE(ok(MPI_Request_free(&request)));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  EXPECT_EQ(silent, 0) << "of " << tries();
}

// The receiver gets an error at once too, with either strategy. Only the sender's NIC can see that
// the send buffer is not readable.
TEST_F(Silent, AReceiveWithoutItsDataIsNeverReportedAsSuccess) {
  constexpr size_t kBytes = size_t{1} << 16;
  int silent = 0, told = 0;
  for (int i = 0; i < tries() / 2 && rank() < 2; ++i) {
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    std::memset(memory, rank() + 1, kBytes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank() == 0)
      MPI_Recv_init(memory, kBytes, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &request);
    else
      MPI_Send_init(memory, kBytes, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &request);
    EXPECT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
    meet();
    // Protected, not unmapped: other memory could be mapped there and sent.
    if (rank() == 1) {
      EXPECT_EQ(mprotect(memory, kBytes, PROT_NONE), 0);
    }
    EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
    EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
    const int code = MPIX_Queue_wait(queue);
    if (rank() == 0)
      silent += code == MPI_SUCCESS && static_cast<char*>(memory)[kBytes - 1] != 2;
    told += code != MPI_SUCCESS ? 1 : 0;
    while (MPIX_Queue_wait(queue) != MPI_SUCCESS) {
    }
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
    munmap(memory, kBytes);
    meet();
  }
  EXPECT_EQ(silent, 0) << "of " << tries() / 2;
  EXPECT_EQ(told, rank() < 2 ? tries() / 2 : 0) << "the NIC reads protected memory";
}

// After the wait the stream combines whatever has arrived, so MPIX_Queue_wait must fail. The
// missing contribution is unreadable while it is sent and readable again when its own
// process combines.
TEST_F(Silent, ASumWithoutAContributionIsNeverReportedAsSuccess) {
  constexpr int kCount = 1 << 14;
  constexpr size_t kBytes = kCount * sizeof(int);
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank() < 2 ? 0 : MPI_UNDEFINED, rank(), &pair);
  for (int i = 0; i < 10 && rank() < 2; ++i) {
    MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    int* const own = static_cast<int*>(memory);
    std::vector<int> sum(kCount, -1);
    const auto contribute = [&](int round) { std::fill_n(own, kCount, 100 * round + rank()); };
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_TRUE(ok(MPIX_Allreduce_init(own, sum.data(), kCount, MPI_INT, MPI_SUM, pair, MPI_INFO_NULL, &request)));
    ASSERT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
    contribute(1);
    EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
    EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
    EXPECT_TRUE(ok(MPIX_Queue_wait(queue)));
    EXPECT_EQ(sum, std::vector<int>(kCount, 201));
    contribute(2);
    meet();
    if (rank() == 1) {
      EXPECT_EQ(mprotect(own, kBytes, PROT_NONE), 0);
    }
    EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
    if (rank() == 1) {
      const Gate gate(stream);
      EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
      meet();
      EXPECT_EQ(mprotect(own, kBytes, PROT_READ | PROT_WRITE), 0);
    } else {
      EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
      EXPECT_TRUE(fails(MPIX_Queue_wait(queue), MPIX_ERR_FAILED));
      meet();
    }
    while (MPIX_Queue_wait(queue) != MPI_SUCCESS) {
    }
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
    munmap(own, kBytes);
    meet();
  }
  if (pair != MPI_COMM_NULL)
    MPI_Comm_free(&pair);
}

// ---- A ready send started by mistake after its receive was freed

struct Stale : OnAQueue {
  static constexpr int kTries = 20;

  Buffer stale{40}, good{40};

  void SetUp() override { NEEDS_A_PARTNER(); }

  void match(Requests& requests, int i) { ASSERT_TRUE(ok(MPIX_Match(requests.at(i), MPI_STATUS_IGNORE))); }
  void start_and_wait(Requests& requests, int i) {
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(i))));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, requests.at(i))));
  }
};

TEST_F(Stale, AReadySendCompletesNoOtherReceive) {
  size_t wrong = 0;
  for (int i = 0; i < kTries; ++i) {
    Requests requests;
    const int first = requests.half(stale.data(), stale.count(), 1, Mode::kRsend);
    match(requests, first);
    // The freed receive returns its done word, and the next one gets it.
    if (!sends()) {
      ASSERT_TRUE(ok(MPI_Request_free(requests.at(first))));
    }
    const int second = requests.half(good.data(), good.count(), 2);
    match(requests, second);

    const uint64_t seed = seed_of(sends() ? rank() : partner(), sends() ? partner() : rank(), i);
    good.poison();
    if (!sends()) {
      start_and_wait(requests, second);
      stream.launch([&] { wrong += good.mistakes(seed); });
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (sends()) {
      start_and_wait(requests, first);
      EXPECT_TRUE(
          fails(MPIX_Queue_wait(queue), MPIX_ERR_FAILED, {"rsend, peer " + std::to_string(partner()) + ", tag 1"}));
      EXPECT_TRUE(ok(MPIX_Queue_wait(queue))) << "the failure is reported twice";
    }
    MPI_Barrier(MPI_COMM_WORLD);
    // Gives a stream that runs on by mistake the time to do so.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    MPI_Barrier(MPI_COMM_WORLD);
    if (sends()) {
      good.fill(seed);
      start_and_wait(requests, second);
    }
    queue.wait();
    EXPECT_EQ(wrong, 0u) << "try " << i;
  }
  verify_exchange(queue, stream);
}

// ---- The peer has freed its request

struct Abandoned : ::testing::Test {
  MPIX_Host_stream stream = MPIX_HOST_STREAM_NULL;
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  inline static Buffer buffer{40};

  void SetUp() override {
    NEEDS_A_PARTNER();
    ASSERT_TRUE(ok(MPIX_Host_stream_create(&stream)));
    ASSERT_TRUE(ok(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream)));
    if (sends())
      MPI_Send_init(buffer.data(), buffer.count(), MPI_BYTE, partner(), 3, MPI_COMM_WORLD, &request);
    else
      MPI_Recv_init(buffer.data(), buffer.count(), MPI_BYTE, partner(), 3, MPI_COMM_WORLD, &request);
    ASSERT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
  }
  void TearDown() override {
    MPI_Barrier(MPI_COMM_WORLD);
    Stream fresh_stream;
    Queue fresh(fresh_stream);
    verify_exchange(fresh, fresh_stream);
  }

  // The start is refused if the news has arrived; otherwise MPIX_Queue_wait fails later.
  void start_alone() {
    int code = MPIX_Enqueue_start(queue, &request);
    if (code == MPI_SUCCESS) {
      ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
      code = MPIX_Queue_wait(queue);
    }
    expect_failure(code);
    EXPECT_TRUE(ok(MPIX_Queue_wait(queue))) << "the failure is reported twice";
    free_mine();
  }
  void expect_failure(int code) {
    EXPECT_TRUE(fails(code, MPIX_ERR_FAILED,
                      {sends() ? "send" : "recv", "peer " + std::to_string(partner()), "tag 3", "40 B",
                       "rank " + std::to_string(partner()) + " has freed its request"}));
  }
  void free_mine() {
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
    EXPECT_TRUE(ok(MPIX_Queue_free(&queue)));
    EXPECT_TRUE(ok(MPIX_Host_stream_free(&stream)));
  }
};

TEST_F(Abandoned, ASendWhoseReceiveWasFreed) {
  if (!sends())
    free_mine();
  MPI_Barrier(MPI_COMM_WORLD);
  if (sends())
    start_alone();
}

TEST_F(Abandoned, AReceiveWhoseSendWasFreed) {
  if (sends())
    free_mine();
  MPI_Barrier(MPI_COMM_WORLD);
  if (!sends())
    start_alone();
}

// The job ends with work on a stream and a match that is not complete.
TEST_F(Abandoned, AMatchHalfDone) {
  MPI_Request half = MPI_REQUEST_NULL, match = MPI_REQUEST_NULL;
  MPI_Recv_init(buffer.data(), buffer.count(), MPI_BYTE, partner(), 4, MPI_COMM_WORLD, &half);
  ASSERT_TRUE(ok(MPIX_Imatch(&half, &match)));
  int flag = 0;
  ASSERT_TRUE(ok(MPI_Test(&match, &flag, MPI_STATUS_IGNORE)));
  EXPECT_FALSE(flag);
  free_mine();
}

// ---- With LANYARD_CHECK=on a receive cannot start after its ready send

struct Unready : Misuse {
  Buffer others_out{40}, others_in{40};

  void SetUp() override { NEEDS_A_PARTNER(); }

  // A ready send with tag 1, then a message with tag 2 in each direction.
  void add_all(Requests& requests) {
    requests.half((sends() ? out : in).data(), in.count(), 1, Mode::kRsend);
    requests.receive(others_in.data(), others_in.count(), partner(), 2);
    requests.send(others_out.data(), others_out.count(), partner(), 2);
  }
  void verify_others(Requests& requests, Queue& on) {
    for (int i = 0; i < 3; ++i) {
      others_out.fill(seed_of(rank(), partner(), i));
      others_in.poison();
      ASSERT_TRUE(ok(MPIX_Enqueue_startall(on, 2, requests.at(1))));
      ASSERT_TRUE(ok(MPIX_Enqueue_waitall(on, 2, requests.at(1))));
      on.wait();
      EXPECT_EQ(others_in.mistakes(seed_of(partner(), rank(), i)), 0u);
    }
  }
};

TEST_F(Unready, ARefusedStartChangesNothing) {
  Stream other_stream;
  Queue other(other_stream);
  Requests requests;
  add_all(requests);
  requests.match();
  verify_others(requests, queue);
  if (sends()) {
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(0))));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, requests.at(0))));
    queue.wait();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (!sends()) {
    const std::string who = "a ready send of rank " + std::to_string(partner());
    for (const int count : {3, 1})
      refused([&] { return MPIX_Enqueue_startall(queue, count, requests.data()); }, MPIX_ERR_FAILED,
              {who, "before start 1", "tag 1"});
    // At any position in the call.
    std::swap(requests[0], requests[2]);
    refused([&] { return MPIX_Enqueue_startall(queue, 3, requests.data()); }, MPIX_ERR_FAILED, {who});
    std::swap(requests[0], requests[2]);
    EXPECT_TRUE(fails(MPIX_Enqueue_start(other, requests.at(0)), MPIX_ERR_FAILED, {who}));
    refused([&] { return MPIX_Enqueue_wait(queue, requests.at(0)); }, MPI_ERR_REQUEST, {"no start to wait for"});
    queue.wait();
  }
  verify_others(requests, other);
  verify_others(requests, queue);
  requests.free();

  // When both sides keep the rules, the same pair works.
  add_all(requests);
  requests.match();
  if (!sends()) {
    in.poison();
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(0))));
    stream.synchronize();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (sends()) {
    out.fill(7);
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(0))));
  }
  ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, requests.at(0))));
  queue.wait();
  EXPECT_EQ(sends() ? 0u : in.mistakes(7), 0u);
}

}  // namespace
}  // namespace lanyard::api_test
