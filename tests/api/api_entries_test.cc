// Without overflow (LANYARD_OVERFLOW=off) every operation needs an entry of the NIC. An epoch that
// can never fit is refused with the numbers, others repeat without end, and no call waits for an
// entry beyond the deadline.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "tests/api/api_leaving.h"
#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

// 2 entries per request: two pairs take all 8 entries.
struct NoOverflow : Misuse {
  Messages messages;
  Requests& requests = messages.requests;

  void add(int pairs, int peer) {
    for (int tag = 0; tag < pairs; ++tag)
      messages.add(100, peer, tag);
  }
  void TearDown() override {
    requests.free();
    EXPECT_EQ(queue.figure("entries_overflowed"), 0u);
    Misuse::TearDown();
  }
};

TEST_F(NoOverflow, HasTheRequestedDepth) { EXPECT_EQ(queue.figure("entries_depth"), 8u); }

TEST_F(NoOverflow, AnEpochThatCanNeverFitIsRefused) {
  add(3, rank());
  requests.match();
  refused([&] { return MPIX_Enqueue_startall(queue, 6, requests.data()); }, MPIX_ERR_NO_ENTRIES, {"12", "8"});
  // Nor may it be started in parts: all starts before the next wait form an epoch.
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 4, requests.data())));
  refused([&] { return MPIX_Enqueue_startall(queue, 2, requests.at(4)); }, MPIX_ERR_NO_ENTRIES, {"12", "8"});
  refused([&] { return MPIX_Enqueue_start(queue, requests.at(4)); }, MPIX_ERR_NO_ENTRIES, {"10", "8"});
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 4, requests.data())));
  // A new epoch has room, even if the first is still in flight.
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 2, requests.at(4))));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 2, requests.at(4))));
  queue.wait();
}

// The requests are unchanged: this queue or another may start them. The refused start
// holds no entry.
TEST_F(NoOverflow, ARefusedStartChangesNothing) {
  Stream other_stream;
  Queue other(other_stream);
  add(4, rank());
  requests.match();
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(other, 2, requests.data())));
  refused([&] { return MPIX_Enqueue_startall(queue, 4, requests.at(4)); }, MPIX_ERR_NO_ENTRIES, {"12", "8"});
  refused([&] { return MPIX_Enqueue_waitall(queue, 4, requests.at(4)); }, MPI_ERR_REQUEST, {"no start to wait for"});
  // The other queue gets the remaining entries, with requests of the refused start.
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(other, 2, requests.at(4))));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(other, 2, requests.at(4))));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(other, 2, requests.data())));
  other.wait();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 4, requests.at(4))));
    ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 4, requests.at(4))));
    queue.wait();
  }
}

// MPI_PROC_NULL at the edge of a grid: no operation reaches the NIC. The next start looks for
// requests in flight.
TEST_F(NoOverflow, ProcNullTakesNoEntries) {
  Stream other_stream;
  Queue other(other_stream);
  add(2, MPI_PROC_NULL);
  add(2, rank());
  requests.match();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 8, requests.data())));
    ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 8, requests.data())));
  }
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(other, 4, requests.data())));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(other, 4, requests.data())));
  queue.wait();
  other.wait();
}

// Enqueuing far ahead waits for entries instead of failing.
TEST_F(NoOverflow, EpochsThatFitNeverFail) {
  add(2, partner());
  requests.match();
  for (int i = 0; i < 1000; ++i)
    messages.run(stream, queue, i);
  queue.wait();
  EXPECT_EQ(messages.wrong, 0u);
  EXPECT_EQ(queue.figure("entries_in_use"), 0u);
}

// ---- No free entry

// The call returns at the deadline whatever the stream does.
TEST(NoRoom, IsReportedAtTheDeadlineBehindAKernelThatDoesNotReturn) {
  Stream stream;
  Queue queue(stream);
  Messages pair;
  pair.add(40, rank(), 1);
  pair.requests.match();
  std::atomic<bool> has_ended{false};
  Gate gate(stream);
  stream.launch([&] { has_ended = true; });
  pair.requests.start(queue);
  pair.requests.wait(queue);
  // All four entries are in use.
  EXPECT_TRUE(reports([&] { return MPIX_Enqueue_startall(queue, 2, pair.requests.data()); }, MPIX_ERR_STALLED,
                      {"it cannot enqueue"}));
  if (partner() != rank()) {
    const auto start = [&] { return MPIX_Enqueue_startall(queue, 2, pair.requests.data()); };
    if (sends()) {
      EXPECT_TRUE(fails(leave_call(Leave::kByJump, start), MPIX_ERR_STALLED));
    }
    verify_that_the_sender_is_in_no_call();
  }
  EXPECT_FALSE(has_ended);
  gate.open();
  queue.wait();
  pair.requests.run(queue);
}

// ---- Threads that share the entries

constexpr int kThreads = 3;
constexpr int kPairs = 3;  // 4 entries each: 12 of 30 per epoch
constexpr int kBatches = 15;
constexpr int kEpochs = 20;  // enqueued ahead before each wait for the queue

class Body {
 public:
  Body(int thread, MPI_Comm communicator) {
    for (int i = 0; i < kPairs; ++i)
      messages_.add(100, partner(), kPairs * thread + i, communicator);
    messages_.requests.match();
  }

  void run() {
    for (int batch = 0; batch < kBatches && !::testing::Test::HasFatalFailure(); ++batch) {
      for (int epoch = 0; epoch < kEpochs; ++epoch)
        go(batch * kEpochs + epoch);
      queue_.wait();
    }
    EXPECT_EQ(messages_.wrong, 0u);
  }
  int refusals() const { return refusals_; }
  uint64_t overflowed() const { return queue_.figure("entries_overflowed"); }

 private:
  void go(int i) {
    messages_.fill(stream_, i);
    // Refused until another thread's queue has nothing in flight.
    for (;;) {
      const int code = MPIX_Enqueue_startall(queue_, messages_.requests.count(), messages_.requests.data());
      if (code == MPI_SUCCESS)
        break;
      ASSERT_TRUE(fails(code, MPIX_ERR_NO_ENTRIES, {"those of other queues", "30"}));
      ++refusals_;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    messages_.requests.wait(queue_);
    messages_.check(stream_, i);
  }

  Stream stream_;
  Queue queue_{stream_};
  Messages messages_;
  int refusals_ = 0;
};

TEST(SharedEntries, ThreadsWithTheirOwnQueuesSucceedOrAreRefused) {
  NEEDS_THREADS();
  std::array<MPI_Comm, kThreads> communicators{};
  std::vector<std::unique_ptr<Body>> bodies;
  for (int thread = 0; thread < kThreads; ++thread) {
    MPI_Comm& communicator = communicators[static_cast<size_t>(thread)];
    ASSERT_TRUE(ok(MPI_Comm_dup(MPI_COMM_WORLD, &communicator)));
    bodies.push_back(std::make_unique<Body>(thread, communicator));
  }
  std::vector<std::thread> threads;
  for (const std::unique_ptr<Body>& body : bodies)
    threads.emplace_back([&body] { body->run(); });
  for (std::thread& thread : threads)
    thread.join();
  int refusals = 0;
  for (const std::unique_ptr<Body>& body : bodies) {
    refusals += body->refusals();
    EXPECT_EQ(body->overflowed(), 0u);
  }
  RecordProperty("refusals", refusals);
  bodies.clear();
  for (MPI_Comm& communicator : communicators)
    EXPECT_TRUE(ok(MPI_Comm_free(&communicator)));
}

}  // namespace
}  // namespace lanyard::api_test
