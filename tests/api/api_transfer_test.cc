// Transfers: contiguous messages of all lengths and modes, between partners, to oneself, and to nobody.
#include <string>
#include <tuple>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

constexpr int kTag = 7;
constexpr int kTokenTag = 8;

struct Transfer : ::testing::Test {
  Stream stream;
  Queue queue{stream};
};

// ---- Lengths and modes

struct Lengths : Transfer, ::testing::WithParamInterface<std::tuple<int, Mode>> {
  static constexpr int kIterations = 50;
  const int bytes = std::get<0>(GetParam());
  const Mode mode = std::get<1>(GetParam());
  Buffer out{static_cast<size_t>(bytes)};
  Buffer in{static_cast<size_t>(bytes)};
  Requests data;    // receive, send
  Requests tokens;  // receive, send
  size_t wrong = 0;

  void prepare(int peer) {
    data.receive(in.data(), bytes, peer, kTag);
    data.send(out.data(), bytes, peer, kTag, MPI_COMM_WORLD, mode);
    data.match();
    in.poison();
  }
  void fill(int peer, int i) {
    stream.launch([this, peer, i] { out.fill(seed_of(rank(), peer, i, bytes)); });
  }
  // Right after the waits both buffers are ours again.
  void check(int peer, int i) {
    stream.launch([this, peer, i] {
      wrong += in.mistakes(seed_of(peer, rank(), i, bytes));
      in.poison();
      out.poison();
    });
  }
};

TEST_P(Lengths, ArriveWholeAndTouchNothingElse) {
  const int peer = partner();
  // A ready send promises that the receive has started: a token from the receiver tells.
  char token = 0, other_token = 0;
  tokens.receive(&other_token, 1, peer, kTokenTag);
  tokens.send(&token, 1, peer, kTokenTag);
  tokens.match();
  prepare(peer);
  for (int i = 0; i < kIterations; ++i) {
    fill(peer, i);
    if (mode == Mode::kRsend) {
      ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, data.at(0))));
      tokens.start(queue);
      tokens.wait(queue);
      ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, data.at(1))));
    } else {
      data.start(queue);
    }
    data.wait(queue);
    check(peer, i);
    // Long runs of work and short ones.
    if (i % 10 == 9 || i > 40)
      queue.wait();
  }
  queue.wait();
  EXPECT_EQ(wrong, 0u);
}

TEST_P(Lengths, ArriveFromOneself) {
  prepare(rank());
  for (int i = 0; i < kIterations; ++i) {
    fill(rank(), i);
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, data.at(0))));
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, data.at(1))));
    data.wait(queue);
    check(rank(), i);
  }
  queue.wait();
  EXPECT_EQ(wrong, 0u);
}

INSTANTIATE_TEST_SUITE_P(Each, Lengths,
                         ::testing::Combine(::testing::Values(0, 1, 8, 4095, 4096, 4097, (64 << 10) + 1, (1 << 20) + 3),
                                            ::testing::Values(Mode::kSend, Mode::kRsend, Mode::kSsend)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<1>(info.param))) + "_" +
                                  std::to_string(std::get<0>(info.param));
                         });

TEST_F(Transfer, TheQueueCountsWhatItDid) {
  Buffer out(100), in(100);
  Requests requests;
  requests.receive(in.data(), in.count(), partner(), kTag);
  requests.send(out.data(), out.count(), partner(), kTag);
  const uint64_t counters_before = queue.figure("counters");
  const uint64_t regions_before = queue.figure("regions");
  requests.match();
  EXPECT_GT(queue.figure("counters"), counters_before);
  EXPECT_GT(queue.figure("regions"), regions_before);
  const Enqueued before(queue);
  const uint64_t bytes_before = queue.figure("bytes");
  const uint64_t failures_before = queue.figure("failures");
  for (int i = 0; i < 5; ++i) {
    requests.start(queue);
    requests.wait(queue);
  }
  queue.wait();
  const Enqueued after(queue);
  EXPECT_EQ(after.starts - before.starts, 10u);
  EXPECT_EQ(after.waits - before.waits, 10u);
  EXPECT_GT(after.triggers, before.triggers);
  EXPECT_GE(after.entries_posted - before.entries_posted, 5u);
  EXPECT_EQ(queue.figure("bytes") - bytes_before, 500u);
  EXPECT_EQ(queue.figure("failures"), failures_before);
  EXPECT_GT(queue.figure("entries_depth"), 0u);
}

TEST_F(Transfer, TheQueueTellsEveryFigure) {
  std::string names;
  for (const auto& [name, value] : queue.info())
    names += " " + name;
  EXPECT_EQ(names,
            " bytes counters device_memory entries_by_software entries_depth entries_in_use entries_overflowed"
            " entries_posted failures nic regions starts strategy stream triggers waits");
}

// ---- Without the host

// While the host of either side is in an MPI function that knows nothing of the transfer.
TEST_F(Transfer, NeedsNoHelpFromTheHost) {
  Buffer out(10'000), in(10'000);
  in.poison();
  Requests requests;
  requests.receive(in.data(), in.count(), partner(), kTag);
  requests.send(out.data(), out.count(), partner(), kTag);
  requests.match();
  std::atomic<int> done = 0;
  size_t wrong = 0;
  constexpr int kIterations = 20;
  for (int i = 0; i < kIterations; ++i) {
    stream.launch([&, i] { out.fill(seed_of(rank(), partner(), i)); });
    requests.start(queue);
    requests.wait(queue);
    stream.launch([&, i] {
      wrong += in.mistakes(seed_of(partner(), rank(), i));
      in.poison();
      ++done;
    });
  }
  if (rank() % 2 == 0) {
    // This rank enters the barrier at once, the other only when its transfers are over.
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    while (done.load() != kIterations)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  queue.wait();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace lanyard::api_test
