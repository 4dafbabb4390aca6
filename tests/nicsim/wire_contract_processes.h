// The wire contract between processes, and W6: peers that end. This process forks children while it
// has one thread. They end by _exit().
#ifndef LANYARD_TESTS_WIRE_CONTRACT_PROCESSES_H_
#define LANYARD_TESTS_WIRE_CONTRACT_PROCESSES_H_

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "tests/nicsim/wire_contract_fixture.h"

namespace lanyard::wire_contract {

// One rank of two, in this process or the child, with a pipe to the other besides the wire.
struct Rank {
  std::unique_ptr<Wire> wire;
  TestSink sink;
  uint32_t self = 0;
  int channel = -1;

  bool tell(char word) { return ::write(channel, &word, 1) == 1; }
  bool hear(char word) {
    char heard = 0;
    return ::read(channel, &heard, 1) == 1 && heard == word;
  }
  bool connect(const WireCase& wire_case) {
    wire = wire_case.make();
    sink.self = self;
    const nic::Address mine = wire->address();
    nic::Address other;
    other.bytes.resize(mine.bytes.size());
    const auto size = static_cast<ssize_t>(mine.bytes.size());
    if (::write(channel, mine.bytes.data(), mine.bytes.size()) != size ||
        ::read(channel, other.bytes.data(), other.bytes.size()) != size)
      return false;
    return wire->set_peers(self == 0 ? std::vector{mine, other} : std::vector{other, mine}, self).ok();
  }
  // Polls, and sleeps if there is nothing to do.
  bool wait_for(const std::function<bool()>& done, steady_clock::duration patience = kPatience,
                milliseconds sleep = seconds(1)) {
    const auto drive = [&] {
      if (wire->poll(sink) == 0)
        wire->sleep(Sleeper::kHelper, sleep);
    };
    return eventually(done, drive, patience);
  }
  // Waits for the other rank. Polls meanwhile, since send() may have queued packets that the
  // other waits for.
  bool meet() {
    char heard = 0;
    const auto there = [&] { return ::recv(channel, &heard, 1, MSG_DONTWAIT) == 1; };
    return tell('m') && wait_for(there, kPatience, milliseconds(1)) && heard == 'm';
  }
  // Exchanges one packet each way, to make all connections. Both sides poll until
  // both have received.
  bool shake_hands() {
    wire->send(1 - self, atomic_packet(self, 0), nullptr);
    return wait_for([&] { return sink.count(What::kAtomic) > 0; }) && meet();
  }
};

class TwoProcesses {
 public:
  // The child runs `body` as rank 1 and exits with its result.
  explicit TwoProcesses(const std::function<bool(Rank&)>& body) {
    int channel[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
    std::fflush(nullptr);  // else the child may print the buffered text again
    child_ = ::fork();
    if (child_ == 0) {
      ::close(channel[0]);
      Rank rank;
      rank.self = 1;
      rank.channel = channel[1];
      const bool well = body(rank);
      ::_exit(well ? 0 : 1);
    }
    ::close(channel[1]);
    parent.channel = channel[0];
  }
  ~TwoProcesses() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    ::close(parent.channel);
  }
  void kill() {
    ::kill(child_, SIGKILL);
    ::waitpid(std::exchange(child_, -1), nullptr, 0);
  }
  bool child_ended_well() {
    int status = -1;
    if (::waitpid(std::exchange(child_, -1), &status, 0) < 0)
      return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  Rank parent;

 private:
  pid_t child_ = -1;
};

TEST_P(WireContract, W6_PacketsOfAPeerArriveBeforeItsLoss) {
  const WireCase& wire_case = GetParam();
  const uint32_t count = wire_case.room;
  TwoProcesses two([&](Rank& child) {
    if (!child.connect(wire_case) || !child.shake_hands() || !child.hear('g'))
      return false;
    for (uint32_t i = 1; i <= count; ++i)
      child.wire->send(0, atomic_packet(1, i), nullptr);
    return true;  // ends without closing its wire
  });
  Rank& parent = two.parent;
  ASSERT_TRUE(parent.connect(wire_case) && parent.shake_hands());
  parent.wire->send(1, atomic_packet(0, 1), nullptr);  // the child never reads it
  ASSERT_TRUE(parent.tell('g'));
  ASSERT_TRUE(parent.wait_for([&] { return parent.sink.count(What::kLost) > 0; }));
  EXPECT_TRUE(two.child_ended_well());
  ASSERT_EQ(parent.sink.events.size(), count + 2);
  for (uint32_t i = 0; i <= count; ++i)
    EXPECT_EQ(parent.sink.events[i].packet.token, i);
  EXPECT_EQ(parent.sink.events.back().what, What::kLost);
  EXPECT_EQ(parent.sink.events.back().packet.source, 1u);

  // What is sent to it now is dropped, and it is not lost again.
  std::vector<std::byte> source(100000);
  for (uint32_t i = 0; i < 1000; ++i) {
    parent.wire->send(1, write_packet(0, i, i % 10 == 0 ? source.size() : 8), source.data());
    parent.wire->poll(parent.sink);
  }
  parent.wait_for([] { return false; }, milliseconds(300));
  EXPECT_EQ(parent.sink.count(What::kLost), 1u);
}

TEST_P(WireContract, W6_AWriteThatCannotCompleteIsAbandoned) {
  const WireCase& wire_case = GetParam();
  constexpr uint64_t kBytes = uint64_t{16} << 20;
  TwoProcesses two([&](Rank& child) {
    std::vector<std::byte> source(kBytes);
    if (!child.connect(wire_case) || !child.shake_hands())
      return false;
    child.wire->send(0, write_packet(1, 1, kBytes), source.data());
    return child.hear('g');
  });
  Rank& parent = two.parent;
  Buffer target(kBytes);
  parent.sink.memory[1] = target.data();
  ASSERT_TRUE(parent.connect(wire_case) && parent.shake_hands());
  const auto placed = [&] { return !parent.sink.events.empty() && parent.sink.events.back().what == What::kPlaced; };
  ASSERT_TRUE(parent.wait_for(placed));
  ASSERT_TRUE(parent.tell('g'));
  EXPECT_TRUE(two.child_ended_well());
  ASSERT_TRUE(parent.wait_for([&] { return parent.sink.count(What::kLost) > 0; }));
  EXPECT_EQ(parent.sink.count(What::kAbandoned), 1u);
  EXPECT_EQ(parent.sink.count(What::kLanded), 0u);
  EXPECT_EQ(parent.sink.count(What::kLost), 1u);
  EXPECT_TRUE(target.guards_hold());
}

// Many long writes both ways at once, with odd lengths, sources and targets.
inline bool exchange_long_writes(Rank& rank) {
  constexpr uint64_t kSizes[] = {131073, 262144, 500003, 1234567, (uint64_t{5} << 20) + 3};
  constexpr uint32_t kRounds = 20 / kSlow + 1;
  std::vector<std::vector<std::byte>> sources;
  std::vector<Buffer> targets;
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    sources.emplace_back(kSizes[i] + 7);
    targets.emplace_back(kSizes[i] + 9);
    rank.sink.memory[i] = targets[i].data();
  }
  rank.sink.answers = rank.wire.get();
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (uint32_t i = 0; i < std::size(kSizes); ++i) {
      std::fill(targets[i].data(), targets[i].data() + targets[i].size(), std::byte{0});
      fill(sources[i].data() + 7, kSizes[i], round + i + rank.self);
    }
    if (!rank.meet())
      return false;  // both targets are empty
    for (uint32_t i = 0; i < std::size(kSizes); ++i)
      rank.wire->send(1 - rank.self, write_packet(rank.self, i, kSizes[i], i, round % 9), sources[i].data() + 7);
    const size_t all = (round + 1) * std::size(kSizes);
    if (!rank.wait_for([&] { return rank.sink.count(What::kAck) >= all && rank.sink.count(What::kLanded) >= all; }))
      return false;
    for (uint32_t i = 0; i < std::size(kSizes); ++i) {
      const uint32_t seed = round + i + 1 - rank.self;
      if (first_difference(targets[i].data() + round % 9, kSizes[i], seed) != kSizes[i] || !targets[i].guards_hold())
        return false;
    }
  }
  return rank.meet();
}

