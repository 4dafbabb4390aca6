// ThreadedNic: a rank that has exchanged an operation with a peer learns that the peer
// is gone (N12).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "tests/contract/local_fabric.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using std::chrono::milliseconds;

bool becomes_true(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(1));
  return holds();
}

class LostPeers : public ::testing::TestWithParam<LocalOptions::Wire> {
 protected:
  // Sends 8 bytes to the other rank. The NICs' own threads progress it, with `help`
  // this thread too.
  void send(size_t from, bool help = false) {
    nic::Nic &source = fabric.nic(from), &target = fabric.nic(1 - from);
    const nic::CounterId done = source.open_counter().value();
    nic::Op op;
    op.completion = done;
    op.local = {source.register_region(&words[from], 8).value(), 0};
    const nic::RegionId region = target.register_region(&words[1 - from], 8).value();
    op.remote = {static_cast<uint32_t>(1 - from), target.key(region).value(), 0};
    op.bytes = 8;
    ASSERT_TRUE(source.issue(op).ok());
    ASSERT_TRUE(becomes_true([&] {
      if (help)
        source.progress();
      return source.read(done).value().success == 1;
    }));
  }
  // Reads only: no call progresses the NIC of rank 0.
  void expect_that_its_end_is_seen() {
    EXPECT_EQ(fabric.nic(0).lost_peers(), 0u);
    EXPECT_FALSE(fabric.nic(0).is_lost(1));
    fabric.end(1);
    EXPECT_TRUE(becomes_true([&] { return fabric.nic(0).is_lost(1); }));
    EXPECT_TRUE(fabric.nic(0).caps().watches_peers);
    EXPECT_EQ(fabric.nic(0).lost_peers(), 1u);
    EXPECT_FALSE(fabric.nic(0).is_lost(0));
    EXPECT_FALSE(fabric.nic(0).is_lost(2));
    EXPECT_EQ(fabric.nic(0).failures(), 0u);
  }

  uint64_t words[2] = {};
  LocalFabric fabric{2, {.limits = {}, .wire = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Over, LostPeers, ::testing::Values(LocalOptions::Wire::kShm, LocalOptions::Wire::kTcp));

TEST_P(LostPeers, AreKnownToAPureReceiver) {
  send(1);
  std::this_thread::sleep_for(milliseconds(400));  // the NIC's thread is asleep by now
  expect_that_its_end_is_seen();
}

TEST_P(LostPeers, AreKnownToAPureSender) {
  send(0);
  expect_that_its_end_is_seen();
}

// The NIC's own thread sleeps when another thread sends the first message.
TEST_P(LostPeers, AreKnownToANicAsleepAtTheFirstMessage) {
  fabric.nic(0).open_counter().value();
  std::this_thread::sleep_for(milliseconds(400));
  fabric.nic(0).attend();
  send(0, /*help=*/true);
  fabric.nic(0).leave();
  expect_that_its_end_is_seen();
}

}  // namespace
}  // namespace lanyard
