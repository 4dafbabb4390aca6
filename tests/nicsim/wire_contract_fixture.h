// Shared by the rows of the wire contract: the wires under test, a sink that records what arrives,
// and functions that poll.
#ifndef LANYARD_TESTS_WIRE_CONTRACT_FIXTURE_H_
#define LANYARD_TESTS_WIRE_CONTRACT_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "nicsim/wire/wire.h"
#include "tests/support/expect.h"
#include "tests/support/sanitizers.h"

namespace lanyard::wire_contract {

using nicsim::Packet;
using nicsim::PacketKind;
using nicsim::Sink;
using nicsim::Wire;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using Sleeper = Wire::Sleeper;

#if defined(LANYARD_ADDRESS_SANITIZER) || defined(LANYARD_THREAD_SANITIZER)
inline constexpr int kSlow = 10;  // repetitions are divided by this
#else
inline constexpr int kSlow = 1;
#endif
inline constexpr seconds kPatience{60};  // for what must happen; only a failure waits this long

// One implementation, the parameter of the suite.
struct WireCase {
  std::string name;  // letters and digits
  std::function<std::unique_ptr<Wire>()> make;
  uint32_t room = 50;  // short packets that send() can deliver before the receiver polls
  // A wire whose sleeps never end by themselves, so that a lost wake-up shows.
  std::function<std::unique_ptr<Wire>()> make_patient = make;
};

inline void PrintTo(const WireCase& wire, std::ostream* out) { *out << wire.name; }
inline std::string case_name(const ::testing::TestParamInfo<WireCase>& info) { return info.param.name; }

// Lowers a limit of this process (getrlimit(2)) while it lives.
class Limited {
 public:
  Limited(decltype(RLIMIT_NOFILE) resource, rlim_t most) : resource_(resource) {
    EXPECT_EQ(::getrlimit(resource_, &usual_), 0);
    set({.rlim_cur = most, .rlim_max = usual_.rlim_max});
  }
  ~Limited() { set(usual_); }

 private:
  void set(const rlimit& limit) { EXPECT_EQ(::setrlimit(resource_, &limit), 0); }
  const decltype(RLIMIT_NOFILE) resource_;
  rlimit usual_{};
};

inline rlim_t first_free_descriptor() {
  const int first = ::dup(STDERR_FILENO);
  ::close(first);
  return static_cast<rlim_t>(first);
}

// Memory with guards around it.
class Buffer {
 public:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kGuardByte{0xA5};

  explicit Buffer(size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuard, kGuardByte) {}
  std::byte* data() { return memory_.data() + kGuard; }
  size_t size() const { return bytes_; }
  bool guards_hold() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (memory_[i] != kGuardByte || memory_[kGuard + bytes_ + i] != kGuardByte)
        return false;
    }
    return true;
  }

 private:
  size_t bytes_;
  std::vector<std::byte> memory_;
};

// Different for each seed, with a period that no chunk or page has.
inline void fill(std::byte* data, size_t bytes, uint32_t seed) {
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((i * 7 + i / 251 + seed * 13 + 1) & 0xff);
}

inline size_t first_difference(const std::byte* data, size_t bytes, uint32_t seed) {
  for (size_t i = 0; i < bytes; ++i) {
    if (data[i] != static_cast<std::byte>((i * 7 + i / 251 + seed * 13 + 1) & 0xff))
      return i;
  }
  return bytes;
}

struct Event {
  enum class What { kPlaced, kRefused, kLanded, kThrownAway, kAbandoned, kAtomic, kAck, kPull, kCannotPull, kLost };
  What what;
  Packet packet;  // kLost: its source is the peer
};
using What = Event::What;

