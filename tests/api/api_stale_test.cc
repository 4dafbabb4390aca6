// A ready send that is started by mistake after its receive was freed. Whose completion word that receive had is
// another receive's by then: it must not be completed without its data, and the sender is told.
#include <chrono>
#include <thread>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Stale : ::testing::Test {
  static constexpr int kTries = 20;

  Stream stream;
  Queue queue{stream};
  Buffer stale{40}, good{40};

  void SetUp() override {
    if (partner() == rank())
      GTEST_SKIP() << "needs an even number of ranks";
  }
  bool sends() const { return rank() % 2 == 0; }

  int add(Requests& requests, Buffer& buffer, int tag, Mode mode) {
    return sends() ? requests.send(buffer.data(), buffer.count(), partner(), tag, MPI_COMM_WORLD, mode)
                   : requests.receive(buffer.data(), buffer.count(), partner(), tag);
  }
  void match(Requests& requests, int i) { ASSERT_TRUE(ok(MPIX_Match(requests.at(i), MPI_STATUS_IGNORE))); }
  void start_and_wait(Requests& requests, int i) {
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(i))));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, requests.at(i))));
  }
};

TEST_F(Stale, AReadySendCompletesNobodyElsesReceive) {
  size_t wrong = 0;
  for (int i = 0; i < kTries; ++i) {
    Requests requests;
    const int first = add(requests, stale, 1, Mode::kRsend);
    match(requests, first);
    // The receive gives its completion word back, and the next one takes it.
    if (!sends()) {
      ASSERT_TRUE(ok(MPI_Request_free(requests.at(first))));
    }
    const int second = add(requests, good, 2, Mode::kSend);
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
      EXPECT_TRUE(ok(MPIX_Queue_wait(queue))) << "told once";
    }
    MPI_Barrier(MPI_COMM_WORLD);
    // A stream that was let go on by mistake has the time to do so.
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

}  // namespace
}  // namespace lanyard::api_test
