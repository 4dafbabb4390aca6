// ThreadedNic between two processes: that a peer has gone is known to whoever has had an operation with it (N12).
// Children are made by fork() while this process has one thread, and end by _exit() or a signal.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nicsim/threaded/threaded_nic.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/tcp_wire.h"
#include "nicsim/wire/wire.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using nic::CounterId;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// Longer than anything that works ever takes, under any sanitizer.
constexpr seconds kBound{20};

// One of two ranks, with a way to talk beside the NIC, and eight bytes that the other may write.
struct Rank {
  uint32_t self = 0;
  int channel = -1;
  alignas(8) uint64_t words[2] = {};
  std::unique_ptr<nicsim::ThreadedNic> nic = {};
  CounterId arrivals = {}, done = {};
  nic::RegionId region = {};
  nic::RemoteKey key = {};  // of the other's

  template <typename T>
  bool tell(const T& word) {
    return ::write(channel, &word, sizeof word) == sizeof word;
  }
  template <typename T>
  bool hear(T& word) {
    return ::recv(channel, &word, sizeof word, MSG_WAITALL) == sizeof word;
  }
  bool meet() {
    char word = 'm';
    return tell(word) && hear(word);
  }

  bool connect(const std::string& wire_name) {
    std::unique_ptr<nicsim::Wire> wire =
        wire_name == "tcp" ? std::move(nicsim::make_tcp_wire({.interface = "127.0.0.1"}).value())
                           : std::unique_ptr<nicsim::Wire>(std::move(nicsim::ShmWire::create().value()));
    nic = std::make_unique<nicsim::ThreadedNic>(nicsim::ModelLimits(), std::move(wire));
    std::vector<nic::Address> addresses(2);
    addresses[self] = nic->address();
    std::byte buffer[nic::Address::kMaxBytes] = {};
    std::copy(addresses[self].bytes.begin(), addresses[self].bytes.end(), buffer);
    if (!tell(buffer) || !hear(buffer))
      return false;
    addresses[1 - self].bytes.assign(buffer, buffer + addresses[self].bytes.size());
    if (!nic->set_peers(addresses, self).ok())
      return false;
    arrivals = nic->open_counter().value();
    done = nic->open_counter().value();
    region = nic->register_region(words, sizeof words, arrivals).value();
    key = nic->key(region).value();
    return tell(key) && hear(key);
  }
  void write() {
    nic::Op op;
    op.completion = done;
    op.local = {region, 8};
    op.remote = {1 - self, key, 0};
    op.bytes = 8;
    op.context = 77;
    EXPECT_TRUE(nic->issue(op).ok());
  }
  // As whoever waits does it: helps, and sleeps as long as it may.
  bool wait_until(const std::function<bool()>& holds) {
    const auto deadline = steady_clock::now() + kBound;
    while (true) {
      const uint64_t seen = nic->activity();
      if (holds())
        return true;
      if (steady_clock::now() > deadline)
        return false;
      if (nic->progress() == 0)
        nic->wait_since(seen, kBound);
    }
  }
  bool wait_for(CounterId counter, uint64_t reached) {
    return wait_until([&] { return nic->read(counter).value().reached() == reached; });
  }
};

// Without a call into the NIC but loads.
bool becomes_true(const std::function<bool()>& holds) {
  const auto deadline = steady_clock::now() + kBound;
  while (!holds()) {
    if (steady_clock::now() > deadline)
      return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

class LostPeers : public ::testing::TestWithParam<const char*> {
 protected:
  ~LostPeers() override {
    rank.nic.reset();
    kill();
    ::close(rank.channel);
  }
  // Rank 1 is a child that runs `body`; `rank` is this process.
  void start(const std::function<void(Rank&)>& body) {
    int channel[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, channel), 0);
    std::fflush(nullptr);
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      ::close(channel[0]);
      Rank other{.self = 1, .channel = channel[1]};
      if (other.connect(GetParam()))
        body(other);
      while (true)
        ::pause();
    }
    ::close(channel[1]);
    rank.channel = channel[0];
    ASSERT_TRUE(rank.connect(GetParam()));
    EXPECT_TRUE(rank.nic->caps().watches_peers);
  }
  void signal(int number) { ASSERT_EQ(::kill(child_, number), 0); }
  void kill() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(std::exchange(child_, -1), nullptr, 0);
    }
  }
  void expect_one_lost() {
    EXPECT_EQ(rank.nic->lost_peers(), 1u);
    EXPECT_TRUE(rank.nic->is_lost(1));
    EXPECT_FALSE(rank.nic->is_lost(0));
    EXPECT_FALSE(rank.nic->is_lost(2));
  }

  Rank rank;

 private:
  pid_t child_ = -1;
};
INSTANTIATE_TEST_SUITE_P(Over, LostPeers, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

void write_once(Rank& other) {
  other.write();
  other.wait_for(other.done, 1);
  other.meet();
}

TEST_P(LostPeers, AreKnownToWhoHasOnlyReceivedAndSleeps) {
  start(write_once);
  ASSERT_TRUE(rank.wait_for(rank.arrivals, 1));
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
  ASSERT_TRUE(rank.wait_for(rank.arrivals, 1));
  std::this_thread::sleep_for(milliseconds(400));  // its thread has gone to sleep
  kill();
  ASSERT_TRUE(becomes_true([&] { return rank.nic->is_lost(1); }));
  expect_one_lost();
}

TEST_P(LostPeers, AreKnownToWhoHasOnlySent) {
  start([](Rank& other) {
    other.wait_for(other.arrivals, 1);
    other.meet();
  });
  rank.write();
  ASSERT_TRUE(rank.wait_for(rank.done, 1));
  ASSERT_TRUE(rank.meet());
  kill();
  ASSERT_TRUE(becomes_true([&] { return rank.nic->is_lost(1); }));
  expect_one_lost();
}

// The NIC's own thread sleeps when the first message goes out, which another thread sees to alone.
TEST_P(LostPeers, AreKnownToWhoWasAsleepAtTheFirstMessage) {
  start([](Rank& other) {
    other.wait_for(other.arrivals, 1);
    other.meet();
  });
  std::this_thread::sleep_for(milliseconds(400));
  rank.nic->attend();
  rank.write();
  const auto deadline = steady_clock::now() + kBound;
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
  start([](Rank& other) {
    write_once(other);
    other.nic.reset();
  });
  ASSERT_TRUE(rank.wait_for(rank.arrivals, 1));
  ASSERT_TRUE(rank.meet());
  ASSERT_TRUE(rank.wait_until([&] { return rank.nic->is_lost(1); }));
  expect_one_lost();
}

// The failure is counted once the cause is known.
TEST_P(LostPeers, FailWhatIsUnderWayToThem) {
  start(write_once);
  ASSERT_TRUE(rank.wait_for(rank.arrivals, 1));
  ASSERT_TRUE(rank.meet());
  signal(SIGSTOP);
  rank.write();
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
