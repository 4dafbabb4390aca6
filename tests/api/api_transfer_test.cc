// Messages: contiguous, of all lengths and modes, between partners, to the rank itself and to
// MPI_PROC_NULL; many at once; unpacked by kernels between starts; several queues and threads.
#include <array>
#include <random>
#include <string>
#include <tuple>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Transfer : OnAQueue {
  Messages messages;
};

// One byte each way. It tells the partner's stream that this stream has got so far, for example
// that the receive of a ready send has started.
struct Tokens {
  char out = 0, in = 0;
  Requests requests;

  Tokens() {
    requests.receive(&in, 1, partner(), 100);
    requests.send(&out, 1, partner(), 100);
    requests.match();
  }
  void exchange(Queue& queue) {
    requests.start(queue);
    requests.wait(queue);
  }
};

// ---- Lengths and modes

const char* name_of(Mode mode) { return mode == Mode::kSend ? "send" : mode == Mode::kRsend ? "rsend" : "ssend"; }

struct Lengths : Transfer, ::testing::WithParamInterface<std::tuple<int, Mode>> {
  static constexpr int kIterations = 50;
  const Mode mode = std::get<1>(GetParam());

  void prepare(int peer) {
    messages.add(static_cast<size_t>(std::get<0>(GetParam())), peer, 7, MPI_COMM_WORLD, mode);
    messages.requests.match();
  }
  void TearDown() override {
    queue.wait();
    EXPECT_EQ(messages.wrong, 0u);
  }
};

TEST_P(Lengths, ArriveWholeAndTouchNothingElse) {
  Tokens tokens;
  prepare(partner());
  for (int i = 0; i < kIterations; ++i) {
    messages.fill(stream, i);
    if (mode == Mode::kRsend) {
      ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, messages.receive(0))));
      tokens.exchange(queue);
      ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, messages.send(0))));
    } else {
      messages.requests.start(queue);
    }
    messages.requests.wait(queue);
    messages.check(stream, i);
    messages.poison_sent(stream);  // after the waits the buffer is free again
    // Long runs without a wait, and short ones.
    if (i % 10 == 9 || i > 40)
      queue.wait();
  }
  queue.wait();
}

TEST_P(Lengths, ArriveFromOneself) {
  prepare(rank());
  for (int i = 0; i < kIterations; ++i) {
    messages.fill(stream, i);
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, messages.receive(0))));
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, messages.send(0))));
    messages.requests.wait(queue);
    messages.check(stream, i);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Lengths,
                         ::testing::Combine(::testing::Values(0, 1, 8, 4095, 4096, 4097, (64 << 10) + 1, (1 << 20) + 3),
                                            ::testing::Values(Mode::kSend, Mode::kRsend, Mode::kSsend)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<1>(info.param))) + "_" +
                                  std::to_string(std::get<0>(info.param));
                         });

