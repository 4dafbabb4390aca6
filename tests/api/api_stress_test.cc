// Threads side by side, each with a communicator, a stream and a queue of its own, that make requests of every kind,
// match, start and free them, and duplicate and free communicators meanwhile, for some seconds.
#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

constexpr int kThreads = 3;
constexpr std::chrono::seconds kTime{3};

class Body {
 public:
  Body(int thread, MPI_Comm communicator) : thread_(thread), communicator_(communicator) {}
  void run() {
    Queue queue(stream_);
    const auto end = std::chrono::steady_clock::now() + kTime;
    while (goes_on(end))
      round(queue);
  }
  int rounds() const { return rounds_; }

 private:
  // As rank 0 says.
  bool goes_on(std::chrono::steady_clock::time_point end) {
    int more = std::chrono::steady_clock::now() < end && !::testing::Test::HasFailure();
    EXPECT_TRUE(ok(MPI_Bcast(&more, 1, MPI_INT, 0, communicator_)));
    return more != 0;
  }
  uint32_t pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  void round(Queue& queue) {
    const int peer = partner();
    MPI_Comm communicator = communicator_;
    bool own = pick(4) == 0;
    if (own) {
      EXPECT_TRUE(ok(MPI_Comm_dup(communicator_, &communicator)));
      MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    }
    const int pairs = 1 + static_cast<int>(pick(6));
    std::vector<Buffer> out, in;
    Requests requests;
    for (int i = 0; i < pairs; ++i) {
      const size_t bytes = pick(3) == 0 ? pick(40'000) : pick(64);
      out.emplace_back(bytes);
      in.emplace_back(bytes);
      requests.receive(in.back().data(), in.back().count(), pick(5) == 0 ? MPI_ANY_SOURCE : peer, i, communicator);
      requests.send(out.back().data(), out.back().count(), peer, i, communicator, pick(2) ? Mode::kSend : Mode::kSsend);
    }
    match(requests);
    if (own && pick(2)) {
      EXPECT_TRUE(ok(MPI_Comm_free(&communicator)));
      own = false;
    }
    const int iterations = 1 + static_cast<int>(pick(5));
    for (int iteration = 0; iteration < iterations; ++iteration) {
      for (int i = 0; i < pairs; ++i) {
        out[static_cast<size_t>(i)].fill(seed_of(rank(), peer, iteration, 100 * thread_ + i));
        in[static_cast<size_t>(i)].poison();
      }
      requests.start(queue);
      requests.wait(queue);
      queue.wait();
      for (int i = 0; i < pairs; ++i)
        EXPECT_EQ(in[static_cast<size_t>(i)].mistakes(seed_of(peer, rank(), iteration, 100 * thread_ + i)), 0u);
    }
    requests.free();
    if (own) {
      EXPECT_TRUE(ok(MPI_Comm_free(&communicator)));
    }
    ++rounds_;
  }
  void match(Requests& requests) {
    if (pick(2))
      return requests.match();
    std::vector<MPI_Request> matches(static_cast<size_t>(requests.count()));
    for (int i = 0; i < requests.count(); ++i)
      EXPECT_TRUE(ok(MPIX_Imatch(requests.at(i), &matches[static_cast<size_t>(i)])));
    EXPECT_TRUE(ok(MPI_Waitall(requests.count(), matches.data(), MPI_STATUSES_IGNORE)));
  }

  const int thread_;
  const MPI_Comm communicator_;
  Stream stream_;
  std::mt19937 random_{static_cast<unsigned>(thread_) * 77 + 5};  // the same on all ranks
  int rounds_ = 0;
};

TEST(Stress, ThreadsMakeMatchStartAndFreeRequests) {
  if (mpi_suite::process().thread_level < MPI_THREAD_MULTIPLE)
    GTEST_SKIP() << "the MPI has no MPI_THREAD_MULTIPLE";
  std::array<MPI_Comm, kThreads> communicators;
  for (MPI_Comm& communicator : communicators) {
    ASSERT_TRUE(ok(MPI_Comm_dup(MPI_COMM_WORLD, &communicator)));
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  }
  std::array<int, kThreads> rounds{};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      Body body(static_cast<int>(i), communicators[i]);
      body.run();
      rounds[i] = body.rounds();
    });
  for (std::thread& thread : threads)
    thread.join();
  for (size_t i = 0; i < kThreads; ++i) {
    EXPECT_GT(rounds[i], 0);
    ASSERT_TRUE(ok(MPI_Comm_free(&communicators[i])));
  }
}

}  // namespace
}  // namespace lanyard::api_test
