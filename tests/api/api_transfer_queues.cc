// Transfers: several queues in one process, requests that go from one to another, and threads of the user's.
#include <array>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Pair {
  Buffer out{3000}, in{3000};
  Requests requests;
  size_t wrong = 0;

  explicit Pair(int tag, int peer = partner(), MPI_Comm communicator = MPI_COMM_WORLD) : peer_(peer), tag_(tag) {
    in.poison();
    requests.receive(in.data(), in.count(), peer, tag, communicator);
    requests.send(out.data(), out.count(), peer, tag, communicator);
    requests.match();
  }
  void iterate(Stream& stream, Queue& queue, int i) {
    stream.launch([this, i] { out.fill(seed_of(rank(), peer_, i, tag_)); });
    requests.start(queue);
    requests.wait(queue);
    stream.launch([this, i] {
      wrong += in.mistakes(seed_of(peer_, rank(), i, tag_));
      in.poison();
    });
  }

 private:
  int peer_, tag_;
};

// A send on one queue and its receive, of the same process, on another.
TEST(Queues, OneProcessTalksToItself) {
  Stream first_stream, second_stream;
  Queue first(first_stream), second(second_stream);
  Pair pair(1, rank());
  for (int i = 0; i < 50; ++i) {
    first_stream.launch([&, i] { pair.out.fill(seed_of(rank(), rank(), i, 1)); });
    ASSERT_TRUE(ok(MPIX_Enqueue_start(first, pair.requests.at(1))));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(first, pair.requests.at(1))));
    ASSERT_TRUE(ok(MPIX_Enqueue_start(second, pair.requests.at(0))));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(second, pair.requests.at(0))));
    second_stream.launch([&, i] {
      pair.wrong += pair.in.mistakes(seed_of(rank(), rank(), i, 1));
      pair.in.poison();
    });
  }
  first.wait();
  second.wait();
  EXPECT_EQ(pair.wrong, 0u);
}

// The host has waited for the stream, not for the queue.
TEST(Queues, AMovedRequestBelongsToTheNewQueueAlone) {
  Stream first_stream, second_stream;
  Queue first(first_stream), second(second_stream);
  {
    Pair pair(1);
    pair.iterate(first_stream, first, 0);
    first_stream.synchronize();
    // The wait for the second start is not enqueued.
    pair.out.fill(seed_of(rank(), partner(), 1, 1));
    if (rank() % 2 != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pair.requests.start(second);
    second.wait();
    EXPECT_EQ(pair.in.mistakes(seed_of(partner(), rank(), 1, 1)), 0u) << "the queue's wait returned too early";
    pair.requests.wait(second);
    second.wait();
    EXPECT_EQ(pair.wrong, 0u);
  }
  // The pair is freed. The first queue must not remember it.
  first.wait();
  second.wait();
}

// Each thread has its own queue and its own communicators, which come and go meanwhile.
TEST(Queues, ThreadsUseThemSideBySide) {
  if (mpi_suite::process().thread_level < MPI_THREAD_MULTIPLE)
    GTEST_SKIP() << "the MPI has no MPI_THREAD_MULTIPLE";
  constexpr size_t kThreads = 2;
  std::array<MPI_Comm, kThreads> communicators;
  for (MPI_Comm& communicator : communicators)
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Stream stream;
      Queue queue(stream);
      for (int round = 0; round < 5; ++round) {
        MPI_Comm copy = MPI_COMM_NULL;
        EXPECT_TRUE(ok(MPI_Comm_dup(communicators[t], &copy)));
        Pair pair(1, partner(), copy);
        EXPECT_TRUE(ok(MPI_Comm_free(&copy)));
        for (int i = 0; i < 20; ++i) {
          pair.iterate(stream, queue, i);
          if (i % 8 == 7)
            queue.wait();
        }
        queue.wait();
        EXPECT_EQ(pair.wrong, 0u);
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  for (MPI_Comm& communicator : communicators)
    MPI_Comm_free(&communicator);
}

// Each thread talks to its own process, so that the order of their calls does not matter.
TEST(Queues, ThreadsShareOne) {
  if (mpi_suite::process().thread_level < MPI_THREAD_MULTIPLE)
    GTEST_SKIP() << "the MPI has no MPI_THREAD_MULTIPLE";
  Stream stream;
  Queue queue(stream);
  Pair a(1, rank()), b(2, rank());
  std::thread other([&] {
    for (int i = 0; i < 50; ++i)
      b.iterate(stream, queue, i);
  });
  for (int i = 0; i < 50; ++i)
    a.iterate(stream, queue, i);
  other.join();
  queue.wait();
  EXPECT_EQ(a.wrong + b.wrong, 0u);
}

}  // namespace
}  // namespace lanyard::api_test