TEST_F(Transfer, TheQueueCountsItsOperations) {
  Buffer out(100), in(100);
  Requests requests;
  requests.receive(in.data(), in.count(), partner(), 7);
  requests.send(out.data(), out.count(), partner(), 7);
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

TEST_F(Transfer, TheQueueReportsEveryFigure) {
  std::string names;
  for (const auto& [name, value] : queue.info())
    names += " " + name;
  EXPECT_EQ(names,
            " bytes counters device_memory entries_by_software entries_depth entries_in_use entries_overflowed"
            " entries_posted failures nic regions starts strategy stream triggers waits");
}

// The host of either side is inside an MPI function that knows nothing of the messages.
TEST_F(Transfer, NeedsNoHelpFromTheHost) {
  constexpr int kIterations = 20;
  std::atomic<int> done = 0;
  messages.add(10'000, partner(), 7);
  messages.requests.match();
  for (int i = 0; i < kIterations; ++i) {
    messages.run(stream, queue, i);
    stream.launch([&] { ++done; });
  }
  // One rank enters the barrier at once, the other when its messages are complete.
  while (!sends() && done.load() != kIterations)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  MPI_Barrier(MPI_COMM_WORLD);
  queue.wait();
  EXPECT_EQ(messages.wrong, 0u);
}

// ---- Many at once

struct Patterns : Transfer {};

// A ready send shares the queue's trigger with the clear-to-sends of other messages.
TEST_F(Patterns, OneCallStartsSendsReadySendsAndReceives) {
  Tokens tokens;
  messages.add(300, partner(), 1, MPI_COMM_WORLD, Mode::kSend);
  messages.add(300, partner(), 2, MPI_COMM_WORLD, Mode::kRsend);
  messages.add(300, partner(), 3, MPI_COMM_WORLD, Mode::kSsend);
  messages.requests.match();
  // The ready send's receive starts first; a token tells the sender.
  std::array rest{*messages.send(1), *messages.receive(0), *messages.send(0), *messages.receive(2), *messages.send(2)};
  for (int i = 0; i < 50; ++i) {
    messages.fill(stream, i);
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, messages.receive(1))));
    tokens.exchange(queue);
    ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, static_cast<int>(rest.size()), rest.data())));
    messages.requests.wait(queue);
    messages.check(stream, i);
  }
  queue.wait();
  EXPECT_EQ(messages.wrong, 0u);
}

TEST_F(Patterns, AllToAll) {
  for (int peer = 0; peer < ranks(); ++peer)
    for (int tag = 0; tag < 4; ++tag)
      messages.add(3000, peer, tag);
  messages.requests.match();
  const uint64_t failures_before = queue.figure("failures");  // of the process
  for (int i = 0; i < 20; ++i)
    messages.run(stream, queue, i);
  queue.wait();
  EXPECT_EQ(messages.wrong, 0u);
  EXPECT_EQ(queue.figure("failures"), failures_before);
  // With 8 entries some operations overflow, and the figures show it.
  const uint64_t overflowed = queue.figure("entries_overflowed");
  if (queue.figure("entries_depth") == 8) {
    EXPECT_GT(overflowed, 0u);
    EXPECT_LE(queue.figure("entries_by_software"), overflowed);
  }
  EXPECT_LE(overflowed, queue.figure("entries_posted"));
}

// ---- Between two starts the buffer belongs to kernels. A wrong protocol sometimes corrupts data.

// Random pauses, from none to long ones, because timing errors show only with some.
struct Naps {
  explicit Naps(unsigned seed) : random(seed) {}
  void take() {
    const unsigned choice = random() % 8;
    if (choice < 4)
      return;
    std::this_thread::sleep_for(std::chrono::microseconds(choice == 7 ? random() % 2000 : random() % 200));
  }
  std::minstd_rand random;
};

struct Unpack : OnAQueue, ::testing::WithParamInterface<size_t> {};

