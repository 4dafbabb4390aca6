// Transfers: many requests at once, between many ranks, on several queues, and far apart in time.
#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <random>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

using namespace std::chrono_literals;

struct Patterns : ::testing::Test {
  Stream stream;
  Queue queue{stream};
};

// A set of channels with buffers of their own, both ways.
struct Channels {
  std::vector<std::unique_ptr<Buffer>> out, in;
  Requests requests;

  void send(size_t bytes, int peer, int tag, Mode mode = Mode::kSend) {
    out.push_back(std::make_unique<Buffer>(bytes));
    requests.send(out.back()->data(), out.back()->count(), peer, tag, MPI_COMM_WORLD, mode);
  }
  void receive(size_t bytes, int peer, int tag) {
    in.push_back(std::make_unique<Buffer>(bytes));
    in.back()->poison();
    requests.receive(in.back()->data(), in.back()->count(), peer, tag);
  }
};

// ---- Between two ranks

// Which receive a send belongs to is decided by the tags, and by the order in the matching calls
// where tags are equal.
TEST_F(Patterns, TagsAndTheOrderOfMatchingPairRequests) {
  constexpr int kCount = 8;
  const int peer = partner();
  std::array<Buffer, kCount> out{Buffer(8), Buffer(8), Buffer(8), Buffer(8),
                                 Buffer(8), Buffer(8), Buffer(8), Buffer(8)};
  std::array<Buffer, kCount> in = out;
  Requests requests;
  // Tags 0 0 1 1 2 2 3 3, created in this order.
  for (int i = 0; i < kCount; ++i)
    requests.receive(in[static_cast<size_t>(i)].data(), 8, peer, i / 2);
  for (int i = 0; i < kCount; ++i)
    requests.send(out[static_cast<size_t>(i)].data(), 8, peer, i / 2);
  // Receives of one tag are matched in the order of their creation, sends in the opposite one.
  std::vector<MPI_Request> order;
  for (const int i : {6, 0, 2, 7, 4, 1, 5, 3})
    order.push_back(requests[i]);
  for (const int i : {1, 5, 0, 3, 7, 2, 4, 6})
    order.push_back(requests[kCount + i]);
  ASSERT_TRUE(ok(MPIX_Matchall(2 * kCount, order.data(), MPI_STATUSES_IGNORE)));

  for (size_t i = 0; i < kCount; ++i)
    out[i].fill(seed_of(rank(), peer, 0, static_cast<int>(i)));
  requests.start(queue);
  requests.wait(queue);
  queue.wait();
  for (int i = 0; i < kCount; ++i)
    EXPECT_EQ(in[static_cast<size_t>(i)].mistakes(seed_of(peer, rank(), 0, i ^ 1)), 0u) << "receive " << i;
}

TEST_F(Patterns, RequestsOfAPairStartInAnyOrder) {
  constexpr int kCount = 6;
  Channels c;
  for (int i = 0; i < kCount; ++i)
    c.receive(100, partner(), i);
  for (int i = 0; i < kCount; ++i)
    c.send(100, partner(), i);
  c.requests.match();
  std::mt19937 random(static_cast<unsigned>(rank()) + 1);
  size_t wrong = 0;
  for (int iteration = 0; iteration < 30; ++iteration) {
    std::array<int, 2 * kCount> order;
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    stream.launch([&, iteration] {
      for (int i = 0; i < kCount; ++i)
        c.out[static_cast<size_t>(i)]->fill(seed_of(rank(), partner(), iteration, i));
    });
    for (const int i : order)
      ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, c.requests.at(i))));
    std::shuffle(order.begin(), order.end(), random);
    for (const int i : order)
      ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, c.requests.at(i))));
    stream.launch([&, iteration] {
      for (int i = 0; i < kCount; ++i) {
        Buffer& in = *c.in[static_cast<size_t>(i)];
        wrong += in.mistakes(seed_of(partner(), rank(), iteration, i));
        in.poison();
      }
    });
  }
  queue.wait();
  EXPECT_EQ(wrong, 0u);
}

// Ready sends share the queue's trigger with other sends' clear-to-sends: one call starts all
// kinds.
TEST_F(Patterns, OneCallStartsSendsReadySendsAndReceives) {
  const int peer = partner();
  Channels c;
  c.receive(300, peer, 1);
  c.receive(300, peer, 2);
  c.receive(300, peer, 3);
  c.send(300, peer, 1, Mode::kSend);
  c.send(300, peer, 2, Mode::kRsend);
  c.send(300, peer, 3, Mode::kSsend);
  char token_out = 0, token_in = 0;
  Requests tokens;
  tokens.receive(&token_in, 1, peer, 4);
  tokens.send(&token_out, 1, peer, 4);
  tokens.match();
  c.requests.match();
  // The receive of the ready send starts ahead, told by a token; the others start with the ready
  // send.
  std::vector<MPI_Request> rest;
  for (const int i : {4, 0, 3, 2, 5})
    rest.push_back(c.requests[i]);
  size_t wrong = 0;
  for (int iteration = 0; iteration < 50; ++iteration) {
    stream.launch([&, iteration] {
      for (int i = 0; i < 3; ++i)
        c.out[static_cast<size_t>(i)]->fill(seed_of(rank(), peer, iteration, i));
    });
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, c.requests.at(1))));
    tokens.start(queue);
    tokens.wait(queue);
    ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, static_cast<int>(rest.size()), rest.data())));
    c.requests.wait(queue);
    stream.launch([&, iteration] {
      for (int i = 0; i < 3; ++i) {
        Buffer& in = *c.in[static_cast<size_t>(i)];
        wrong += in.mistakes(seed_of(peer, rank(), iteration, i));
        in.poison();
      }
    });
  }
  queue.wait();
  EXPECT_EQ(wrong, 0u);
}

