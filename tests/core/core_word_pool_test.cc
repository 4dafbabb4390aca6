// WordPool: whose memory is freed at the end, and whose is not.
#include "transport/core/word_pool.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/core/core_kept_memory.h"
#include "tests/contract/model_fabric.h"
#include "transport/nic/forwarding_nic.h"

namespace lanyard {
namespace {

using core::WordPool;

// The regions of words are given back as always: that the NIC lets go of a region says nothing of who else writes.
TEST(WordPoolTest, WordsThatAreKeptOutliveThePool) {
  ModelFabric fabric(1);
  std::vector<uint64_t*> words;
  {
    WordPool pool(fabric.nic(0), false);
    for (uint32_t i = 0; i < 2 * WordPool::kFirstSlabWords; ++i)
      words.push_back(pool.take().value().address);
    EXPECT_EQ(fabric.nic(0).usage().regions, 2u) << "two slabs";
    pool.keep();
  }
  EXPECT_EQ(fabric.nic(0).usage().regions, 0u);
  ASSERT_TRUE(is_kept(words.front(), WordPool::kFirstSlabWords));
  ASSERT_TRUE(is_kept(words.back(), 2 * WordPool::kFirstSlabWords));
  for (uint64_t* word : words)
    EXPECT_EQ(++*word, 1u) << "as somebody does who was not told of the end";
}

// A NIC that never lets go of a region.
struct HoldingNic final : nic::ForwardingNic {
  using ForwardingNic::ForwardingNic;
  Status deregister_region(nic::RegionId) override { return {Code::kInvalidState, "a test's refusal"}; }
};

TEST(WordPoolTest, WordsThatTheNicHoldsOutliveThePool) {
  ModelFabric fabric(1);
  HoldingNic nic(fabric.nic(0));
  uint64_t* word = nullptr;
  {
    WordPool pool(nic, false);
    word = pool.take().value().address;
  }
  EXPECT_TRUE(is_kept(word, WordPool::kFirstSlabWords));
}

}  // namespace
}  // namespace lanyard
