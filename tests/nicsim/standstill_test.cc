// ThreadedNic between two processes of which one stands still in the middle of a message: memory can be taken away all
// the same, and nobody else is held up.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/nicsim/nic_processes.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

constexpr uint64_t kLong = uint64_t{32} << 20;

// Sends long messages without a pause until it is told to stop; then says how many have failed.
void send_all_the_time(NicRank& other) {
  char word = 0;
  uint64_t sent = 0;
  const auto ended = [&] { return other.nic->read(other.done).value().success + other.nic->failures(); };
  while (::recv(other.channel, &word, 1, MSG_DONTWAIT) != 1) {
    if (sent - ended() < 3 && other.write(kLong).ok())
      ++sent;
    other.nic->progress();
  }
  other.wait_until([&] { return ended() == sent; });
  other.tell(other.nic->failures());
  nic::RemoteKey key;
  if (!other.hear(key))
    return;
  other.key = key;
  const uint64_t before = other.nic->read(other.done).value().success;
  if (other.write(4096).ok() && other.wait_until([&] { return other.nic->read(other.done).value().success > before; }))
    other.tell('d');
}

class Standstill : public TwoNicProcesses {};
INSTANTIATE_TEST_SUITE_P(Over, Standstill, ::testing::Values("shm", "inbox", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Standstill, OfASenderHoldsUpNobody) {
  start(send_all_the_time, kLong);
  ASSERT_TRUE(rank.wait_until([&] { return rank.nic->read(rank.arrivals).value().success > 0; }));
  stop();

  const auto begin = std::chrono::steady_clock::now();
  std::atomic<bool> deregistered{false}, read{false};
  Status status;
  std::thread owner([&] {
    status = rank.nic->deregister_region(rank.region);
    deregistered = true;
  });
  std::thread other([&] {
    do {
      (void)rank.nic->read(rank.done);
      read = true;
      const nic::CounterId counter = rank.nic->open_counter().value();
      EXPECT_TRUE(rank.nic->close_counter(counter).ok());
    } while (!deregistered);
  });
  EXPECT_TRUE(becomes_true([&] { return read.load(); })) << "another call waits";
  EXPECT_TRUE(becomes_true([&] { return deregistered.load(); })) << "the region stays";
  if (!deregistered)
    kill();
  owner.join();
  other.join();
  if (HasFailure())
    return;
  if (status.code() == Code::kTimedOut) {
    // It stands still in a copy of its own to this memory, over shared memory: nothing has changed.
    EXPECT_STREQ(GetParam(), "shm");
    EXPECT_TRUE(rank.nic->key(rank.region).ok());
    go_on();
    ASSERT_TRUE(rank.wait_until([&] { return rank.nic->deregister_region(rank.region).ok(); }));
  } else {
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  EXPECT_EQ(rank.nic->key(rank.region).status().code(), Code::kNotFound);

  const bool waited = std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(500);

  // Nothing comes there any more, what was under way has failed at its sender, and later messages arrive.
  std::fill_n(rank.memory, kLong, std::byte{0xee});
  go_on();
  ASSERT_TRUE(rank.tell('s'));
  uint64_t failures = 0;
  ASSERT_TRUE(rank.hear(failures));
  // Unless nothing was under way just then, or all of it could be read from the memory of who stands still.
  EXPECT_TRUE(failures > 0 || !waited || GetParam() == std::string("shm"));
  EXPECT_TRUE(std::all_of(rank.memory, rank.memory + kLong, [](std::byte byte) { return byte == std::byte{0xee}; }));
  const uint64_t arrived = rank.nic->read(rank.arrivals).value().success;
  std::vector<std::byte> more(4096);
  const nic::RegionId region = rank.nic->register_region(more.data(), more.size(), rank.arrivals).value();
  ASSERT_TRUE(rank.tell(rank.nic->key(region).value()));
  char word = 0;
  ASSERT_TRUE(rank.hear(word));
  EXPECT_EQ(rank.nic->read(rank.arrivals).value().success, arrived + 1);
  EXPECT_FALSE(rank.nic->is_lost(1));
  EXPECT_TRUE(rank.nic->deregister_region(region).ok());
}

}  // namespace
}  // namespace lanyard