TEST_P(WireContract, TwoProcessesExchangeLongWrites) {
  const WireCase& wire_case = GetParam();
  TwoProcesses two([&](Rank& child) { return child.connect(wire_case) && exchange_long_writes(child); });
  ASSERT_TRUE(two.parent.connect(wire_case));
  EXPECT_TRUE(exchange_long_writes(two.parent));
  EXPECT_TRUE(two.child_ended_well());
}

// The child sends and is killed at some moment while both copy or while it waits.
TEST_P(WireContract, W6_ASenderIsKilledDuringItsWrite) {
  const WireCase& wire_case = GetParam();
  constexpr uint64_t kBytes = uint64_t{24} << 20;
  Buffer target(kBytes);
  for (int round = 0; round < 8; ++round) {
    TwoProcesses two([&](Rank& child) {
      std::vector<std::byte> source(kBytes, std::byte{1});
      if (!child.connect(wire_case) || !child.shake_hands())
        return false;
      child.wire->send(0, write_packet(1, 1, kBytes), source.data());
      child.wait_for([] { return false; });
      return false;
    });
    Rank& parent = two.parent;
    parent.sink.memory[1] = target.data();
    ASSERT_TRUE(parent.connect(wire_case) && parent.shake_hands());
    int polls = 0;
    parent.wait_for(
        [&] { return parent.sink.count(What::kLanded) > 0 || (parent.sink.events.size() > 1 && ++polls > round); });
    two.kill();
    ASSERT_TRUE(parent.wait_for([&] { return parent.sink.count(What::kLost) > 0; }));
    EXPECT_EQ(parent.sink.count(What::kAbandoned) + parent.sink.count(What::kLanded), 1u);
    EXPECT_EQ(parent.sink.count(What::kLost), 1u);
    std::fill(target.data(), target.data() + kBytes, std::byte{7});
    parent.wait_for([] { return false; }, milliseconds(5));
    EXPECT_TRUE(
        std::all_of(target.data(), target.data() + kBytes, [](std::byte byte) { return byte == std::byte{7}; }));
    EXPECT_TRUE(target.guards_hold());
  }
}