// Records what arrives. A write goes to the buffer that its key names; without one it is refused.
// Optionally answers as a NIC does.
class TestSink : public Sink {
 public:
  std::byte* place(const Packet& packet) override {
    const auto found = memory.find(packet.key);
    note(found == memory.end() ? What::kRefused : What::kPlaced, packet);
    return found == memory.end() ? nullptr : found->second + packet.offset;
  }
  void landed(const Packet& packet, bool placed) override {
    note(placed ? What::kLanded : What::kThrownAway, packet);
    if (answers != nullptr) {
      answers->send(packet.source, {.kind = PacketKind::kAck, .source = self, .token = packet.token}, nullptr);
    }
  }
  void abandoned(const Packet& packet, Code code) override {
    abandoned_for.push_back(code);
    note(What::kAbandoned, packet);
  }
  void arrived(const Packet& packet, const std::byte* loan) override {
    if (packet.kind == PacketKind::kPull)
      loans.emplace_back(loan, loan + nicsim::kLoanBytes);
    note(packet.kind == PacketKind::kAtomic ? What::kAtomic
         : packet.kind == PacketKind::kAck  ? What::kAck
         : packet.kind == PacketKind::kPull ? What::kPull
                                            : What::kCannotPull,
         packet);
  }
  void peer_lost(uint32_t peer, const std::string& why) override {
    why_lost = why;
    note(What::kLost, {.source = peer});
  }

  size_t count(What what) const {
    const auto found = counts.find(what);
    return found == counts.end() ? 0 : found->second;
  }

  std::map<uint64_t, std::byte*> memory;
  std::vector<Event> events;
  std::vector<std::vector<std::byte>> loans;
  std::vector<Code> abandoned_for;
  std::string why_lost;  // of the last lost peer
  Wire* answers = nullptr;
  uint32_t self = 0;
  std::function<void(const Event&)> on_event;

 private:
  void note(What what, const Packet& packet) {
    events.push_back({what, packet});
    ++counts[what];
    if (on_event)
      on_event(events.back());
  }

  std::map<What, size_t> counts;
};

// Wires of one job in this process, rank i at index i.
struct Job {
  std::vector<std::unique_ptr<Wire>> wires;
  std::vector<TestSink> sinks;

  Job(const WireCase& wire, size_t size) : sinks(size) {
    std::vector<nic::Address> addresses;
    for (uint32_t rank = 0; rank < size; ++rank) {
      wires.push_back(wire.make());
      addresses.push_back(wires.back()->address());
      sinks[rank].self = rank;
    }
    for (uint32_t rank = 0; rank < size; ++rank) {
      EXPECT_TRUE(works(wires[rank]->set_peers(addresses, rank)));
    }
  }

  size_t poll(size_t rank) { return wires[rank]->poll(sinks[rank]); }

  // Polls all wires in turn until done() or until `patience` is over.
  bool pump(const std::function<bool()>& done, steady_clock::duration patience = kPatience) {
    const auto drive = [&] {
      size_t steps = 0;
      for (size_t rank = 0; rank < wires.size(); ++rank) {
        if (wires[rank] != nullptr)
          steps += poll(rank);
      }
      if (steps == 0)
        std::this_thread::yield();
    };
    return eventually(done, drive, patience);
  }
  // Polls all wires until nothing has happened for a while.
  void settle(milliseconds quiet = milliseconds(20)) {
    steady_clock::time_point last = steady_clock::now();
    pump([&] {
      for (size_t rank = 0; rank < wires.size(); ++rank) {
        if (poll(rank) > 0)
          last = steady_clock::now();
      }
      return steady_clock::now() - last > quiet;
    });
  }
};

inline Packet write_packet(uint32_t source, uint32_t token, uint64_t bytes, uint64_t key = 1, uint64_t offset = 0) {
  return {.kind = PacketKind::kWrite, .source = source, .token = token, .key = key, .offset = offset, .bytes = bytes};
}

inline Packet atomic_packet(uint32_t source, uint32_t token) {
  return {.kind = PacketKind::kAtomic,
          .atomic = nic::AtomicKind::kReplace,
          .source = source,
          .token = token,
          .key = 0x1122334455667788,
          .offset = 8,
          .operand = 0x99aabbccddeeff00 + token,
          .loan = ~uint64_t{token}};
}

class WireContract : public ::testing::TestWithParam<WireCase> {};

}  // namespace lanyard::wire_contract

#endif  // LANYARD_TESTS_WIRE_CONTRACT_FIXTURE_H_
