// Pairs in GPU memory that nobody's host serves (gpu/lane.h), or that the card does: the same is asked of both.
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu_api.h"

namespace lanyard::api_test {
namespace {

using namespace std::chrono_literals;

class GpuPairs : public GpuApi {
 protected:
  bool sends() const { return rank() % 2 == 0; }
};

TEST_F(GpuPairs, BothSidesGoTheSameWay) {
  std::byte* const memory = device_memory(64);
  Requests requests;
  requests.send(memory, 16, partner(), 3);
  requests.receive(memory + 32, 16, partner(), 3);
  requests.match();
  const std::string send = route_of(requests[0]);
  char receive[8] = "";
  char own[8] = "";
  route_of(requests[1]).copy(own, sizeof own - 1);
  MPI_Sendrecv(own, sizeof own, MPI_CHAR, partner(), 90, receive, sizeof receive, MPI_CHAR, partner(), 90,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  EXPECT_EQ(send, receive);
  if (rank() == 0)
    std::printf("from GPU to GPU messages go by %s\n", send.c_str());
}

// By calls of their own, with nothing waited for between them; also where each rank starts first what the other starts
// last.
TEST_F(GpuPairs, StartsInWhateverOrder) {
  for (const size_t bytes : {size_t{8}, size_t{40'000}, size_t{3} << 20}) {
    std::byte* const source = pinned(bytes);
    std::byte* const found = pinned(bytes);
    std::byte* const out = device_memory(bytes);
    std::byte* const in = device_memory(bytes);
    Requests requests;
    const int send = requests.send(out, static_cast<int>(bytes), partner(), 3);
    const int receive = requests.receive(in, static_cast<int>(bytes), partner(), 3);
    requests.match();
    for (int i = 0; i < 24; ++i) {
      step("starts");
      fill(source, bytes, seed_of(rank(), partner(), i));
      std::memset(found, 0xdb, bytes);
      copy(out, source, bytes);
      copy(in, found, bytes);
      const bool send_first = i % 3 == 0 || (i % 3 == 1 && sends());
      const bool wait_for_send_first = i % 2 == 0;
      for (const bool of_send : {send_first, !send_first})
        ASSERT_TRUE(ok(MPIX_Enqueue_start(queue_, requests.at(of_send ? send : receive))));
      for (const bool of_send : {wait_for_send_first, !wait_for_send_first})
        ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue_, requests.at(of_send ? send : receive))));
      copy(found, in, bytes);
      ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
      ASSERT_EQ(mistakes(found, bytes, seed_of(partner(), rank(), i)), 0u) << bytes << " bytes, iteration " << i;
    }
  }
}

// The sender's device computes between start and wait, and the receiver starts after the one and before the other.
TEST_F(GpuPairs, ALateReceiverOfASenderThatComputes) {
  if (partner() == rank())
    GTEST_SKIP() << "needs an even number of ranks";
  for (const size_t bytes : {size_t{8}, size_t{5} << 20}) {
    std::byte* const source = pinned(bytes);
    std::byte* const found = pinned(bytes);
    std::byte* const memory = device_memory(bytes);
    Requests requests;
    if (sends())
      requests.send(memory, static_cast<int>(bytes), partner(), 4);
    else
      requests.receive(memory, static_cast<int>(bytes), partner(), 4);
    requests.match();
    for (int i = 0; i < 4; ++i) {
      step("a late receiver");
      if (sends()) {
        fill(source, bytes, seed_of(rank(), partner(), i));
        copy(memory, source, bytes);
        ASSERT_TRUE(ok(MPIX_Enqueue_start(queue_, requests.at(0))));
        compute();
        ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue_, requests.at(0))));
        MPI_Barrier(MPI_COMM_WORLD);
      } else {
        std::memset(found, 0xdb, bytes);
        copy(memory, found, bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        std::this_thread::sleep_for(10ms);
        ASSERT_TRUE(ok(MPIX_Enqueue_start(queue_, requests.at(0))));
        ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue_, requests.at(0))));
        copy(found, memory, bytes);
      }
      ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
      if (!sends()) {
        ASSERT_EQ(mistakes(found, bytes, seed_of(partner(), rank(), i)), 0u) << bytes << " bytes, iteration " << i;
      }
    }
  }
}

// The deadline is the program's (main()). What waits is there yet, and goes on once the other side has started.
TEST_F(GpuPairs, AReceiverThatDoesNotStartIsNamed) {
  if (partner() == rank())
    GTEST_SKIP() << "needs an even number of ranks";
  constexpr size_t kBytes = 65536;  // more than goes by slots, whose sends wait for nobody
  std::byte* const source = pinned(kBytes);
  std::byte* const found = pinned(kBytes);
  std::byte* const memory = device_memory(kBytes);
  Requests requests;
  if (sends())
    requests.send(memory, kBytes, partner(), 7);
  else
    requests.receive(memory, kBytes, partner(), 7);
  requests.match();
  const auto start = [&] {
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue_, requests.at(0))));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue_, requests.at(0))));
  };
  if (sends()) {
    fill(source, kBytes, seed_of(rank(), partner(), 0));
    copy(memory, source, kBytes);
    start();
    step("a wait until the deadline");
    EXPECT_TRUE(reports([&] { return MPIX_Queue_wait(queue_); }, MPIX_ERR_STALLED,
                        {"deadline", "send", "peer " + std::to_string(partner()), "tag 7", "65536 B", "iteration 1",
                         "rank " + std::to_string(partner()), "has enqueued 0 starts", "start 1 has not been"},
                        {"deadlock"}));
  } else {
    std::memset(found, 0xdb, kBytes);
    copy(memory, found, kBytes);
  }
  step("the start that was missing");
  MPI_Barrier(MPI_COMM_WORLD);
  if (!sends()) {
    start();
    copy(found, memory, kBytes);
  }
  EXPECT_TRUE(ok(MPIX_Queue_wait(queue_)));
  if (!sends()) {
    EXPECT_EQ(mistakes(found, kBytes, seed_of(partner(), rank(), 0)), 0u);
  }
}