// ---- Far apart in time

// One side's host and stream are far ahead of the other's, once the receiver's, once the sender's.
TEST_F(Patterns, ReceivesStartLongBeforeOrAfterTheirSends) {
  for (const bool sender_late : {true, false}) {
    const bool sends = rank() % 2 == 0;
    const bool late = sends == sender_late;
    if (partner() == rank())
      continue;
    Buffer buffer(5000);
    buffer.poison();
    Requests requests;
    if (sends)
      requests.send(buffer.data(), buffer.count(), partner(), 1);
    else
      requests.receive(buffer.data(), buffer.count(), partner(), 1);
    requests.match();
    size_t wrong = 0;
    if (late)
      std::this_thread::sleep_for(100ms);
    for (int i = 0; i < 10; ++i) {
      stream.launch([&, i] {
        if (late)
          std::this_thread::sleep_for(3ms);
        if (sends)
          buffer.fill(seed_of(rank(), partner(), i));
      });
      requests.start(queue);
      requests.wait(queue);
      stream.launch([&, i] {
        if (!sends)
          wrong += buffer.mistakes(seed_of(partner(), rank(), i));
        buffer.poison();
      });
    }
    queue.wait();
    EXPECT_EQ(wrong, 0u);
  }
}

// ---- Among all ranks

TEST_F(Patterns, Ring) {
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  Channels c;
  c.receive(2000, left, 1);
  c.send(2000, right, 1);
  c.requests.match();
  // What arrives is passed on, with nobody's host in between: after `ranks` hops everyone has their
  // own again.
  stream.launch([&] { c.out[0]->fill(seed_of(rank(), 0, 0)); });
  size_t wrong = 0;
  for (int hop = 1; hop <= 5 * ranks(); ++hop) {
    c.requests.start(queue);
    c.requests.wait(queue);
    const int origin = (rank() + hop * (ranks() - 1)) % ranks();
    stream.launch([&, origin] {
      wrong += c.in[0]->mistakes(seed_of(origin, 0, 0));
      std::copy_n(static_cast<unsigned char*>(c.in[0]->data()), 2000, static_cast<unsigned char*>(c.out[0]->data()));
      c.in[0]->poison();
    });
  }
  queue.wait();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(Patterns, AllToAll) {
  constexpr size_t kBytes = 3000;
  Channels c;
  for (int peer = 0; peer < ranks(); ++peer)
    for (int tag = 0; tag < 4; ++tag)
      c.receive(kBytes, peer, tag);
  for (int peer = 0; peer < ranks(); ++peer)
    for (int tag = 0; tag < 4; ++tag)
      c.send(kBytes, peer, tag);
  c.requests.match();
  size_t wrong = 0;
  const uint64_t failures_before = queue.figure("failures");  // the process's
  const auto each = [&](auto visit) {
    for (int peer = 0; peer < ranks(); ++peer)
      for (int tag = 0; tag < 4; ++tag)
        visit(static_cast<size_t>(4 * peer + tag), peer, tag);
  };
  for (int iteration = 0; iteration < 20; ++iteration) {
    stream.launch([&, iteration] {
      each([&](size_t i, int peer, int tag) { c.out[i]->fill(seed_of(rank(), peer, iteration, tag)); });
    });
    c.requests.start(queue);
    c.requests.wait(queue);
    stream.launch([&, iteration] {
      each([&](size_t i, int peer, int tag) {
        wrong += c.in[i]->mistakes(seed_of(peer, rank(), iteration, tag));
        c.in[i]->poison();
      });
    });
  }
  queue.wait();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(queue.figure("failures"), failures_before);
  // One startall needs more entries than 8: with so few, the rest must have gone another way, and
  // that is told.
  const uint64_t overflowed = queue.figure("entries_overflowed");
  if (queue.figure("entries_depth") == 8) {
    EXPECT_GT(overflowed, 0u);
    EXPECT_LE(queue.figure("entries_by_software"), overflowed);
  }
  EXPECT_LE(overflowed, queue.figure("entries_posted"));
}

}  // namespace
}  // namespace lanyard::api_test
