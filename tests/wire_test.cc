// The wires: the contract over each, and what only one of them has.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/tcp_wire.h"
#include "tests/wire_contract.h"

namespace lanyard::wire_contract {
namespace {

using nicsim::make_tcp_wire;
using nicsim::ShmAddress;
using nicsim::ShmOptions;
using nicsim::ShmWire;

std::unique_ptr<ShmWire> make_shm(const ShmOptions& options = {}) {
  Result<std::unique_ptr<ShmWire>> wire = ShmWire::create(options);
  EXPECT_TRUE(wire.ok()) << wire.status().to_string();
  return std::move(wire.value());
}

std::unique_ptr<Wire> make_tcp() {
  Result<std::unique_ptr<Wire>> wire = make_tcp_wire({.interface = "127.0.0.1"});
  EXPECT_TRUE(wire.ok()) << wire.status().to_string();
  return std::move(wire.value());
}

WireCase shm_case(std::string name, const ShmOptions& options, uint32_t room = 50) {
  ShmOptions patient = options;
  patient.watch_period = std::chrono::hours(1);
  return {.name = std::move(name),
          .make = [options] { return make_shm(options); },
          .room = room,
          .make_patient = [patient] { return make_shm(patient); }};
}

INSTANTIATE_TEST_SUITE_P(
    Wires, WireContract,
    ::testing::Values(shm_case("Shm", {}), shm_case("ShmWithoutCma", {.use_cma = false}),
                      // Every burst finds the inbox full, and so does nearly every chunk.
                      shm_case("ShmNarrow", {.use_cma = false, .slots = 2}, 2),
                      WireCase{"Tcp", make_tcp}),
    case_name);

// ---- Shared memory

TEST(ShmWire, RefusesPeersThatItCannotReachAndSaysWhatToDo) {
  const auto wire = make_shm();
  const auto refusal = [&](auto change) {
    ShmAddress other = *ShmAddress::decode(make_shm()->address());
    change(other);
    const Status status = wire->set_peers(std::vector{wire->address(), other.encode()}, 0);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([](ShmAddress& other) { other.host ^= 1; }),
            "peer 1 is on another host: set LANYARD_SIM_WIRE=tcp on all ranks");
  EXPECT_NE(refusal([](ShmAddress& other) { ++other.pid_namespace; }).find("another container"),
            std::string::npos);
  const Status tcp = wire->set_peers(std::vector{wire->address(), make_tcp()->address()}, 0);
  EXPECT_EQ(
      tcp.message(),
      "peer 1 has no shared-memory wire: set LANYARD_SIM_WIRE to the same value on all ranks");
}

TEST(ShmWire, RefusesImpossibleSizes) {
  for (const uint32_t slots : {0u, 1u, 3u, 65537u, 1u << 17})
    EXPECT_EQ(ShmWire::create({.slots = slots}).status().code(), Code::kInvalidArgument) << slots;
}

// The nonce: the same process and descriptor number, but another segment.
TEST(ShmWire, AStrangersSegmentIsNotTakenForThePeers) {
  const auto wire = make_shm();
  const auto other = make_shm();
  ShmAddress stale = *ShmAddress::decode(other->address());
  stale.nonce ^= 1;
  ASSERT_TRUE(wire->set_peers(std::vector{wire->address(), stale.encode()}, 0).ok());
  TestSink sink;
  wire->send(1, atomic_packet(0, 1), nullptr);
  wire->poll(sink);
  EXPECT_EQ(sink.count(What::kLost), 1u);
}

TEST(ShmWire, NothingIsLeftOpen) {
  const auto open_descriptors = [] {
    int count = 0;
    for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0;
    return count;
  };
  const int before = open_descriptors();
  {
    Job job(WireCase{"", [] { return make_shm(); }}, 4);
    for (uint32_t peer : {1u, 2u, 3u}) job.wires[0]->send(peer, atomic_packet(0, 0), nullptr);
    job.settle();
    EXPECT_EQ(open_descriptors(), before + 4);  // in one process peers cost none
  }
  EXPECT_EQ(open_descriptors(), before);
}

// W5 in system calls: one wakes a sleeper, and the packets behind it make none while it is coming.
TEST(ShmWire, W5_WakingIsCounted) {
  Job job(WireCase{"", [] { return make_shm(); }}, 2);
  auto& receiver = static_cast<ShmWire&>(*job.wires[1]);
  job.wires[1]->attend();
  for (int i = 0; i < 100; ++i) job.wires[0]->send(1, atomic_packet(0, 0), nullptr);
  job.settle();
  EXPECT_EQ(receiver.wake_calls(), 0u);
  job.wires[1]->leave();
  for (int i = 0; i < 100; ++i) job.wires[0]->send(1, atomic_packet(0, 0), nullptr);
  EXPECT_EQ(receiver.wake_calls(), 0u);  // nobody sleeps
  job.settle();
  OneSleep helper(receiver, Sleeper::kHelper);
  OneSleep owner(receiver, Sleeper::kOwner);
  job.wires[0]->send(1, atomic_packet(0, 0), nullptr);
  EXPECT_EQ(receiver.wake_calls(), 1u);
  helper.was_woken();
  const uint64_t calls = receiver.wake_calls();
  EXPECT_LE(calls, 2u);  // the helper's time may have been over by itself
  job.settle();
}

// ---- TCP

TEST(TcpWire, RefusesWhatIsNoAddressOfThisHost) {
  for (const char* interface : {"nonsense", "0.0.0.0", "192.0.2.1", "224.0.0.1"}) {
    EXPECT_EQ(make_tcp_wire({.interface = interface}).status().code(), Code::kInvalidArgument)
        << interface;
  }
}

TEST(TcpWire, FindsAnInterfaceByItself) { EXPECT_TRUE(make_tcp_wire().ok()); }

TEST(TcpWire, WorksOverIpVersion6) {
  Result<std::unique_ptr<Wire>> probe = make_tcp_wire({.interface = "::1"});
  if (!probe.ok()) GTEST_SKIP() << "no IPv6 here: " << probe.status().to_string();
  Job job(WireCase{"", [] { return std::move(make_tcp_wire({.interface = "::1"}).value()); }}, 2);
  job.wires[0]->send(1, atomic_packet(0, 3), nullptr);
  EXPECT_TRUE(job.pump([&] { return job.sinks[1].count(What::kAtomic) == 1; }));
}

TEST(TcpWire, StrangersAtThePortAreTurnedAway) {
  Job job(WireCase{"", [] { return make_tcp(); }}, 2);
  uint32_t port = 0;
  std::memcpy(&port, job.wires[1]->address().bytes.data() + 12, sizeof port);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<int> strangers;
  for (int i = 0; i < 3; ++i) {
    strangers.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(strangers[i], reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  const std::vector<char> garbage(100000, 'x');
  ASSERT_GT(::send(strangers[0], garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  ::close(strangers[1]);  // at once; the third never says anything
  job.settle();
  for (uint32_t i = 0; i < 100; ++i) job.wires[0]->send(1, atomic_packet(0, i), nullptr);
  EXPECT_TRUE(job.pump([&] { return job.sinks[1].count(What::kAtomic) == 100; }));
  EXPECT_EQ(job.sinks[1].count(What::kLost), 0u);
  char byte = 0;
  EXPECT_LE(::recv(strangers[0], &byte, 1, MSG_DONTWAIT), 0);
  ::close(strangers[0]);
  ::close(strangers[2]);
}

}  // namespace
}  // namespace lanyard::wire_contract