// Nothing of a pair is left once both sides are free: neither what lanes are made of, nor memory, nor mappings.
TEST_F(GpuPairs, ArePairedAnewTenThousandTimes) {
  constexpr int kRounds = 1000, kPairs = 10, kWarm = 10;
  constexpr size_t kBytes = 3000;
  constexpr uint64_t kSome = kPairs;               // some may be on their way out
  constexpr size_t kSomeBytes = size_t{16} << 20;  // less than a page for each pair that there was
  const uint64_t loans_before = figure("loans");
  std::byte* const source = pinned(kPairs * kBytes);
  std::byte* const found = pinned(kPairs * kBytes);
  std::vector<std::byte*> out, in;
  for (int k = 0; k < kPairs; ++k) {
    out.push_back(device_memory(kBytes));
    in.push_back(device_memory(kBytes));
  }
  std::string route;
  size_t free_before = 0;
  uint64_t loans = 0, counters = 0, regions = 0;
  for (int round = 1; round <= kRounds; ++round) {
    step("pairs come and go");
    Requests requests;
    for (int k = 0; k < kPairs; ++k) {
      requests.send(out[static_cast<size_t>(k)], kBytes, partner(), k);
      requests.receive(in[static_cast<size_t>(k)], kBytes, partner(), k);
    }
    requests.match();
    const bool checked = round % 50 == 0;
    for (int k = 0; checked && k < kPairs; ++k) {
      fill(source + static_cast<size_t>(k) * kBytes, kBytes, seed_of(rank(), partner(), round, k));
      copy(out[static_cast<size_t>(k)], source + static_cast<size_t>(k) * kBytes, kBytes);
    }
    ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue_, requests.count(), requests.data())));
    ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue_, requests.count(), requests.data())));
    for (int k = 0; checked && k < kPairs; ++k)
      copy(found + static_cast<size_t>(k) * kBytes, in[static_cast<size_t>(k)], kBytes);
    ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
    for (int k = 0; checked && k < kPairs; ++k)
      ASSERT_EQ(mistakes(found + static_cast<size_t>(k) * kBytes, kBytes, seed_of(partner(), rank(), round, k)), 0u)
          << "round " << round << ", pair " << k;
    if (round == kWarm) {
      route = route_of(requests[0]);
      free_before = gpu().program().free_bytes().value();
      loans = figure("loans");
      counters = figure("counters");
      regions = figure("regions");
    }
    if (round <= kWarm || (round != kRounds && !checked))
      continue;
    for (int k = 0; k < requests.count(); ++k)
      ASSERT_EQ(route_of(requests[k]), route) << "round " << round << ", request " << k;
    EXPECT_LE(figure("counters"), counters + kSome) << "round " << round;
    EXPECT_LE(figure("regions"), regions + kSome) << "round " << round;
    EXPECT_LE(figure("loans"), loans + kSome) << "round " << round;
  }
  EXPECT_GT(gpu().program().free_bytes().value() + kSomeBytes, free_before);
  if (route == "lane") {
    EXPECT_LE(figure("loans"), loans_before);
    EXPECT_EQ(loans > loans_before, partner() != rank());
  }
}

// Nobody else may map such memory, or no GPU has it for good: the card carries, either way.
TEST_F(GpuPairs, MemoryThatCannotBeLentIsTheCards) {
  constexpr size_t kBytes = 100'000;
  std::byte* const source = pinned(kBytes);
  std::byte* const found = pinned(kBytes);
  std::byte* const usual = device_memory(kBytes);
  const DeviceAddress in_order = gpu().program().allocate_in_order(handle_, kBytes).value();
  synchronize();
  const DeviceAddress managed = gpu().program().allocate_managed(kBytes).value();
  const std::vector<std::pair<const char*, std::byte*>> kinds = {
      {"memory in stream order", reinterpret_cast<std::byte*>(in_order)},
      {"managed memory", reinterpret_cast<std::byte*>(managed)},
      {"the host's memory", pinned(kBytes)},
  };
  for (const auto& [kind, other] : kinds) {
    for (const bool sent_from : {true, false}) {
      SCOPED_TRACE(std::string(kind) + (sent_from ? ", sent from" : ", received in"));
      step("memory of another kind");
      std::byte* const out = sent_from ? other : usual;
      std::byte* const in = sent_from ? usual : other;
      Requests requests;
      requests.send(out, kBytes, partner(), 5);
      requests.receive(in, kBytes, partner(), 5);
      requests.match();
      EXPECT_EQ(route_of(requests[0]), "card");
      EXPECT_EQ(route_of(requests[1]), "card");
      for (int i = 0; i < 3; ++i) {
        fill(source, kBytes, seed_of(rank(), partner(), i));
        std::memset(found, 0xdb, kBytes);
        copy(out, source, kBytes);
        copy(in, found, kBytes);
        ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue_, requests.count(), requests.data())));
        ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue_, requests.count(), requests.data())));
        copy(found, in, kBytes);
        ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
        ASSERT_EQ(mistakes(found, kBytes, seed_of(partner(), rank(), i)), 0u) << "iteration " << i;
      }
    }
  }
  gpu().driver().free(managed);
  EXPECT_TRUE(gpu().program().free_in_order(handle_, in_order).ok());
  synchronize();
}

}  // namespace
}  // namespace lanyard::api_test