// The same with the receiver: the sender finds out and goes on with other peers.
TEST_P(WireContract, W6_AReceiverIsKilledDuringAWrite) {
  const WireCase& wire_case = GetParam();
  constexpr uint64_t kBytes = uint64_t{24} << 20;
  const std::vector<std::byte> source(kBytes, std::byte{1});
  for (int round = 0; round < 8; ++round) {
    TwoProcesses two([&](Rank& child) {
      std::vector<std::byte> target(kBytes);
      child.sink.memory[1] = target.data();
      if (!child.connect(wire_case) || !child.shake_hands())
        return false;
      int polls = 0;
      child.wait_for([&] { return child.sink.events.size() > 1 && ++polls > round; });
      ::raise(SIGKILL);
      return false;
    });
    Rank& parent = two.parent;
    ASSERT_TRUE(parent.connect(wire_case) && parent.shake_hands());
    parent.wire->send(1, write_packet(0, 1, kBytes), source.data());
    ASSERT_TRUE(parent.wait_for([&] { return parent.sink.count(What::kLost) > 0; }));
    EXPECT_EQ(parent.sink.count(What::kLost), 1u);
    EXPECT_EQ(parent.sink.count(What::kAck), 0u);
  }
}

TEST_P(WireContract, W6_APeerThatWasNeverReachedIsLostAtTheFirstSend) {
  const WireCase& wire_case = GetParam();
  TwoProcesses two([&](Rank& child) { return child.connect(wire_case); });
  Rank& parent = two.parent;
  ASSERT_TRUE(parent.connect(wire_case));
  EXPECT_TRUE(two.child_ended_well());
  std::vector<std::byte> source(100000);
  parent.wire->send(1, write_packet(0, 1, 8), source.data());
  parent.wire->send(1, write_packet(0, 2, source.size()), source.data());
  ASSERT_TRUE(parent.wait_for([&] { return parent.sink.count(What::kLost) > 0; }));
  parent.wire->send(1, write_packet(0, 3, 8), source.data());
  parent.wait_for([] { return false; }, milliseconds(200));
  EXPECT_EQ(parent.sink.events.size(), 1u);
}

