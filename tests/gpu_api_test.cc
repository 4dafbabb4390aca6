// The API on GPU streams and GPU memory, on real ranks: --config=cuda or --config=hip. Without a GPU it says so, and
// ends well. The program can be carried to another machine; mpi_suite.h says how its ranks work together.
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/gpu_api.h"
#include "tests/gpu_test_kernels.h"

namespace lanyard::api_test {
namespace {

// Every combination of host and device memory on the two sides, to the partner and to oneself.
TEST_F(GpuApi, MessagesOfEveryLengthBetweenEveryKindOfMemory) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{7}, size_t{4099}, size_t{1} << 20, (size_t{5} << 20) + 3}) {
    for (const bool from_device : {true, false}) {
      for (const bool to_device : {true, false}) {
        if (!from_device && !to_device)
          continue;
        for (const int peer : {partner(), rank()}) {
          step("an exchange");
          std::byte* const source = pinned(bytes);
          std::byte* const found = pinned(bytes);
          std::byte* const out = from_device ? device_memory(bytes) : source;
          std::byte* const in = to_device ? device_memory(bytes) : found;
          Requests requests;
          requests.send(out, static_cast<int>(bytes), peer, 3);
          requests.receive(in, static_cast<int>(bytes), peer, 3);
          requests.match();
          for (int i = 0; i < 3; ++i) {
            fill(source, bytes, seed_of(rank(), peer, i));
            std::memset(found, 0xdb, bytes);
            if (from_device)
              copy(out, source, bytes);
            if (to_device)
              copy(in, found, bytes);
            ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue_, requests.count(), requests.data())));
            ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue_, requests.count(), requests.data())));
            if (to_device)
              copy(found, in, bytes);
            ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
            ASSERT_EQ(mistakes(found, bytes, seed_of(peer, rank(), i)), 0u)
                << bytes << " bytes, from " << (from_device ? "device" : "host") << " to "
                << (to_device ? "device" : "host");
          }
        }
      }
    }
  }
}

// Columns of doubles, odd bytes, and blocks at any place, from the GPU's memory to the GPU's memory.
TEST_F(GpuApi, DatatypesWithGaps) {
  constexpr int kRows = 1000;
  const int lengths[] = {3, 1, 7}, places[] = {20, 0, 9};
  std::vector<MPI_Datatype> types(3);
  MPI_Type_vector(kRows, 1, 5, MPI_DOUBLE, &types[0]);
  MPI_Type_vector(kRows, 3, 7, MPI_CHAR, &types[1]);
  MPI_Type_indexed(3, lengths, places, MPI_INT, &types[2]);
  constexpr size_t kBytes = kRows * 5 * sizeof(double);
  for (MPI_Datatype& type : types) {
    MPI_Type_commit(&type);
    std::byte* const source = pinned(kBytes);
    std::byte* const found = pinned(kBytes);
    std::byte* const out = device_memory(kBytes);
    std::byte* const in = device_memory(kBytes);
    Requests requests;
    requests.send(out, 1, partner(), 3, MPI_COMM_WORLD, Mode::kSend, type);
    requests.receive(in, 1, partner(), 3, MPI_COMM_WORLD, type);
    requests.match();
    for (int i = 0; i < 5; ++i) {
      fill(source, kBytes, seed_of(rank(), partner(), i));
      std::memset(found, 0xdb, kBytes);
      copy(out, source, kBytes);
      copy(in, found, kBytes);
      ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue_, requests.count(), requests.data())));
      ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue_, requests.count(), requests.data())));
      copy(found, in, kBytes);
      ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
      // What it should be, by the MPI.
      std::vector<std::byte> sent(kBytes), expected(kBytes, std::byte{0xdb}), packed(kBytes);
      fill(sent.data(), kBytes, seed_of(partner(), rank(), i));
      int end = 0, position = 0;
      MPI_Pack(sent.data(), 1, type, packed.data(), kBytes, &end, MPI_COMM_SELF);
      MPI_Unpack(packed.data(), end, &position, expected.data(), 1, type, MPI_COMM_SELF);
      ASSERT_EQ(std::memcmp(found, expected.data(), kBytes), 0);
    }
    requests.free();
    // The host's memory is not packed by a GPU's stream: nothing has been started then.
    Requests of_host;
    of_host.send(source, 1, rank(), 4, MPI_COMM_WORLD, Mode::kSend, type);
    of_host.receive(in, 1, rank(), 4, MPI_COMM_WORLD, type);
    of_host.match();
    EXPECT_TRUE(
        fails(MPIX_Enqueue_startall(queue_, 2, of_host.data()), MPI_ERR_UNSUPPORTED_OPERATION, {"host stream"}));
    of_host.free();
    MPI_Type_free(&type);
  }
}

