// Transfers: a buffer belongs to the kernels between two starts. A protocol that is wrong here corrupts data now and
// then.
#include <random>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

constexpr int kTag = 3;
constexpr int kTokenTag = 4;
constexpr int kIterations = 200;

// Sometimes nothing, sometimes long: what is wrong in timing shows only for some.
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

struct Unpack : ::testing::TestWithParam<size_t> {
  Stream stream;
  Queue queue{stream};
  Buffer out{GetParam()};
  Buffer in{GetParam()};
  size_t wrong = 0;

  void pack(int i, int peer) { out.fill(seed_of(rank(), peer, i)); }
  // Slow: the content must be there at once and stay until the end.
  void unpack(int i, int peer, Naps& naps) {
    wrong += in.mistakes(seed_of(peer, rank(), i));
    naps.take();
    wrong += in.mistakes(seed_of(peer, rank(), i));
    in.poison();
    naps.take();
    wrong += !in.untouched();
  }
};

// The sender runs ahead of a receiver that unpacks slowly, and writes over its own buffer as soon as it may.
TEST_P(Unpack, OneWay) {
  for (const int sender : {0, 1}) {
    if (partner() == rank())
      break;
    Requests requests;
    Naps naps(static_cast<unsigned>(rank() + 1));
    const bool sends = rank() % 2 == sender;
    if (sends)
      requests.send(out.data(), out.count(), partner(), kTag);
    else
      requests.receive(in.data(), in.count(), partner(), kTag);
    requests.match();
    for (int i = 0; i < kIterations; ++i) {
      if (sends)
        stream.launch([&, i] { pack(i, partner()); });
      requests.start(queue);
      requests.wait(queue);
      if (sends)
        stream.launch([&] { out.poison(); });
      else
        stream.launch([&, i] { unpack(i, partner(), naps); });
    }
    queue.wait();
    EXPECT_EQ(wrong, 0u);
  }
}

// A token from the unpacking kernel's stream releases the next ready send.
TEST_P(Unpack, ReadySendsAfterAToken) {
  const int peer = partner();
  char token_out = 0, token_in = 0;
  Requests data, tokens;
  Naps naps(static_cast<unsigned>(rank() + 49));
  data.receive(in.data(), in.count(), peer, kTag);
  data.send(out.data(), out.count(), peer, kTag, MPI_COMM_WORLD, Mode::kRsend);
  tokens.receive(&token_in, 1, peer, kTokenTag);
  tokens.send(&token_out, 1, peer, kTokenTag);
  data.match();
  tokens.match();
  for (int i = 0; i < kIterations; ++i) {
    stream.launch([&, i] { pack(i, peer); });
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, data.at(0))));
    tokens.start(queue);
    tokens.wait(queue);
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, data.at(1))));
    data.wait(queue);
    stream.launch([&, i] {
      out.poison();
      unpack(i, peer, naps);
    });
  }
  queue.wait();
  EXPECT_EQ(wrong, 0u);
}

INSTANTIATE_TEST_SUITE_P(Each, Unpack, ::testing::Values(size_t{8}, size_t{20'000}),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace lanyard::api_test
