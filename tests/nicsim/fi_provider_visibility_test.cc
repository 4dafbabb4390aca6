// The simulated provider with LANYARD_FI_VISIBILITY=late: data arrives after its count
// (nicsim/fi/README.md).
#include <algorithm>
#include <vector>

#include "tests/nicsim/fi_harness.h"
#include "tests/support/sanitizers.h"

namespace lanyard {
namespace {

constexpr int kRounds = 200;
constexpr size_t kBytes = 4096;

// Sends message after message between two nodes and reads each as soon as it is counted.
class Pair {
 public:
  explicit Pair(const char* visibility) : setting_("LANYARD_FI_VISIBILITY", visibility) { introduce({&from_, &to_}); }

  // Returns in how many rounds old bytes were seen after counted() was true.
  template <typename Counted>
  int stale_rounds(uint64_t flags, Counted counted) {
    int stale = 0;
    for (int round = 1; round <= kRounds; ++round) {
      std::fill(source_.begin(), source_.end(), static_cast<unsigned char>(round));
      EXPECT_EQ(defer_write(from_, source_.data(), kBytes, {1, fi_mr_key(region_.get())},
                            {trigger_.get(), 0, written_.get()}, flags),
                0);
      const auto wanted = static_cast<uint64_t>(round);
      EXPECT_TRUE(eventually([&] { return successes(counted(*this)) == wanted; }));
      stale += !is_whole(round);
      EXPECT_TRUE(eventually([&] { return is_whole(round); })) << "the data of round " << round << " never arrives";
      EXPECT_TRUE(eventually([&] { return successes(written_) == wanted && successes(landed_) == wanted; }));
      fi_cq_msg_entry entry;
      fi_cq_read(from_.cq.get(), &entry, 1);
    }
    return stale;
  }

  static const Owned<fid_cntr>& landed(const Pair& pair) { return pair.landed_; }
  static const Owned<fid_cntr>& written(const Pair& pair) { return pair.written_; }

 private:
  bool is_whole(int round) const {
    const volatile unsigned char* bytes = target_.data();
    for (size_t i = 0; i < kBytes; ++i)
      if (bytes[i] != static_cast<unsigned char>(round))
        return false;
    return true;
  }

  const Variable setting_;
  std::vector<unsigned char> source_ = std::vector<unsigned char>(kBytes);
  std::vector<unsigned char> target_ = std::vector<unsigned char>(kBytes);
  Node from_, to_;
  Owned<fid_cntr> trigger_ = from_.counter(), written_ = from_.counter(), landed_ = to_.counter();
  Owned<fid_mr> region_ = to_.region(target_.data(), kBytes, landed_.get());
};

TEST(FiVisibility, OrderedIsNeverStale) { EXPECT_EQ(Pair("ordered").stale_rounds(0, Pair::landed), 0); }

// The test reads bytes while the provider writes them: that race is its purpose.
struct FiLateData : ::testing::Test {
  void SetUp() override {
#ifdef LANYARD_THREAD_SANITIZER
    GTEST_SKIP() << "the test reads bytes while the provider writes them";
#endif
  }
};

TEST_F(FiLateData, IsStaleWhereTheTargetCounts) { EXPECT_GT(Pair("late").stale_rounds(0, Pair::landed), kRounds / 4); }

TEST_F(FiLateData, IsStaleAfterATransmitCompletion) {
  EXPECT_GT(Pair("late").stale_rounds(FI_TRANSMIT_COMPLETE, Pair::written), 0);
}

TEST(FiVisibility, DeliveryIsNeverStale) {
  EXPECT_EQ(Pair("late").stale_rounds(FI_DELIVERY_COMPLETE, Pair::written), 0);
}

// Closing a region waits for all counted data; nothing writes there afterwards.
TEST(FiVisibility, AClosedRegionIsNotWritten) {
  const Variable setting("LANYARD_FI_VISIBILITY", "late");
  Node from, to;
  introduce({&from, &to});
  const auto trigger = from.counter(), landed = to.counter();
  uint64_t word = 7;
  for (int round = 0; round < 50; ++round) {
    uint64_t target = 0;
    auto region = to.region(&target, sizeof target, landed.get());
    ASSERT_EQ(defer_write(from, &word, sizeof word, {1, fi_mr_key(region.get())}, {trigger.get(), 0}), 0);
    const auto wanted = static_cast<uint64_t>(round + 1);
    ASSERT_TRUE(eventually([&] { return successes(landed) == wanted; }));
    region.reset();
    EXPECT_EQ(target, 7u) << "counted data is missing after the region has closed";
    fi_cq_msg_entry entry;
    fi_cq_read(from.cq.get(), &entry, 1);
  }
}

}  // namespace
}  // namespace lanyard
