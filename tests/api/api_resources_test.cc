// Resources of requests: a warm queue's enqueue path neither allocates nor makes system calls;
// requests that are made and freed leak nothing; messages may be longer than 2 GiB.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/api/api_objects.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/sanitizers.h"
#include "tests/support/syscall_counter.h"

namespace lanyard::api_test {
namespace {

constexpr int kRequests = 16;
constexpr int kRounds = 100;
// Rounds enqueued before the stream runs any. All fit into the NIC's entries.
constexpr int kRoundsAGate = 10;

void nothing(void*) {}

// Half of the requests send to the partner, half receive from it.
struct Enqueuing : OnAQueue {
  std::array<int, kRequests / 2> out{}, in{};
  Requests requests;
  int failures = 0;

  void SetUp() override {
    for (int i = 0; i < kRequests / 2; ++i) {
      requests.receive(&in[static_cast<size_t>(i)], sizeof(int), partner(), i);
      requests.send(&out[static_cast<size_t>(i)], sizeof(int), partner(), i, MPI_COMM_WORLD,
                    i % 2 == 0 ? Mode::kSend : Mode::kSsend);
    }
    requests.match();
    for (int i = 0; i < 3 * kRounds / kRoundsAGate; ++i)
      gated([this] { enqueue_rounds(); });
  }

  void enqueue_round() {
    failures += MPIX_Enqueue_startall(queue, kRequests, requests.data()) != MPI_SUCCESS;
    failures += MPIX_Host_stream_launch(stream.handle(), nothing, nullptr) != MPI_SUCCESS;
    failures += MPIX_Enqueue_waitall(queue, kRequests, requests.data()) != MPI_SUCCESS;
  }
  void enqueue_rounds() {
    for (int i = 0; i < kRoundsAGate; ++i)
      enqueue_round();
  }
  void enqueue_rounds_one_by_one() {
    for (int i = 0; i < kRoundsAGate; ++i) {
      for (int r = 0; r < kRequests; ++r)
        failures += MPIX_Enqueue_start(queue, requests.at(r)) != MPI_SUCCESS;
      for (int r = 0; r < kRequests; ++r)
        failures += MPIX_Enqueue_wait(queue, requests.at(r)) != MPI_SUCCESS;
    }
  }

  // Calls `enqueue` while the stream is held, then lets everything run.
  template <typename Function>
  void gated(Function enqueue) {
    Gate gate(stream);
    enqueue();
    gate.open();
    queue.wait();
  }
};

TEST_F(Enqueuing, AllocatesNothing) {
  if (!allocations_are_counted())
    GTEST_SKIP() << "a sanitizer replaces operator new in this build";
  for (const auto enqueue : {&Enqueuing::enqueue_rounds, &Enqueuing::enqueue_rounds_one_by_one}) {
    uint64_t allocations = 0;
    for (int i = 0; i < kRounds / kRoundsAGate; ++i)
      gated([&] {
        const uint64_t before = allocation_count();
        (this->*enqueue)();
        allocations += allocation_count() - before;
      });
    EXPECT_EQ(allocations, 0u);
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(queue.figure("entries_overflowed"), 0u);
}

// After a pause the NIC and the stream may need a system call to wake up (gpu/stream.h S3). So each
// measurement directly follows another round, and does not count if it took long itself.
TEST_F(Enqueuing, MakesNoSystemCall) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLong = std::chrono::milliseconds(50);
  if (!SyscallCounter::available())
    GTEST_SKIP() << "system calls cannot be counted in this build";
  if (mpi_suite::process().thread_level < MPI_THREAD_SERIALIZED)
    GTEST_SKIP() << "the MPI has no MPI_THREAD_SERIALIZED";
  std::vector<long> calls;
  int measured = 0;
  const auto measure = [&](SyscallCounter& counter, const std::function<void()>& enqueue) {
    gated([&] {
      enqueue_round();
      const Clock::time_point begin = Clock::now();
      const std::vector<long> more = counter.during(enqueue);
      if (Clock::now() - begin > kLong)
        return;
      ++measured;
      calls.insert(calls.end(), more.begin(), more.end());
    });
  };
  // The counter's own thread makes the calls while this one waits.
  ASSERT_TRUE(SyscallCounter::run([&](SyscallCounter& counter) {
    for (int i = 0; i < kRounds / kRoundsAGate; ++i) {
      measure(counter, [this] { enqueue_rounds(); });
      measure(counter, [this] { enqueue_rounds_one_by_one(); });
    }
  }));
  EXPECT_EQ(calls, std::vector<long>());
  EXPECT_GT(measured, kRounds / kRoundsAGate) << "the machine is too busy to measure";
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(queue.figure("entries_overflowed"), 0u);
}

// ---- Requests that are made and freed repeatedly

constexpr int kMade = 24'000;  // takes a few seconds
// Pairs per match. The time of a small match is the time that the processes take to
// wake each other.
constexpr int kPairs = 32;
constexpr int kStarts = 2;
constexpr int kSections = 4;  // memory is measured after each
constexpr size_t kInts = 3;   // in a message; a datatype with gaps leaves out the middle one

// Resources of the process: the NIC's and the system's.
struct ProcessResources {
  uint64_t counters = 0, regions = 0, entries = 0, failures = 0;
  uint64_t allocated = 0;  // bytes
  uint64_t files = 0, mappings = 0;