// The sender runs ahead of a receiver that unpacks slowly, and overwrites its buffer as
// soon as it may.
TEST_P(Unpack, OneWay) {
  constexpr int kIterations = 200;
  const int peer = partner();
  Buffer out{GetParam()}, in{GetParam()};
  size_t wrong = 0;
  Naps naps(static_cast<unsigned>(rank() + 1));
  // Slow: the content must be complete at once and stay until the end.
  const auto unpack = [&](int i) {
    wrong += in.mistakes(seed_of(peer, rank(), i));
    naps.take();
    wrong += in.mistakes(seed_of(peer, rank(), i));
    in.poison();
    naps.take();
    wrong += !in.untouched();
  };
  for (const int sender : {0, 1}) {
    if (peer == rank())
      break;
    Requests requests;
    const bool is_sender = rank() % 2 == sender;
    if (is_sender)
      requests.send(out.data(), out.count(), peer, 3);
    else
      requests.receive(in.data(), in.count(), peer, 3);
    requests.match();
    for (int i = 0; i < kIterations; ++i) {
      if (is_sender)
        stream.launch([&, i] { out.fill(seed_of(rank(), peer, i)); });
      requests.start(queue);
      requests.wait(queue);
      if (is_sender)
        stream.launch([&] { out.poison(); });
      else
        stream.launch([&, i] { unpack(i); });
    }
    queue.wait();
    EXPECT_EQ(wrong, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Unpack, ::testing::Values(size_t{8}, size_t{20'000}),
                         [](const auto& info) { return std::to_string(info.param); });

// ---- Queues and threads

// A send on one queue and its receive on another queue of the same process.
TEST(Queues, OneProcessTalksToItself) {
  Stream first_stream, second_stream;
  Queue first(first_stream), second(second_stream);
  Messages pair;
  pair.add(3000, rank(), 1);
  pair.requests.match();
  for (int i = 0; i < 50; ++i) {
    pair.fill(first_stream, i);
    ASSERT_TRUE(ok(MPIX_Enqueue_start(first, pair.send(0))));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(first, pair.send(0))));
    ASSERT_TRUE(ok(MPIX_Enqueue_start(second, pair.receive(0))));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(second, pair.receive(0))));
    pair.check(second_stream, i);
  }
  first.wait();
  second.wait();
  EXPECT_EQ(pair.wrong, 0u);
}

// The host has synchronized the stream, but not waited for the queue.
TEST(Queues, AMovedRequestBelongsToTheNewQueueOnly) {
  Stream first_stream, second_stream;
  Queue first(first_stream), second(second_stream);
  {
    Messages pair;
    pair.add(3000, partner(), 1);
    pair.requests.match();
    pair.run(first_stream, first, 0);
    first_stream.synchronize();
    // The second start has no wait yet.
    pair.fill(second_stream, 1);
    if (!sends())
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pair.requests.start(second);
    second.wait();
    pair.check(second_stream, 1);
    second_stream.synchronize();
    EXPECT_EQ(pair.wrong, 0u) << "the queue's wait returned too early";
    pair.requests.wait(second);
    second.wait();
  }
  // The pair is freed. The first queue must not refer to it.
  first.wait();
  second.wait();
}

// Each thread has its own queue, and makes and frees its own communicators.
TEST(Queues, ThreadsUseThemSideBySide) {
  NEEDS_THREADS();
  std::array<MPI_Comm, 2> communicators;
  for (MPI_Comm& communicator : communicators)
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  std::vector<std::thread> threads;
  for (const MPI_Comm own : communicators)
    threads.emplace_back([own] {
      Stream stream;
      Queue queue(stream);
      for (int round = 0; round < 5; ++round) {
        MPI_Comm copy = MPI_COMM_NULL;
        EXPECT_TRUE(ok(MPI_Comm_dup(own, &copy)));
        Messages pair;
        pair.add(3000, partner(), 1, copy);
        pair.requests.match();
        EXPECT_TRUE(ok(MPI_Comm_free(&copy)));
        for (int i = 0; i < 20; ++i) {
          pair.run(stream, queue, i);
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

// Each thread sends to its own process, so that the order of their calls does not matter.
TEST(Queues, ThreadsShareOne) {
  NEEDS_THREADS();
  Stream stream;
  Queue queue(stream);
  std::array<Messages, 2> pairs;
  for (int i = 0; i < 2; ++i) {
    pairs[static_cast<size_t>(i)].add(3000, rank(), 1 + i);
    pairs[static_cast<size_t>(i)].requests.match();
  }
  const auto exchange = [&](Messages& pair) {
    for (int i = 0; i < 50; ++i)
      pair.run(stream, queue, i);
  };
  std::thread other([&] { exchange(pairs[1]); });
  exchange(pairs[0]);
  other.join();
  queue.wait();
  EXPECT_EQ(pairs[0].wrong + pairs[1].wrong, 0u);
}

}  // namespace
}  // namespace lanyard::api_test
