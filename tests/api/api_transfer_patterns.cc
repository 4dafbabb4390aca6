// Transfers: sends of all kinds in one call, and many requests between all ranks.
#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

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

// Ready sends share the queue's trigger with other sends' clear-to-sends.
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
  // The receive of the ready send starts ahead, told by a token.
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
  // With 8 entries some must have gone another way, and that is told.
  const uint64_t overflowed = queue.figure("entries_overflowed");
  if (queue.figure("entries_depth") == 8) {
    EXPECT_GT(overflowed, 0u);
    EXPECT_LE(queue.figure("entries_by_software"), overflowed);
  }
  EXPECT_LE(overflowed, queue.figure("entries_posted"));
}

}  // namespace
}  // namespace lanyard::api_test
