// Requests that are made, matched, started, waited for and freed, again and again, leave nothing behind: no counter,
// region or entry of the card, no memory, no mapping, no file.
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/api/api_objects.h"
#include "tests/support/sanitizers.h"

namespace lanyard::api_test {
namespace {

constexpr int kRequests = 24'000;  // some seconds
// Pairs a match: one that is as small as a match can be takes as long as the processes take to wake each other.
constexpr int kPairs = 32;
constexpr int kStarts = 2;
constexpr int kSections = 4;  // after each of which the memory is looked at
constexpr size_t kInts = 3;   // of a message, the middle one of which a datatype with gaps leaves out

// What the process has of the system and the card.
struct Belongings {
  uint64_t counters = 0, regions = 0, entries = 0, failures = 0;
  uint64_t allocated = 0;  // bytes
  uint64_t files = 0, mappings = 0;

  explicit Belongings(const Queue& queue)
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
  friend std::ostream& operator<<(std::ostream& out, const Belongings& b) {
    return out << b.counters << " counters, " << b.regions << " regions, " << b.entries << " entries, " << b.failures
               << " failures, " << b.allocated << " bytes, " << b.files << " files, " << b.mappings << " mappings";
  }
};

class Cycles : public ::testing::Test {
 protected:
  // One match's worth of requests, of every kind.
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
      MPI_Barrier(MPI_COMM_WORLD);  // what ready sends need
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

TEST_F(Cycles, LeaveNothingBehind) {
  run(kRequests / 4);  // until everything that is kept for the next time is there
  const Belongings before(queue_);
  uint64_t least_growth = UINT64_MAX;
  uint64_t allocated = before.allocated;
  for (int section = 0; section < kSections; ++section) {
    run(kRequests / kSections);
    const uint64_t now = Belongings(queue_).allocated;
    least_growth = std::min(least_growth, now - std::min(now, allocated));
    allocated = now;
  }
  const Belongings after(queue_);
  std::printf("rank %d: %d requests: %s\n", rank(), kRequests, (::testing::Message() << after).GetString().c_str());
  EXPECT_EQ(after.counters, before.counters);
  EXPECT_EQ(after.regions, before.regions);
  EXPECT_EQ(after.entries, 0u);
  EXPECT_EQ(after.failures, 0u);
  EXPECT_EQ(after.files, before.files);
#if !defined(LANYARD_THREAD_SANITIZER)  // which maps memory of its own as it goes
  EXPECT_LE(after.mappings, before.mappings + 2) << before;
#endif
  // A leak of one request in eight would be more: malloc has no piece below 32 bytes. A leak shows in every section;
  // what the other process's lead in one of them made a buffer grow by (some 40 KiB were seen) does not.
#if !defined(LANYARD_ADDRESS_SANITIZER) && !defined(LANYARD_THREAD_SANITIZER)
  EXPECT_LE(least_growth, static_cast<uint64_t>(kRequests / kSections) * 3) << before;
#endif
}

}  // namespace
}  // namespace lanyard::api_test