// Nothing of the host between two replays; every payload is compared.
TEST_F(GpuApi, AGraphIsReplayedAThousandTimes) {
  constexpr size_t kBytes = 4096;
  constexpr int kReplays = 1000, kRounds = 10;
  std::byte* const source = pinned(kReplays / kRounds * kBytes);
  std::byte* const found = pinned(kReplays / kRounds * kBytes);
  std::byte* const out = device_memory(kBytes);
  std::byte* const in = device_memory(kBytes);
  Requests requests;
  requests.send(out, kBytes, partner(), 4);
  requests.receive(in, kBytes, partner(), 4);
  requests.match();
  step("an ordinary iteration");
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue_, requests.count(), requests.data())));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue_, requests.count(), requests.data())));
  ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
  ASSERT_TRUE(gpu().program().begin_capture(handle_).ok());
  EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue_, requests.count(), requests.data())));
  EXPECT_TRUE(fails(MPIX_Queue_wait(queue_), MPIX_ERR_QUEUE, {"captured"}));
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue_, requests.at(0)), MPI_ERR_REQUEST));
  EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue_, requests.count(), requests.data())));
  const Result<void*> graph = gpu().program().end_capture(handle_);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  for (int round = 0; round < kRounds; ++round) {
    step("replays");
    for (int k = 0; k < kReplays / kRounds; ++k)
      fill(source + k * kBytes, kBytes, seed_of(rank(), partner(), round, k));
    for (int k = 0; k < kReplays / kRounds; ++k) {
      copy(out, source + k * kBytes, kBytes);
      ASSERT_TRUE(gpu().program().replay(graph.value(), handle_).ok());
      copy(found + k * kBytes, in, kBytes);
    }
    ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
    for (int k = 0; k < kReplays / kRounds; ++k)
      ASSERT_EQ(mistakes(found + k * kBytes, kBytes, seed_of(partner(), rank(), round, k)), 0u) << "replay " << k;
  }
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue_, requests.at(0)), MPI_ERR_REQUEST, {"graph"}));
}

// As an exchange, by enqueued starts; and as single requests in a graph, with nothing of the host between two replays.
TEST_F(GpuApi, CollectivesAreEnqueuedAndReplayedByAGraph) {
  constexpr size_t kBytes = 512;
  constexpr int kReplays = 1000, kRounds = 10, kAtOnce = kReplays / kRounds;
  const auto size = static_cast<size_t>(ranks());
  std::byte* const source = pinned(kAtOnce * kBytes);
  std::byte* const gathered = pinned(kAtOnce * size * kBytes);
  std::byte* const sent = pinned(kAtOnce * kBytes);
  std::byte* const own = device_memory(kBytes);
  std::byte* const all = device_memory(size * kBytes);
  std::byte* const shared = device_memory(kBytes);
  std::byte* const sums = device_memory(kBytes);
  std::byte* const summed = pinned(kAtOnce * kBytes);
  for (const bool replayed : {false, true}) {
    constexpr int kEach = 4;
    MPI_Request each[kEach];
    ASSERT_TRUE(ok(MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &each[0])));
    ASSERT_TRUE(ok(MPIX_Bcast_init(shared, kBytes, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &each[1])));
    ASSERT_TRUE(
        ok(MPIX_Allgather_init(own, kBytes, MPI_BYTE, all, kBytes, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &each[2])));
    ASSERT_TRUE(ok(MPIX_Allreduce_init(own, sums, kBytes / sizeof(uint64_t), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD,
                                       MPI_INFO_NULL, &each[3])));
    MPI_Info single = MPI_INFO_NULL;
    MPI_Info_create(&single);
    MPI_Info_set(single, "lanyard_exchange", "none");
    for (MPI_Request& request : each) {
      if (replayed) {
        ASSERT_TRUE(ok(MPIX_Request_set_info(request, single)));
      }
    }
    MPI_Info_free(&single);
    step("matching collectives");
    ASSERT_TRUE(ok(MPIX_Matchall(kEach, each, MPI_STATUSES_IGNORE)));
    void* graph = nullptr;
    if (replayed) {
      ASSERT_TRUE(gpu().program().begin_capture(handle_).ok());
      EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue_, kEach, each)));
      EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue_, kEach, each)));
      const Result<void*> captured = gpu().program().end_capture(handle_);
      ASSERT_TRUE(captured.ok()) << captured.status().to_string();
      graph = captured.value();
    }
    for (int round = 0; round < kRounds; ++round) {
      step("collectives");
      for (int k = 0; k < kAtOnce; ++k)
        fill(source + k * kBytes, kBytes, seed_of(rank(), 0, round, k));
      for (size_t k = 0; k < kAtOnce; ++k) {
        copy(own, source + k * kBytes, kBytes);
        if (rank() == 0)
          copy(shared, source + k * kBytes, kBytes);
        if (replayed) {
          ASSERT_TRUE(gpu().program().replay(graph, handle_).ok());
        } else {
          ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue_, kEach, each)));
          ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue_, kEach, each)));
        }
        copy(gathered + k * size * kBytes, all, size * kBytes);
        copy(sent + k * kBytes, shared, kBytes);
        copy(summed + k * kBytes, sums, kBytes);
      }
      ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
      for (size_t k = 0; k < kAtOnce; ++k) {
        const int number = static_cast<int>(k);
        ASSERT_EQ(mistakes(sent + k * kBytes, kBytes, seed_of(0, 0, round, number)), 0u) << "round " << k;
        for (size_t of = 0; of < size; ++of)
          ASSERT_EQ(
              mistakes(gathered + (k * size + of) * kBytes, kBytes, seed_of(static_cast<int>(of), 0, round, number)),
              0u)
              << "round " << k << ", of " << of;
        ASSERT_TRUE(is_sum(summed + k * kBytes, kBytes, round, number)) << "round " << k;
      }
    }
    for (MPI_Request& request : each)
      EXPECT_TRUE(ok(MPI_Request_free(&request)));
  }
}

