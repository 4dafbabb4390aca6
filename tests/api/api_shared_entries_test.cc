// Without overflow (LANYARD_OVERFLOW=off) several threads, each with a queue of its own, on a card that has entries for
// two of the three: a start goes through or is refused, and what goes through is completed. Nobody waits for entries
// that another queue keeps while that one's peer waits for this one's.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

constexpr int kThreads = 3;
constexpr int kPairs = 3;  // 4 entries each: 12 an epoch, of 30
constexpr int kBatches = 15;
constexpr int kEpochs = 20;  // enqueued ahead before the queue is waited for

class Body {
 public:
  Body(int thread, MPI_Comm communicator) : thread_(thread) {
    for (int tag = 0; tag < kPairs; ++tag) {
      out_.push_back(std::make_unique<Buffer>(100));
      in_.push_back(std::make_unique<Buffer>(100));
      in_.back()->poison();
      requests_.receive(in_.back()->data(), in_.back()->count(), partner(), tag, communicator);
      requests_.send(out_.back()->data(), out_.back()->count(), partner(), tag, communicator);
    }
    requests_.match();
  }

  void run() {
    for (int batch = 0; batch < kBatches && !::testing::Test::HasFatalFailure(); ++batch) {
      for (int epoch = 0; epoch < kEpochs; ++epoch)
        go(batch * kEpochs + epoch);
      queue_.wait();
    }
    EXPECT_EQ(wrong_, 0u) << "thread " << thread_;
  }
  int refusals() const { return refusals_; }
  uint64_t overflowed() const { return queue_.figure("entries_overflowed"); }

 private:
  uint64_t seed(int from, int to, int i, int tag) const { return seed_of(from, to, i, kPairs * thread_ + tag); }

  void go(int i) {
    stream_.launch([this, i] {
      for (int tag = 0; tag < kPairs; ++tag)
        out_[static_cast<size_t>(tag)]->fill(seed(rank(), partner(), i, tag));
    });
    // Refused until one of the others has nothing under way.
    for (;;) {
      const int code = MPIX_Enqueue_startall(queue_, requests_.count(), requests_.data());
      if (code == MPI_SUCCESS)
        break;
      ASSERT_TRUE(fails(code, MPIX_ERR_NO_ENTRIES, {"those of other queues", "30"}));
      ++refusals_;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    requests_.wait(queue_);
    stream_.launch([this, i] {
      for (int tag = 0; tag < kPairs; ++tag) {
        wrong_ += in_[static_cast<size_t>(tag)]->mistakes(seed(partner(), rank(), i, tag));
        in_[static_cast<size_t>(tag)]->poison();
      }
    });
  }

  const int thread_;
  std::vector<std::unique_ptr<Buffer>> out_, in_;
  Stream stream_;
  Queue queue_{stream_};
  Requests requests_;
  size_t wrong_ = 0;
  int refusals_ = 0;
};

TEST(SharedEntries, ThreadsWithQueuesOfTheirOwnGoThroughOrAreRefused) {
  if (mpi_suite::process().thread_level < MPI_THREAD_MULTIPLE)
    GTEST_SKIP() << "the MPI library has no MPI_THREAD_MULTIPLE";
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
