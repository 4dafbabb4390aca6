// The API on GPU streams and GPU memory, on real ranks: --config=cuda or --config=hip. Without a
// GPU the tests skip. The program can be copied to another machine; mpi_suite.h says how its ranks
// work together.
#include <cstdio>
#include <cstring>
#include <optional>

#include "gpu/device/driver.h"
#include "tests/api/api_objects.h"
#include "tests/gpu/gpu_program.h"

namespace lanyard::api_test {
namespace {

using gpu::DeviceAddress;
using gpu::Inside;
using gpu::StreamHandle;

// The program's own use of the vendor's driver, one object per process.
class Gpu {
 public:
  static Gpu* get() {
    static std::unique_ptr<Gpu> the_gpu = open();
    return the_gpu.get();
  }
  gpu::Driver& driver() { return *driver_; }
  GpuProgram& program() { return program_; }
  gpu::ContextHandle context() const { return context_; }
  MPIX_Queue_type type() const { return std::string(driver_->kind()) == "cuda" ? MPIX_QUEUE_CUDA : MPIX_QUEUE_HIP; }
  MPIX_Queue_type other_type() const { return type() == MPIX_QUEUE_CUDA ? MPIX_QUEUE_HIP : MPIX_QUEUE_CUDA; }

 private:
  explicit Gpu(std::unique_ptr<gpu::Driver> driver) : driver_(std::move(driver)), program_(driver_->kind()) {
    const int device = rank() % driver_->device_count();
    context_ = driver_->context_of_device(device).value();
  }
  static std::unique_ptr<Gpu> open() {
    Result<std::unique_ptr<gpu::Driver>> driver = gpu::open_driver();
    if (driver.ok() && driver.value()->device_count() > 0)
      return std::unique_ptr<Gpu>(new Gpu(std::move(driver.value())));
    if (rank() == 0)
      std::printf("no GPU: %s\n", driver.status().message().c_str());
    return nullptr;
  }

  std::unique_ptr<gpu::Driver> driver_;
  GpuProgram program_;
  gpu::ContextHandle context_ = nullptr;
};

// Makes the rank's device current for each test.
class GpuApi : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Gpu::get() == nullptr)
      GTEST_SKIP() << "this machine has no GPU";
    inside_.emplace(gpu().driver(), gpu().context());
    handle_ = gpu().driver().make_stream().value();
    ASSERT_TRUE(ok(MPIX_Queue_init(&queue_, gpu().type(), &handle_)));
  }
  void TearDown() override {
    if (Gpu::get() == nullptr)
      return;
    if (queue_ != MPIX_QUEUE_NULL) {
      EXPECT_TRUE(ok(MPIX_Queue_free(&queue_)));
    }
    for (const DeviceAddress memory : memory_)
      gpu().driver().free(memory);
    for (void* memory : pinned_)
      gpu().driver().free_host(memory);
    gpu().driver().destroy_stream(handle_);
    inside_.reset();
  }
  static Gpu& gpu() { return *Gpu::get(); }

  std::byte* device_memory(size_t bytes) {
    memory_.push_back(gpu().driver().allocate(bytes + 1).value());
    return reinterpret_cast<std::byte*>(memory_.back());
  }
  std::byte* pinned(size_t bytes) {
    pinned_.push_back(gpu().driver().allocate_host(bytes + 1).value());
    return static_cast<std::byte*>(pinned_.back());
  }
  // Copies in the stream.
  void copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0) {
      EXPECT_TRUE(gpu()
                      .driver()
                      .copy(handle_, reinterpret_cast<DeviceAddress>(to), reinterpret_cast<DeviceAddress>(from), bytes)
                      .ok());
    }
  }
  static void fill(std::byte* memory, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; ++i)
      memory[i] = static_cast<std::byte>(content_word(seed, i / 8) >> (8 * (i % 8)));
  }
  static size_t mistakes(const std::byte* memory, size_t bytes, uint64_t seed) {
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; ++i)
      wrong += memory[i] != static_cast<std::byte>(content_word(seed, i / 8) >> (8 * (i % 8)));
    return wrong;
  }
  // Whether the memory holds the sum, as 64-bit numbers, of all ranks' contents.
  static bool is_sum(const std::byte* memory, size_t bytes, int round, int number) {
    for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
      uint64_t sum = 0;
      for (int each = 0; each < ranks(); ++each)
        sum += content_word(seed_of(each, 0, round, number), i);
      uint64_t found = 0;
      std::memcpy(&found, memory + i * sizeof found, sizeof found);
      if (found != sum)
        return false;
    }
    return true;
  }

  StreamHandle handle_ = nullptr;
  MPIX_Queue queue_ = MPIX_QUEUE_NULL;

 private:
  std::optional<Inside> inside_;
  std::vector<DeviceAddress> memory_;
  std::vector<void*> pinned_;
};