// Where each rank has a GPU of its own: no card takes part.
TEST_F(GpuApi, ExchangesAndCollectivesGoByLanes) {
  const char* const peer = std::getenv("LANYARD_PEER");
  const char* const shared = std::getenv("LANYARD_GPU_SHARED");
  const bool together = shared != nullptr && std::strcmp(shared, "no") == 0;  // by NVIDIA's MPS
  if ((peer != nullptr && std::strcmp(peer, "off") == 0) || ranks() < 2 ||
      (gpu().driver().device_count() < ranks() && !together))
    GTEST_SKIP() << "LANYARD_PEER is off, or the ranks have no GPU each";
  constexpr int kIterations = 50, kDownwards = 0, kUpwards = 1;
  const int size = ranks(), periodic = 1;
  MPI_Comm ring = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring)));
  const int lower = (rank() + size - 1) % size, higher = (rank() + 1) % size;
  for (const size_t bytes : {size_t{8}, size_t{4096}, (size_t{1} << 20) + 8}) {
    const int count = static_cast<int>(bytes);
    std::byte* const source = pinned(2 * kIterations * bytes);
    std::byte* const found = pinned(2 * kIterations * bytes);
    std::byte* const summed = pinned(kIterations * bytes);
    std::byte* const out = device_memory(2 * bytes);
    std::byte* const in = device_memory(2 * bytes);
    std::byte* const sums = device_memory(bytes);
    constexpr int kEach = 3;
    MPI_Request each[kEach];
    ASSERT_TRUE(
        ok(MPIX_Neighbor_alltoall_init(out, count, MPI_BYTE, in, count, MPI_BYTE, ring, MPI_INFO_NULL, &each[0])));
    ASSERT_TRUE(ok(MPIX_Allreduce_init(out, sums, count / static_cast<int>(sizeof(uint64_t)), MPI_UINT64_T, MPI_SUM,
                                       MPI_COMM_WORLD, MPI_INFO_NULL, &each[1])));
    ASSERT_TRUE(ok(MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &each[2])));
    step("matching collectives");
    ASSERT_TRUE(ok(MPIX_Matchall(kEach, each, MPI_STATUSES_IGNORE)));
    for (const MPI_Request request : each) {
      EXPECT_EQ(route_of(request), "lane");
      EXPECT_EQ(fact_of(request, "lanyard_entries"), "0");
    }
    void* graph = nullptr;
    for (const bool replayed : {false, true}) {
      if (replayed) {
        ASSERT_TRUE(gpu().program().begin_capture(handle_).ok());
        EXPECT_TRUE(ok(MPIX_Enqueue_start(queue_, &each[0])));
        EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue_, &each[0])));
        for (MPI_Request* alternating : {&each[1], &each[2]})
          EXPECT_TRUE(fails(MPIX_Enqueue_start(queue_, alternating), MPI_ERR_UNSUPPORTED_OPERATION,
                            {"alternates between two"}));
        const Result<void*> captured = gpu().program().end_capture(handle_);
        ASSERT_TRUE(captured.ok()) << captured.status().to_string();
        graph = captured.value();
      }
      step("collectives");
      for (size_t i = 0; i < kIterations; ++i) {
        for (const int way : {kDownwards, kUpwards})
          fill(source + (2 * i + static_cast<size_t>(way)) * bytes, bytes,
               seed_of(rank(), way, static_cast<int>(i), replayed));
        copy(out, source + 2 * i * bytes, 2 * bytes);
        if (replayed) {
          ASSERT_TRUE(gpu().program().replay(graph, handle_).ok());
        } else {
          ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue_, kEach, each)));
          ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue_, kEach, each)));
        }
        copy(found + 2 * i * bytes, in, 2 * bytes);
        copy(summed + i * bytes, sums, bytes);
      }
      ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
      for (size_t i = 0; i < kIterations; ++i) {
        const int round = static_cast<int>(i);
        ASSERT_EQ(mistakes(found + 2 * i * bytes, bytes, seed_of(lower, kUpwards, round, replayed)), 0u) << i;
        ASSERT_EQ(mistakes(found + (2 * i + 1) * bytes, bytes, seed_of(higher, kDownwards, round, replayed)), 0u) << i;
        if (!replayed) {
          ASSERT_TRUE(is_sum(summed + i * bytes, bytes, round, 0)) << i;
        }
      }
    }
    for (MPI_Request& request : each)
      EXPECT_TRUE(ok(MPI_Request_free(&request)));
  }
  MPI_Comm_free(&ring);
}

