// ResourcePool and WordPool when the NIC does not close a resource.
#include "transport/core/resources.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/contract/local_fabric.h"
#include "tests/core/core_process.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using core::ResourcePool;
using core::Resources;
using core::WordPool;

// Refuses to deregister regions while `holds`, as if a dead peer's message were still landing.
class HoldingNic final : public nic::ForwardingNic {
 public:
  using ForwardingNic::ForwardingNic;
  Status deregister_region(nic::RegionId region) override {
    if (!holds)
      return ForwardingNic::deregister_region(region);
    ++asked;
    return {Code::kAgain, "messages are landing in the region"};
  }
  bool holds = false;
  uint64_t asked = 0;
};

class Pool : public ::testing::Test {
 protected:
  Resources open() {
    core::Transfer transfer;
    transfer.direction = core::Direction::kReceive;
    transfer.buffer = buffer_;
    transfer.bytes = sizeof buffer_;
    return pool_.open(transfer, core::Strategy::kTargetCounter).value();
  }

  uint8_t buffer_[64] = {};
  LocalFabric fabric_{1};
  HoldingNic nic_{fabric_.nic(0)};
  ResourcePool pool_{nic_, /*whole_pages=*/false};
};

TEST_F(Pool, ClosingIsRetriedLessAndLessOften) {
  constexpr uint64_t kCalls = 200;
  Resources held = open();
  nic_.holds = true;
  pool_.close(held);
  EXPECT_FALSE(held.buffer.valid());
  ASSERT_EQ(pool_.unclosed(), 1u);
  const uint64_t asked_at_once = nic_.asked;
  std::vector<Resources> others;
  for (uint64_t call = 0; call < kCalls; ++call)
    others.push_back(open());
  // Retried after 1, 2, 4 ... calls.
  const uint64_t asked = nic_.asked - asked_at_once;
  EXPECT_GE(asked, 2u);
  EXPECT_LE(asked, static_cast<uint64_t>(std::bit_width(kCalls)));
  EXPECT_EQ(pool_.unclosed(), 1u);
  // When the NIC agrees, the region is closed within as many further calls.
  nic_.holds = false;
  for (uint64_t call = 0; call < 2 * kCalls && pool_.unclosed() > 0; ++call)
    others.push_back(open());
  EXPECT_EQ(pool_.unclosed(), 0u);
  for (Resources& other : others)
    pool_.close(other);
  EXPECT_EQ(pool_.unclosed(), 0u);
}

// A word that may still be incremented is not reused.
TEST_F(Pool, TheWordOfAHeldRegionIsNotReused) {
  Resources held = open();
  const uint64_t* const word = held.done.address;
  nic_.holds = true;
  pool_.close(held);
  std::vector<Resources> others;
  for (int call = 0; call < 20; ++call) {
    others.push_back(open());
    EXPECT_NE(others.back().done.address, word);
  }
  nic_.holds = false;
  for (Resources& other : others)
    pool_.close(other);
}

// Whether `word` has not been freed: new allocations of its size would get freed memory.
::testing::AssertionResult is_kept(uint64_t* word) {
  static auto& kept = *new std::vector<uint64_t*>;  // leaked on purpose
  kept.push_back(word);
  *static_cast<volatile uint64_t*>(word) = *word;
  std::vector<std::unique_ptr<uint64_t[]>> others;
  for (int i = 0; i < 64; ++i) {
    others.push_back(std::make_unique<uint64_t[]>(WordPool::kFirstSlabWords));
    if (word >= others.back().get() && word < others.back().get() + WordPool::kFirstSlabWords)
      return ::testing::AssertionFailure() << "the word's memory was freed and allocated again";
  }
  return ::testing::AssertionSuccess();
}

TEST(WordPoolTest, WordsThatTheNicHoldsOutliveThePool) {
  LocalFabric fabric(1);
  HoldingNic nic(fabric.nic(0));
  nic.holds = true;
  uint64_t* word = nullptr;
  {
    WordPool pool(nic, false);
    word = pool.take().value().address;
  }
  EXPECT_TRUE(is_kept(word));
}

}  // namespace
}  // namespace lanyard