// A peer that only sends. Nothing is sent to it, not even an answer.
TEST_P(WireContract, W6_AKilledPeerThatHasOnlySentIsLost) {
  const WireCase& wire_case = GetParam();
  TwoProcesses two([&](Rank& child) {
    if (!child.connect(wire_case))
      return false;
    child.wire->send(0, atomic_packet(1, 0), nullptr);
    char word = 0;
    child.wait_for([&] { return ::recv(child.channel, &word, 1, MSG_DONTWAIT) == 1; }, kPatience, milliseconds(1));
    ::raise(SIGKILL);
    return false;
  });
  Rank& parent = two.parent;
  ASSERT_TRUE(parent.connect(wire_case));
  ASSERT_TRUE(parent.wait_for([&] { return parent.sink.count(What::kAtomic) > 0; }));
  ASSERT_TRUE(parent.tell('g'));
  EXPECT_TRUE(parent.wait_for([&] { return parent.sink.count(What::kLost) == 1; }, seconds(20), seconds(60)));
  EXPECT_EQ(parent.sink.why_lost, "has ended");
  EXPECT_FALSE(two.child_ended_well());
}

// The peer has a child by fork(), such as a daemon, that inherits all its open descriptors.
TEST_P(WireContract, W6_AKilledPeerIsLostThoughItsChildLives) {
  const WireCase& wire_case = GetParam();
  TwoProcesses two([&](Rank& child) {
    if (!child.connect(wire_case) || !child.shake_hands() || ::fork() < 0)
      return false;
    // Both processes run until the test ends; the parent is killed before.
    return child.tell('f') && child.hear('e');
  });
  Rank& parent = two.parent;
  ASSERT_TRUE(parent.connect(wire_case) && parent.shake_hands());
  ASSERT_TRUE(parent.hear('f') && parent.hear('f'));
  two.kill();
  EXPECT_TRUE(parent.wait_for([&] { return parent.sink.count(What::kLost) > 0; }));
  EXPECT_EQ(parent.sink.why_lost, "has ended");
}

// A connection that cannot be made does not mean that the peer has ended.
TEST_P(WireContract, W6_AnUnreachablePeerIsNotReportedAsEnded) {
  Job job(GetParam(), 2);
  const Limited limited(RLIMIT_NOFILE, 1);
  job.wires[0]->send(1, atomic_packet(0, 0), nullptr);
  EXPECT_TRUE(job.pump([&] { return job.sinks[0].count(What::kLost) > 0; }));
  const std::string& why = job.sinks[0].why_lost;
  EXPECT_TRUE(why.starts_with("cannot be reached: ")) << why;
  EXPECT_TRUE(has(why, "Too many open files"));
  EXPECT_FALSE(has(why, "LANYARD_SIM_WIRE"));  // the variable would not help
}

}  // namespace lanyard::wire_contract

#endif  // LANYARD_TESTS_WIRE_CONTRACT_PROCESSES_H_