// In the order of ranks, to the bits that hosts come to.
TEST_F(GpuApi, ContributionsOfGpusCombineToTheBitsOfHosts) {
  constexpr size_t kCount = 1000;
  for (const MPI_Op operation : {MPI_SUM, MPI_PROD}) {
    std::byte* const mine = pinned(kCount * sizeof(double));
    std::byte* const found = pinned(kCount * sizeof(double));
    double* const values = reinterpret_cast<double*>(mine);
    for (size_t i = 0; i < kCount; ++i)
      values[i] = 1 + 1.0 / static_cast<double>(3 + i + 1000 * static_cast<size_t>(rank()));
    std::byte* const own = device_memory(kCount * sizeof(double));
    std::byte* const result = device_memory(kCount * sizeof(double));
    copy(own, mine, kCount * sizeof(double));
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_TRUE(
        ok(MPIX_Allreduce_init(own, result, kCount, MPI_DOUBLE, operation, MPI_COMM_WORLD, MPI_INFO_NULL, &request)));
    ASSERT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue_, &request)));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue_, &request)));
    copy(found, result, kCount * sizeof(double));
    ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
    for (size_t i = 0; i < kCount; ++i) {
      double expected = 0;
      for (int each = 0; each < ranks(); ++each) {
        const double value = 1 + 1.0 / static_cast<double>(3 + i + 1000 * static_cast<size_t>(each));
        expected = each == 0 ? value : operation == MPI_SUM ? expected + value : expected * value;
      }
      ASSERT_EQ(reinterpret_cast<double*>(found)[i], expected) << i;
    }
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
  }
}

