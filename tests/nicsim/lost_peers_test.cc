// ThreadedNic between two processes: that a peer has gone is known to whoever has had an operation with it (N12).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/nicsim/nic_processes.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class LostPeers : public TwoNicProcesses {
 protected:
  void expect_one_lost() {
    EXPECT_TRUE(rank.nic->caps().watches_peers);
    EXPECT_EQ(rank.nic->lost_peers(), 1u);
    EXPECT_TRUE(rank.nic->is_lost(1));
    EXPECT_FALSE(rank.nic->is_lost(0));
    EXPECT_FALSE(rank.nic->is_lost(2));
  }
};
INSTANTIATE_TEST_SUITE_P(Over, LostPeers, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

void write_once(NicRank& other) {
  EXPECT_TRUE(other.write(8).ok());
  other.wait_for(other.done, {1});
  other.meet();
}

TEST_P(LostPeers, AreKnownToWhoHasOnlyReceivedAndSleeps) {
  start(write_once);
  ASSERT_TRUE(rank.wait_for(rank.arrivals, {1}));
  ASSERT_TRUE(rank.meet());
  EXPECT_EQ(rank.nic->lost_peers(), 0u);
  EXPECT_FALSE(rank.nic->is_lost(1));
  kill();
  ASSERT_TRUE(rank.wait_until([&] { return rank.nic->is_lost(1); }));
  expect_one_lost();
  EXPECT_EQ(rank.nic->failures(), 0u);
}

TEST_P(LostPeers, AreKnownToWhoHasOnlyReceivedAndMakesNoCall) {
  start(write_once);
  ASSERT_TRUE(rank.meet());
  ASSERT_TRUE(rank.wait_for(rank.arrivals, {1}));
  std::this_thread::sleep_for(milliseconds(400));  // its thread has gone to sleep
  kill();
  ASSERT_TRUE(becomes_true([&] { return rank.nic->is_lost(1); }));
  expect_one_lost();
}

TEST_P(LostPeers, AreKnownToWhoHasOnlySent) {
  start([](NicRank& other) {
    other.wait_for(other.arrivals, {1});
    other.meet();
  });
  ASSERT_TRUE(rank.write(8).ok());
  ASSERT_TRUE(rank.wait_for(rank.done, {1}));
  ASSERT_TRUE(rank.meet());
  kill();
  ASSERT_TRUE(becomes_true([&] { return rank.nic->is_lost(1); }));
  expect_one_lost();
}

// The NIC's own thread sleeps when the first message goes out, which another thread sees to alone.
TEST_P(LostPeers, AreKnownToWhoWasAsleepAtTheFirstMessage) {
  start([](NicRank& other) {
    other.wait_for(other.arrivals, {1});
    other.meet();
  });
  std::this_thread::sleep_for(milliseconds(400));
  rank.nic->attend();
  ASSERT_TRUE(rank.write(8).ok());
  const auto deadline = steady_clock::now() + kProcessBound;
  while (rank.nic->read(rank.done).value().success == 0 && steady_clock::now() < deadline)
    rank.nic->progress();
  rank.nic->leave();
  ASSERT_TRUE(rank.meet());
  kill();
  ASSERT_TRUE(becomes_true([&] { return rank.nic->is_lost(1); }));
  expect_one_lost();
}

// Its process goes on.
TEST_P(LostPeers, AreThoseWhoseNicIsClosed) {
  start([](NicRank& other) {
    write_once(other);
    other.nic.reset();
  });
  ASSERT_TRUE(rank.wait_for(rank.arrivals, {1}));
  ASSERT_TRUE(rank.meet());
  ASSERT_TRUE(rank.wait_until([&] { return rank.nic->is_lost(1); }));
  expect_one_lost();
}

// The failure is counted once the cause is known.
TEST_P(LostPeers, FailWhatIsUnderWayToThem) {
  start(write_once);
  ASSERT_TRUE(rank.wait_for(rank.arrivals, {1}));
  ASSERT_TRUE(rank.meet());
  stop();
  ASSERT_TRUE(rank.write(8).ok());
  EXPECT_EQ(rank.nic->read(rank.done).value().reached(), 0u);
  EXPECT_FALSE(rank.nic->is_lost(1));  // one that stands still has not gone
  kill();
  ASSERT_TRUE(becomes_true([&] { return rank.nic->failures() == 1; }));
  expect_one_lost();
  const auto failure = rank.nic->take_failure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->context, 77u);
  EXPECT_EQ(failure->peer, 1u);
  EXPECT_EQ(rank.nic->read(rank.done).value(), (nic::CounterValue{.failure = 1}));
}

}  // namespace
}  // namespace lanyard
