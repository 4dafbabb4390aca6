// lanyard_device.h compiled for the host: every kind of bell and sets of every size.
#include <lanyard/lanyard_device.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

// A set with one bell of each kind and `completions` completions.
class Set {
 public:
  explicit Set(uint64_t completions) : words(completions), counts(completions) {
    for (uint64_t i = 0; i < completions; ++i)
      words[i] = counts[i] = 10 * i;
    put(3);
    put(completions);
    for (const uint64_t how : {LANYARD_STORE_ONE, LANYARD_ADD_ONE, LANYARD_STORE_SUM}) {
      put(address(&bells[how]));
      put(how);
      put(how == LANYARD_STORE_SUM ? address(&sum) : 0);
    }
    for (uint64_t i = 0; i < completions; ++i) {
      put(address(&words[i]));
      put(address(&counts[i]));
    }
  }
  Set(const Set&) = delete;

  const MPIX_Device_requests* get() const { return reinterpret_cast<const MPIX_Device_requests*>(memory_.data()); }
  void complete(uint64_t i) { ++words[i]; }

  std::vector<uint64_t> words, counts;
  uint64_t bells[3] = {7, 7, 7};
  uint64_t sum = 40;

 private:
  static uint64_t address(uint64_t* word) { return reinterpret_cast<uint64_t>(word); }
  void put(uint64_t word) { memory_.push_back(word); }
  std::vector<uint64_t> memory_;
};

TEST(DeviceHeader, AStartRingsEachBellInItsWay) {
  Set set(0);
  for (uint64_t i = 1; i <= 3; ++i) {
    MPIX_Device_startall(set.get());
    EXPECT_EQ(set.bells[LANYARD_STORE_ONE], 1u);
    EXPECT_EQ(set.bells[LANYARD_ADD_ONE], 7 + i);
    EXPECT_EQ(set.bells[LANYARD_STORE_SUM], 40 + i);
    EXPECT_EQ(set.sum, 40 + i);
    EXPECT_TRUE(MPIX_Device_testall(set.get())) << "the set has no completion to wait for";
  }
}

// More completions than testall reads at once; each of them in turn completes last.
TEST(DeviceHeader, ATestPassesOnceAllHaveCompleted) {
  for (uint64_t completions = 1; completions <= 2 * LANYARD_LOOKS_AT_ONCE + 1; ++completions) {
    Set set(completions);
    for (uint64_t last = 0; last < completions; ++last) {
      const std::vector<uint64_t> before = set.counts;
      for (uint64_t i = 0; i < completions; ++i)
        if (i != last)
          set.complete(i);
      EXPECT_FALSE(MPIX_Device_testall(set.get())) << last << " of " << completions;
      EXPECT_EQ(set.counts, before);
      set.complete(last);
      if (last % 2 == 0) {
        EXPECT_TRUE(MPIX_Device_testall(set.get()));
      } else {
        MPIX_Device_waitall(set.get());
      }
      for (uint64_t i = 0; i < completions; ++i)
        EXPECT_EQ(set.counts[i], before[i] + 1);
    }
  }
}

}  // namespace
