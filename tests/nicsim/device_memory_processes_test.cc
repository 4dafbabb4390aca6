// Device memory between two processes: what one lends, the other borrows. Children are made by fork() while this
// process has one thread, and end by _exit().
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
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
#include "tests/nicsim/fake_device_memory.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using nic::CounterId;
using nic::CounterValue;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kHost = DeviceMemory::kHost;
constexpr seconds kPatience{60};

struct Setting {
  std::string name;
  bool tcp = false;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

std::vector<std::byte> pattern(uint64_t seed, uint64_t bytes) {
  std::vector<std::byte> result(bytes);
  for (uint64_t i = 0; i < bytes; ++i)
    result[i] = static_cast<std::byte>(((seed + 1) * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u) >> 40 | 1);
  return result;
}

// One of two ranks, with a way to talk beside the NIC.
struct Rank {
  uint32_t self = 0;
  int channel = -1;
  FakeDeviceMemory memory = FakeDeviceMemory({.seed = self + 1u});
  std::unique_ptr<nicsim::ThreadedNic> nic = {};

  template <typename T>
  bool tell(const T& word) {
    return ::write(channel, &word, sizeof word) == sizeof word;
  }
  template <typename T>
  bool hear(T& word) {
    return ::recv(channel, &word, sizeof word, MSG_WAITALL) == sizeof word;
  }
  bool meet() {
    char heard = 0;
    return tell('m') && hear(heard) && heard == 'm';
  }
  bool connect(const Setting& setting) {
    std::unique_ptr<nicsim::Wire> wire =
        setting.tcp ? std::move(nicsim::make_tcp_wire({.interface = "127.0.0.1"}).value())
                    : std::unique_ptr<nicsim::Wire>(std::move(nicsim::ShmWire::create().value()));
    nic = std::make_unique<nicsim::ThreadedNic>(nicsim::ModelLimits(), std::move(wire),
                                                nicsim::ThreadedOptions{.memory = &memory});
    std::vector<nic::Address> addresses(2);
    addresses[self] = nic->address();
    std::byte buffer[nic::Address::kMaxBytes] = {};
    std::copy(addresses[self].bytes.begin(), addresses[self].bytes.end(), buffer);
    if (!tell(buffer) || !hear(buffer))
      return false;
    addresses[1 - self].bytes.assign(buffer, buffer + addresses[self].bytes.size());
    return nic->set_peers(addresses, self).ok();
  }
  bool reaches(CounterId counter, CounterValue wanted) {
    const auto deadline = steady_clock::now() + kPatience;
    while (true) {
      const uint64_t seen = nic->activity();
      if (nic->read(counter).value() == wanted)
        return true;
      if (steady_clock::now() > deadline)
        return false;
      if (nic->progress() == 0)
        nic->wait_since(seen, seconds(1));
    }
  }
};

#define REQUIRE(condition)                                                        \
  do {                                                                            \
    if (!(condition)) {                                                           \
      std::fprintf(stderr, "rank %u: %d: %s\n", rank.self, __LINE__, #condition); \
      return false;                                                               \
    }                                                                             \
  } while (false)

class Processes : public ::testing::TestWithParam<Setting> {
 protected:
  // Rank 1 in a child, rank 0 here.
  static void run(const std::function<bool(Rank&)>& body) {
    int channel[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, channel), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(channel[0]);
      Rank rank{.self = 1, .channel = channel[1]};
      const bool well = body(rank);
      rank.nic.reset();
      ::_exit(well && rank.memory.usage() == FakeDeviceMemory::Usage{} ? 0 : 1);
    }
    ::close(channel[1]);
    {
      Rank rank{.self = 0, .channel = channel[0]};
      EXPECT_TRUE(body(rank));
      rank.nic.reset();
      EXPECT_EQ(rank.memory.usage(), FakeDeviceMemory::Usage{});
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    ::close(channel[0]);
  }
};

struct Registered {
  std::byte* data = nullptr;
  nic::RegionId region = {};
  nic::RemoteKey key = {};
};

// Both ranks send to each other, of every kind and size, several times from the same memory.
bool exchange(Rank& rank, const Setting& setting) {
  REQUIRE(rank.connect(setting));
  const CounterId done = rank.nic->open_counter().value();
  const CounterId arrived = rank.nic->open_counter().value();
  uint64_t messages = 0;
  for (const auto& [from, to] : {std::pair{0, 0}, {1, kHost}, {kHost, 1}, {0, 1}}) {
    constexpr uint64_t kLargest = 5 * 1024 * 1024;
    std::vector<std::byte> host[2] = {std::vector<std::byte>(kLargest), std::vector<std::byte>(kLargest)};
    Registered source{.data = from == kHost ? host[0].data() : rank.memory.allocate(from, kLargest)};
    Registered target{.data = to == kHost ? host[1].data() : rank.memory.allocate(to, kLargest)};
    source.region = rank.nic->register_region(source.data, kLargest, {}).value();
    target.region = rank.nic->register_region(target.data, kLargest, arrived).value();
    nic::RemoteKey key = rank.nic->key(target.region).value();
    REQUIRE(rank.tell(key) && rank.hear(key));
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{7}, uint64_t{4099}, kLargest, uint64_t{100'000}}) {
      const std::vector<std::byte> sent = pattern(++messages * 2 + rank.self, bytes);
      if (from == kHost)
        std::copy(sent.begin(), sent.end(), source.data);
      else
        rank.memory.write(source.data, sent);
      nic::Op op;
      op.kind = nic::OpKind::kWrite;
      op.completion = done;
      op.local = {source.region, 0};
      op.remote = {1 - rank.self, key, 0};
      op.bytes = bytes;
      REQUIRE(rank.nic->issue(op).ok());
      REQUIRE(rank.reaches(arrived, {.success = messages}));
      const std::vector<std::byte> got =
          to == kHost ? std::vector<std::byte>(target.data, target.data + bytes) : rank.memory.read(target.data, bytes);
      REQUIRE(got == pattern(messages * 2 + 1 - rank.self, bytes));
      REQUIRE(rank.reaches(done, {.success = messages}));
      REQUIRE(rank.meet());
    }
    REQUIRE(rank.nic->deregister_region(source.region).ok());
    REQUIRE(rank.nic->deregister_region(target.region).ok());
    REQUIRE(rank.meet());
  }
  REQUIRE(rank.memory.borrows_made() == 3);  // a source in device memory each
  REQUIRE(rank.nic->failures() == 0);
  return rank.meet();
}

TEST_P(Processes, Exchange) {
  run([](Rank& rank) { return exchange(rank, GetParam()); });
}

// The source's process dies while the other one's device copies what it has lent: that is no message.
bool lose(Rank& rank, const Setting& setting) {
  constexpr uint64_t kBytes = 100'000;
  REQUIRE(rank.connect(setting));
  const CounterId count = rank.nic->open_counter().value();
  std::byte* data = rank.memory.allocate(0, kBytes);
  const nic::RegionId region = rank.nic->register_region(data, kBytes, count).value();
  nic::RemoteKey key = rank.nic->key(region).value();
  REQUIRE(rank.tell(key) && rank.hear(key));
  nic::Op op;
  op.kind = nic::OpKind::kWrite;
  op.local = {region, 0};
  op.remote = {1 - rank.self, key, 0};
  op.bytes = kBytes;
  rank.memory.hold_copies(rank.self == 0);
  REQUIRE(rank.meet());
  if (rank.self == 1) {
    REQUIRE(rank.nic->issue(op).ok());
    char word = 0;
    while (::recv(rank.channel, &word, 1, MSG_DONTWAIT) != 1)
      rank.nic->progress();
    ::_exit(0);
  }
  const auto deadline = steady_clock::now() + kPatience;
  while (rank.memory.usage().copies == 0 && steady_clock::now() < deadline)
    rank.nic->progress();
  REQUIRE(rank.memory.usage().copies == 1);
  REQUIRE(rank.tell('d'));
  op.bytes = 0;
  const CounterId seen = rank.nic->open_counter().value();
  op.completion = seen;
  char word = 0;
  REQUIRE(::recv(rank.channel, &word, 1, 0) == 0);
  uint64_t ended = 0;
  while (rank.nic->read(seen).value().failure == 0 && steady_clock::now() < deadline) {
    if (rank.nic->read(seen).value().reached() == ended && rank.nic->issue(op).ok())
      ++ended;
    rank.nic->progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(rank.nic->read(seen).value().failure > 0);
  rank.memory.hold_copies(false);
  REQUIRE(rank.nic->deregister_region(region).ok());
  REQUIRE(rank.nic->read(count).value() == CounterValue{});
  return true;
}

TEST_P(Processes, TheSourceDies) {
  run([](Rank& rank) { return lose(rank, GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(Device, Processes,
                         ::testing::Values(Setting{.name = "Shm"}, Setting{.name = "Tcp", .tcp = true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lanyard
