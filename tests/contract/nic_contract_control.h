// The NIC contract: what a channel of messages beside the data builds on: operations that are issued whatever else the
// NIC has to do, and peers that are not taken for dead (N12).
#ifndef LANYARD_TESTS_NIC_CONTRACT_CONTROL_H_
#define LANYARD_TESTS_NIC_CONTRACT_CONTROL_H_

#include "tests/contract/nic_contract_failures.h"

namespace lanyard::nic_contract {

// Every entry is taken by work that never fires; what is issued needs none, nor a counter of its own, to any peer.
TEST_P(NicContract, Control_IssuedOperationsNeedNoEntryAndNoCounter) {
  if (!start({.nics = 3, .deferred_depth = 16}))
    return;
  constexpr size_t kSlot = 256;
  constexpr uint64_t kRounds = 40;
  Memory& source = memory(0, kSlot);
  Memory& one = memory(0, 8);
  one.store(1);
  source.fill(4, 0, kSlot);
  Memory& stuck_target = memory(1, 8);
  const CounterId never = counter();
  post(std::vector<DeferredOp>(depth(), when(never, 1, write_op(one, 0, stuck_target, 0, 8))));
  ASSERT_EQ(nic().free_entries(), 0u);
  for (size_t rank = 0; rank < 3; ++rank) {
    const CounterId arrived = counter(rank);
    Memory& lane = memory(rank, kSlot + 8, arrived);
    for (uint64_t i = 0; i < kRounds; ++i) {
      issue(write_op(source, 0, lane, 0, kSlot));
      issue(sum_op(one, 0, lane, kSlot));
    }
    ASSERT_TRUE(reaches(arrived, 2 * kRounds, rank)) << "at NIC " << rank;
    EXPECT_TRUE(eventually([&] { return lane.load(kSlot) == kRounds; }));
    EXPECT_TRUE(eventually([&] { return lane.holds(4, 0, kSlot); }));
  }
  EXPECT_EQ(nic().free_entries(), 0u);
  EXPECT_EQ(stuck_target.load(), 0u);
  EXPECT_EQ(nic().failures(), 0u);
  add(never, 1);
  EXPECT_TRUE(all_free());
}

TEST_P(NicContract, N12_AFailureAtALivingPeerIsNoLoss) {
  if (!start())
    return;
  Memory& source = memory(0, 4096);
  Memory& target = memory(1, 4096);
  uint64_t failures = 0;
  for (auto& [what, op] : doomed_ops(source, target)) {
    issue(op);
    ++failures;
    ASSERT_TRUE(eventually([&] { return nic().failures() == failures; })) << what;
    EXPECT_EQ(nic().lost_peers(), 0u) << what;
    EXPECT_FALSE(nic().is_lost(1)) << what;
  }
  EXPECT_FALSE(nic().is_lost(7)) << "a peer that does not exist";
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_CONTROL_H_