  explicit ProcessResources(const Queue& queue)
      : counters(queue.figure("counters")),
        regions(queue.figure("regions")),
        entries(queue.figure("entries_in_use")),
        failures(queue.figure("failures")) {
    const struct mallinfo2 info = mallinfo2();  // of all arenas
    allocated = info.uordblks + info.hblkhd;
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator("/proc/self/fd"))
      ++files;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      ++mappings;
  }
  friend std::ostream& operator<<(std::ostream& out, const ProcessResources& b) {
    return out << b.counters << " counters, " << b.regions << " regions, " << b.entries << " entries, " << b.failures
               << " failures, " << b.allocated << " bytes, " << b.files << " files, " << b.mappings << " mappings";
  }
};

class Cycles : public ::testing::Test {
 protected:
  // One match with requests of every kind.
  void round(int number) {
    Requests requests;
    const int peer = number % 4 == 3 ? rank() : partner();
    const bool gaps = number % 5 == 4;
    const bool imatch = number % 2 == 1;
    const int count = gaps ? 1 : static_cast<int>(kInts);
    const MPI_Datatype type = gaps ? gaps_ : MPI_INT;
    if (number % 16 == 5)
      fail_to_match();
    std::fill(out_.begin(), out_.end(), number);
    for (int i = 0; i < kPairs; ++i)
      requests.receive(message(in_, i), count, number % 8 == 1 ? MPI_ANY_SOURCE : peer, i, MPI_COMM_WORLD, type);
    for (int i = 0; i < kPairs; ++i)
      requests.send(message(out_, i), count, peer, i, MPI_COMM_WORLD, i % 3 == 2 ? Mode::kRsend : Mode::kSend, type);
    if (imatch) {
      MPI_Request match = MPI_REQUEST_NULL;
      ASSERT_TRUE(ok(MPIX_Imatchall(requests.count(), requests.data(), &match)));
      ASSERT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
    } else {
      requests.match();
    }
    if (number % 16 == 6)
      return;  // never started
    for (int start = 0; start < kStarts; ++start) {
      std::fill(in_.begin(), in_.end(), -1);
      ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue_, kPairs, requests.data())));
      stream_.synchronize();
      MPI_Barrier(MPI_COMM_WORLD);  // required for ready sends
      ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue_, kPairs, requests.at(kPairs))));
      requests.wait(queue_);
      queue_.wait();
      const auto arrived = std::count(in_.begin(), in_.end(), number);
      ASSERT_EQ(static_cast<size_t>(arrived), kPairs * (gaps ? kInts - 1 : kInts));
    }
    requests.free();
  }
  void fail_to_match() {
    Requests pair;
    pair.receive(in_.data(), 1, rank(), 0, MPI_COMM_WORLD, MPI_INT);
    pair.send(out_.data(), 2, rank(), 0, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
    ASSERT_TRUE(fails(MPIX_Matchall(2, pair.data(), MPI_STATUSES_IGNORE), MPI_ERR_IN_STATUS, {"8", "4"}));
  }
  void run(int requests) {
    for (int made = 0; made < requests; made += 2 * kPairs)
      ASSERT_NO_FATAL_FAILURE(round(rounds_++));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void SetUp() override {
    MPI_Type_vector(2, 1, 2, MPI_INT, &gaps_);
    MPI_Type_commit(&gaps_);
  }
  void TearDown() override { MPI_Type_free(&gaps_); }
  static int* message(std::vector<int>& memory, int pair) { return &memory[kInts * static_cast<size_t>(pair)]; }

  Stream stream_;
  Queue queue_{stream_};
  MPI_Datatype gaps_ = MPI_DATATYPE_NULL;
  std::vector<int> in_ = std::vector<int>(kInts * kPairs), out_ = in_;
  int rounds_ = 0;
};

TEST_F(Cycles, LeakNothing) {
  run(kMade / 4);  // warms up: fills all caches
  const ProcessResources before(queue_);
  uint64_t least_growth = UINT64_MAX;
  uint64_t allocated = before.allocated;
  for (int section = 0; section < kSections; ++section) {
    run(kMade / kSections);
    const uint64_t now = ProcessResources(queue_).allocated;
    least_growth = std::min(least_growth, now - std::min(now, allocated));
    allocated = now;
  }
  const ProcessResources after(queue_);
  std::printf("rank %d: %d requests: %s\n", rank(), kMade, (::testing::Message() << after).GetString().c_str());
  EXPECT_EQ(after.counters, before.counters);
  EXPECT_EQ(after.regions, before.regions);
  EXPECT_EQ(after.entries, 0u);
  EXPECT_EQ(after.failures, 0u);
  EXPECT_EQ(after.files, before.files);
#if !defined(LANYARD_THREAD_SANITIZER)  // it maps memory of its own
  EXPECT_LE(after.mappings, before.mappings + 2) << before;
#endif
  // A leak in one request of eight would exceed this: malloc's smallest piece is 32 bytes. A
  // leak shows in every section. A buffer that grows because one process runs ahead (some 40 KiB
  // seen) shows in one.
#if !defined(LANYARD_ADDRESS_SANITIZER) && !defined(LANYARD_THREAD_SANITIZER)
  EXPECT_LE(least_growth, static_cast<uint64_t>(kMade / kSections) * 3) << before;
#endif
}

// ---- 2^31 + 8 bytes from rank 0 to rank 1; with gaps 8 GiB of memory

constexpr uint64_t kNumbers = (uint64_t{1} << 28) + 1;  // of 8 bytes each
constexpr uint64_t kBlock = uint64_t{1} << 17;          // numbers before each gap of kGap numbers
constexpr uint64_t kGap = 8;
constexpr int kBlocks = static_cast<int>(kNumbers / kBlock) + 1;

struct Large : OnAQueue {
  MPI_Datatype block = MPI_DATATYPE_NULL;
  std::vector<uint64_t> numbers;

  void SetUp() override {
    if (ranks() < 2)
      GTEST_SKIP() << "needs two ranks";
    MPI_Datatype run = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(kBlock), MPI_UINT64_T, &run);
    MPI_Type_create_resized(run, 0, static_cast<MPI_Aint>((kBlock + kGap) * sizeof(uint64_t)), &block);
    MPI_Type_commit(&block);
    MPI_Type_free(&run);
    if (rank() == 0) {
      numbers.resize(kNumbers);
      for (uint64_t i = 0; i < kNumbers; ++i)
        numbers[i] = i * 0x9e3779b97f4a7c15u;
    }
    if (rank() == 1)
      numbers.resize(static_cast<uint64_t>(kBlocks) * (kBlock + kGap));
  }
  void TearDown() override {
    if (block != MPI_DATATYPE_NULL)
      MPI_Type_free(&block);
  }
  void transfer(MPI_Request request) {
    MPI_Status status;
    ASSERT_TRUE(ok(MPIX_Match(&request, &status)));
    if (rank() == 1) {
      MPI_Count elements = 0;
      MPI_Get_elements_x(&status, block, &elements);
      EXPECT_EQ(static_cast<uint64_t>(elements), kNumbers);
    }
    EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
    EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
    queue.wait();
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
    if (rank() != 1)
      return;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < numbers.size(); ++i) {
      const uint64_t number = i / (kBlock + kGap) * kBlock + i % (kBlock + kGap);
      const bool is_there = i % (kBlock + kGap) < kBlock && number < kNumbers;
      wrong += numbers[i] != (is_there ? number * 0x9e3779b97f4a7c15u : 0);
    }
    EXPECT_EQ(wrong, 0u);
  }
};

TEST_F(Large, MessagesArriveWhole) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 0)
    MPI_Send_init(numbers.data(), static_cast<int>(kNumbers), MPI_UINT64_T, 1, 3, MPI_COMM_WORLD, &request);
  if (rank() == 1)
    MPI_Recv_init(numbers.data(), kBlocks, block, 0, 3, MPI_COMM_WORLD, &request);
  if (rank() < 2)
    transfer(request);
}

#if MPI_VERSION >= 4
TEST_F(Large, CountsTheyAreMadeWith) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 0)
    MPI_Send_init_c(numbers.data(), static_cast<MPI_Count>(kNumbers * sizeof(uint64_t)), MPI_BYTE, 1, 3, MPI_COMM_WORLD,
                    &request);
  if (rank() == 1)
    MPI_Recv_init_c(numbers.data(), kBlocks, block, 0, 3, MPI_COMM_WORLD, &request);
  if (rank() < 2)
    transfer(request);
}
#endif

}  // namespace
}  // namespace lanyard::api_test
