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
