// The enqueue path of a warm queue neither allocates nor enters the kernel: a program may enqueue
// from where it must not be held up.
#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/api/api_objects.h"
#include "tests/support/syscall_counter.h"

namespace lanyard::api_test {
namespace {

constexpr int kRequests = 16;
constexpr int kRounds = 100;
// So many are enqueued before the stream runs any: all fit into the card's entries.
constexpr int kRoundsAGate = 10;

// A plain function on the stream that holds it up: it must not allocate either.
struct Barrier {
  std::atomic<bool> closed{false}, open{false};
};
void hold(void* argument) {
  Barrier& barrier = *static_cast<Barrier*>(argument);
  barrier.closed = true;
  while (!barrier.open.load())
    std::this_thread::yield();
}
void nothing(void*) {}

// Half of the requests send to the partner, half receive from it.
struct Enqueuing : ::testing::Test {
  Stream stream;
  Queue queue{stream};
  std::array<int, kRequests / 2> out{}, in{};
  Requests requests;
  int failures = 0;

  void SetUp() override {
    for (int i = 0; i < kRequests / 2; ++i) {
      requests.receive(&in[static_cast<size_t>(i)], sizeof(int), partner(), i);
      requests.send(&out[static_cast<size_t>(i)], sizeof(int), partner(), i, MPI_COMM_WORLD,
                    i % 2 == 0 ? Mode::kSend : Mode::kSsend);
    }
    requests.match();
    for (int i = 0; i < 3 * kRounds / kRoundsAGate; ++i)
      gated([this] { enqueue_rounds(); });
  }

  void enqueue_round() {
    failures += MPIX_Enqueue_startall(queue, kRequests, requests.data()) != MPI_SUCCESS;
    failures += MPIX_Host_stream_launch(stream.handle(), nothing, nullptr) != MPI_SUCCESS;
    failures += MPIX_Enqueue_waitall(queue, kRequests, requests.data()) != MPI_SUCCESS;
  }
  void enqueue_rounds() {
    for (int i = 0; i < kRoundsAGate; ++i)
      enqueue_round();
  }
  void enqueue_rounds_one_by_one() {
    for (int i = 0; i < kRoundsAGate; ++i) {
      for (int r = 0; r < kRequests; ++r)
        failures += MPIX_Enqueue_start(queue, requests.at(r)) != MPI_SUCCESS;
      for (int r = 0; r < kRequests; ++r)
        failures += MPIX_Enqueue_wait(queue, requests.at(r)) != MPI_SUCCESS;
    }
  }

  // Calls `enqueue` while the stream stands still, then lets everything run.
  template <typename Function>
  void gated(Function enqueue) {
    Barrier barrier;
    ASSERT_TRUE(ok(MPIX_Host_stream_launch(stream.handle(), hold, &barrier)));
    while (!barrier.closed.load())
      std::this_thread::yield();
    enqueue();
    barrier.open = true;
    queue.wait();
  }
};

TEST_F(Enqueuing, AllocatesNothing) {
  if (!allocations_are_counted())
    GTEST_SKIP() << "a sanitizer has operator new";
  uint64_t allocations = 0;
  for (int i = 0; i < kRounds / kRoundsAGate; ++i)
    gated([&] {
      const uint64_t before = allocation_count();
      enqueue_rounds();
      allocations += allocation_count() - before;
    });
  EXPECT_EQ(allocations, 0u);
  for (int i = 0; i < kRounds / kRoundsAGate; ++i)
    gated([&] {
      const uint64_t before = allocation_count();
      enqueue_rounds_one_by_one();
      allocations += allocation_count() - before;
    });
  EXPECT_EQ(allocations, 0u);
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(queue.figure("entries_overflowed"), 0u);
}

// New requests may get the handles of freed ones, and are others all the same.
TEST_F(Enqueuing, OthersMayTakeTheHandlesOfThoseThatWereFreed) {
  enqueue_round();
  queue.wait();
  int sent = 1000 + rank(), received = -1;
  for (int i : {0, 1}) {
    EXPECT_TRUE(ok(MPI_Request_free(requests.at(i))));
  }
  EXPECT_TRUE(ok(MPI_Recv_init(&received, 1, MPI_INT, partner(), 100, MPI_COMM_WORLD, requests.at(0))));
  EXPECT_TRUE(ok(MPI_Send_init(&sent, 1, MPI_INT, partner(), 100, MPI_COMM_WORLD, requests.at(1))));
  EXPECT_TRUE(fails(MPIX_Enqueue_startall(queue, kRequests, requests.data()), MPI_ERR_REQUEST, {"not matched"}));
  EXPECT_TRUE(ok(MPIX_Matchall(2, requests.data(), MPI_STATUSES_IGNORE)));
  for (int round = 0; round < 3; ++round) {
    out.fill(round * ranks() + rank());
    sent += 10;
    enqueue_round();
    queue.wait();
    EXPECT_EQ(received, 1000 + partner() + 10 * (round + 1));
    EXPECT_EQ(in.back(), round * ranks() + partner());
  }
  EXPECT_EQ(failures, 0);
}

// The card and the stream may have to be woken when nothing was enqueued for long (gpu/stream.h S3): so each
// measurement comes right after another round, and does not count if it took long itself.
TEST_F(Enqueuing, MakesNoSystemCall) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLong = std::chrono::milliseconds(50);
  if (!SyscallCounter::available())
    GTEST_SKIP() << "system calls cannot be counted in this build";
  if (mpi_suite::process().thread_level < MPI_THREAD_SERIALIZED)
    GTEST_SKIP() << "the MPI has no MPI_THREAD_SERIALIZED";
  std::vector<long> calls;
  int measured = 0;
  const auto measure = [&](SyscallCounter& counter, const std::function<void()>& enqueue) {
    gated([&] {
      enqueue_round();
      const Clock::time_point begin = Clock::now();
      const std::vector<long> more = counter.during(enqueue);
      if (Clock::now() - begin > kLong)
        return;
      ++measured;
      calls.insert(calls.end(), more.begin(), more.end());
    });
  };
  // The counting happens on a thread of its own, while this one waits.
  ASSERT_TRUE(SyscallCounter::run([&](SyscallCounter& counter) {
    for (int i = 0; i < kRounds / kRoundsAGate; ++i) {
      measure(counter, [this] { enqueue_rounds(); });
      measure(counter, [this] { enqueue_rounds_one_by_one(); });
    }
  }));
  EXPECT_TRUE(calls.empty()) << SyscallCounter::names(calls);
  EXPECT_GT(measured, kRounds / kRoundsAGate) << "the machine is too busy to tell";
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(queue.figure("entries_overflowed"), 0u);
}

}  // namespace
}  // namespace lanyard::api_test