TEST_F(GpuApi, ContributionsThatAGpuCannotCombineAreRefused) {
  std::byte* const memory = device_memory(64);
  alignas(16) std::byte host[64];
  const auto refused = [](const void* own, void* result, MPI_Datatype datatype, const std::string& why) {
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_TRUE(ok(MPIX_Allreduce_init(own, result, 2, datatype, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request)));
    EXPECT_TRUE(fails(MPIX_Match(&request, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, {why}));
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
  };
  if (ranks() > 1) {  // else nothing is combined
    refused(memory, memory + 32, MPI_LONG_DOUBLE, "long double");
    refused(memory, host, MPI_DOUBLE, "the same GPU's memory, or both in the host's");
    refused(host, memory, MPI_DOUBLE, "the same GPU's memory, or both in the host's");
  }
}

// By the card, and by lanes where there are any; every word is looked at by the kernel.
TEST_F(GpuApi, AKernelStartsAndWaits) {
  using How = ExchangeArguments::How;
  constexpr uint64_t kLaunches = 3, kIterations = 10;
  const Result<void*> kernel = gpu().program().load_kernel(kTestKernels, "exchange");
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  auto* const counts = reinterpret_cast<unsigned long long*>(pinned(2 * sizeof(unsigned long long)));
  for (const uint64_t words : {1u, 1000u, 100'000u}) {
    const int bytes = static_cast<int>(words * sizeof(uint64_t));
    for (const How how : {How::kByThread, How::kByBlocks, How::kStored}) {
      step("a kernel");
      std::byte* const out = device_memory(static_cast<size_t>(bytes));
      std::byte* const in = device_memory(static_cast<size_t>(bytes));
      Requests requests;
      requests.send(out, bytes, partner(), 12);
      requests.receive(in, bytes, partner(), 12);
      requests.match();
      MPIX_Device_requests *sends = nullptr, *receives = nullptr;
      ASSERT_TRUE(ok(MPIX_Device_requests_create(queue_, 1, requests.at(0), &sends)));
      ASSERT_TRUE(ok(MPIX_Device_requests_create(queue_, 1, requests.at(1), &receives)));
      counts[0] = counts[1] = 0;
      const unsigned blocks = how == How::kByThread ? 1 : 4;
      for (uint64_t launch = 0; launch < kLaunches; ++launch) {
        const ExchangeArguments arguments{
            how,
            sends,
            receives,
            reinterpret_cast<uint64_t*>(out),
            reinterpret_cast<const uint64_t*>(in),
            words,
            launch * kIterations,
            (launch + 1) * kIterations,
            static_cast<uint64_t>(rank()),
            static_cast<uint64_t>(partner()),
            &counts[0],
            &counts[1],
        };
        ASSERT_TRUE(gpu().program().launch(handle_, kernel.value(), blocks, 256, arguments).ok());
      }
      ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
      EXPECT_EQ(counts[0], 0u) << words << " words, in way " << how;
      EXPECT_EQ(counts[1] % blocks, 0u) << "the blocks are not of one mind";
      if (how != How::kStored) {
        EXPECT_EQ(counts[1], 0u);
      }
      EXPECT_TRUE(ok(MPIX_Device_requests_free(queue_, &sends)));
      EXPECT_TRUE(ok(MPIX_Device_requests_free(queue_, &receives)));
      // Ordinary requests again.
      ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue_, requests.count(), requests.data())));
      ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue_, requests.count(), requests.data())));
      ASSERT_TRUE(ok(MPIX_Queue_wait(queue_)));
    }
  }
}

TEST_F(GpuApi, WhatIsWrongIsSaid) {
  MPIX_Queue another = MPIX_QUEUE_NULL;
  EXPECT_TRUE(fails(MPIX_Queue_init(&another, gpu().type(), &handle_), MPIX_ERR_BUSY));
  EXPECT_TRUE(fails(MPIX_Queue_init(&another, gpu().other_type(), &handle_), MPI_ERR_UNSUPPORTED_OPERATION));
  EXPECT_EQ(another, MPIX_QUEUE_NULL);
  // More than the allocation has.
  std::byte* const memory = device_memory(4096);
  Requests requests;
  requests.send(memory, 1 << 30, rank(), 6);
  requests.receive(memory, 1 << 30, rank(), 6);
  EXPECT_NE(MPIX_Matchall(requests.count(), requests.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
}

// A capture that starts a request and does not wait for it would start it again before it has completed. Its queue
// cannot be freed; the process ends with it.
TEST_F(GpuApi, AnUnfinishedCaptureIsRefused) {
  std::byte* const memory = device_memory(64);
  // Never freed: half captured, they cannot be.
  Requests& requests = *new Requests;
  Requests others;
  requests.send(memory, 16, rank(), 8);
  requests.receive(memory + 32, 16, rank(), 8);
  requests.match();
  others.send(memory, 16, rank(), 9);
  others.receive(memory + 32, 16, rank(), 9);
  others.match();
  ASSERT_TRUE(gpu().program().begin_capture(handle_).ok());
  EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue_, requests.count(), requests.data())));
  ASSERT_TRUE(gpu().program().end_capture(handle_).ok());
  ASSERT_TRUE(gpu().program().begin_capture(handle_).ok());
  EXPECT_TRUE(fails(MPIX_Enqueue_startall(queue_, others.count(), others.data()), MPI_ERR_REQUEST, {"capture"}));
  // The first capture's starts cannot be waited for in the second.
  EXPECT_TRUE(fails(MPIX_Enqueue_waitall(queue_, requests.count(), requests.data()), MPI_ERR_REQUEST, {"capture"}));
  (void)gpu().program().end_capture(handle_);
  EXPECT_TRUE(fails(MPIX_Queue_free(&queue_), MPIX_ERR_BUSY));
  queue_ = MPIX_QUEUE_NULL;
  handle_ = nullptr;  // what has a queue must not be destroyed
}

}  // namespace
}  // namespace lanyard::api_test

int main(int argc, char** argv) {
  // Well before a test's patience ends.
  setenv("LANYARD_DEADLINE_S", std::to_string(lanyard::mpi_suite::patience().count() / 6).c_str(), 0);
  return lanyard::mpi_suite::run(&argc, &argv);
}
