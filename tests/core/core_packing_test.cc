// Requests whose buffers have gaps: what starts and waits enqueue, and when the buffer
// is free again.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "gpu/packing.h"
#include "tests/core/core_local_job.h"

namespace lanyard {
namespace {

// Sends every other word of a buffer to a receive of the same rank.
struct Packing : ::testing::Test {
  static constexpr size_t kWords = 8;

  core::Transfer transfer(core::Direction direction, std::array<uint64_t, 2 * kWords>& memory, int device) {
    gpu::Shape word;
    word.length = sizeof(uint64_t);
    auto packing = std::make_shared<gpu::Packing>();
    packing->layout = std::make_shared<const gpu::Layout>(repeat(word, kWords, 2 * sizeof(uint64_t)));
    packing->packed = {new std::byte[kWords * sizeof(uint64_t)], std::default_delete<std::byte[]>()};
    packing->memory = memory.data();
    packing->device = device;
    core::Transfer made = rank().transfer(direction, 0, 5, kWords * sizeof(uint64_t));
    made.buffer = packing->packed.get();
    made.packing = std::move(packing);
    return made;
  }
  LocalJob::Rank& rank() { return job_[0]; }
  void connect(int device = DeviceMemory::kHost) {
    send = &rank().begin(transfer(core::Direction::kSend, out, DeviceMemory::kHost));
    receive = &rank().begin(transfer(core::Direction::kReceive, in, device));
    job_.match();
    ASSERT_TRUE(send->matched() && receive->matched());
  }
  void free(Request* request) { EXPECT_TRUE(works(rank().endpoint.free_request(request))); }

  LocalJob job_{1, {}};
  std::array<uint64_t, 2 * kWords> out{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, in{};
  Request* send = nullptr;
  Request* receive = nullptr;
};

// The message has arrived, but the stream has not unpacked it: the buffer will still be written.
TEST_F(Packing, IsNotCompleteBeforeItIsUnpacked) {
  connect();
  const std::array both{send, receive};
  std::atomic<bool> go{false};
  rank().start(both);
  rank().launch([&go] {
    while (!go.load())
      std::this_thread::yield();
  });
  rank().wait(both);
  const auto deadline = LocalJob::Clock::now() + LocalJob::kBound;
  while (!receive->transferred() && LocalJob::Clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_TRUE(receive->transferred());
  EXPECT_FALSE(receive->complete());
  EXPECT_EQ(rank().endpoint.free_request(receive).code(), Code::kInvalidState);
  // The same after a release.
  rank().endpoint.release(*receive);
  EXPECT_EQ(rank().endpoint.free_request(receive).code(), Code::kInvalidState);
  EXPECT_EQ(in[0], 0u);
  go.store(true);
  rank().synchronize();
  EXPECT_EQ(in[0], 1u);
  free(receive);
  free(send);
}

// A start is refused if the stream could not unpack behind its wait.
TEST_F(Packing, AStreamThatCannotUnpackStartsNothing) {
  connect(7);
  const std::array both{send, receive};
  EXPECT_EQ(rank().queue->start(both).code(), Code::kUnsupported);
  EXPECT_EQ(send->starts, 0u);
  EXPECT_EQ(receive->starts, 0u);
  EXPECT_EQ(rank().stream.enqueued(), 0u);
  free(send);
  free(receive);
}

TEST_F(Packing, CannotStand) {
  connect();
  const std::array both{send, receive};
  EXPECT_EQ(rank().queue->stand(both).code(), Code::kUnsupported);
  rank().start(both);
  rank().wait(both);
  rank().synchronize();
  EXPECT_EQ(in[2], 3u);
  free(send);
  free(receive);
}

}  // namespace
}  // namespace lanyard