// Every combination of host and device memory at the two ends, to the partner and to
// the rank itself.
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

// Columns of doubles, odd byte counts, and blocks in any order, from GPU memory to GPU memory.
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
      // The expected result, computed by the MPI library.
      std::vector<std::byte> sent(kBytes), expected(kBytes, std::byte{0xdb}), packed(kBytes);
      fill(sent.data(), kBytes, seed_of(partner(), rank(), i));
      int end = 0, position = 0;
      MPI_Pack(sent.data(), 1, type, packed.data(), kBytes, &end, MPI_COMM_SELF);
      MPI_Unpack(packed.data(), end, &position, expected.data(), 1, type, MPI_COMM_SELF);
      ASSERT_EQ(std::memcmp(found, expected.data(), kBytes), 0);
    }
    requests.free();
    // A GPU stream cannot pack host memory; the start is refused as a whole.
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

// The host does nothing between two replays. Every payload is compared.
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

// As an exchange, by enqueued starts; and as single requests in a graph, replayed without the host.
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

TEST_F(GpuApi, ContributionsThatAGpuCannotCombineAreRefused) {
  std::byte* const memory = device_memory(64);
  alignas(16) std::byte host[64];
  const auto refused = [](const void* own, void* result, MPI_Datatype datatype, const std::string& why) {
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_TRUE(ok(MPIX_Allreduce_init(own, result, 2, datatype, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request)));
    EXPECT_TRUE(fails(MPIX_Match(&request, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, {why}));
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
  };
  if (ranks() > 1) {  // a single rank combines nothing
    refused(memory, memory + 32, MPI_LONG_DOUBLE, "long double");
    refused(memory, host, MPI_DOUBLE, "must both be in host memory, or in memory of the same GPU");
    refused(host, memory, MPI_DOUBLE, "must both be in host memory, or in memory of the same GPU");
  }
}

TEST_F(GpuApi, ErrorsAreReported) {
  MPIX_Queue another = MPIX_QUEUE_NULL;
  EXPECT_TRUE(fails(MPIX_Queue_init(&another, gpu().type(), &handle_), MPIX_ERR_BUSY));
  EXPECT_TRUE(fails(MPIX_Queue_init(&another, gpu().other_type(), &handle_), MPI_ERR_UNSUPPORTED_OPERATION));
  EXPECT_EQ(another, MPIX_QUEUE_NULL);
  // A count beyond the end of the allocation.
  std::byte* const memory = device_memory(4096);
  Requests requests;
  requests.send(memory, 1 << 30, rank(), 6);
  requests.receive(memory, 1 << 30, rank(), 6);
  EXPECT_NE(MPIX_Matchall(requests.count(), requests.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
}

// A capture that starts a request without a wait would, when replayed, start it again before it
// completes. The queue cannot be freed after that; it lives until the process ends.
TEST_F(GpuApi, AnUnfinishedCaptureIsRefused) {
  std::byte* const memory = device_memory(64);
  // Leaked: half-captured requests cannot be freed.
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
  // The second capture cannot wait for the first capture's starts.
  EXPECT_TRUE(fails(MPIX_Enqueue_waitall(queue_, requests.count(), requests.data()), MPI_ERR_REQUEST, {"capture"}));
  (void)gpu().program().end_capture(handle_);
  EXPECT_TRUE(fails(MPIX_Queue_free(&queue_), MPIX_ERR_BUSY));
  queue_ = MPIX_QUEUE_NULL;
}

}  // namespace
}  // namespace lanyard::api_test

int main(int argc, char** argv) { return lanyard::mpi_suite::run(&argc, &argv); }
