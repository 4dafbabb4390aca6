// The wires: the contract over each, and what only one of them has. The choice of the host address
// on which the TCP wire listens.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "nicsim/wire/inbox.h"
#include "nicsim/wire/tcp_door.h"
#include "nicsim/wire/shm_segment.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/tcp_handshake.h"
#include "nicsim/wire/tcp_wire.h"
#include "tests/nicsim/wire_contract.h"

namespace lanyard::wire_contract {
namespace {

using nicsim::default_address;
using nicsim::make_shm_wire;
using nicsim::make_tcp_wire;
using nicsim::named_address;
using nicsim::NetworkInterface;
using nicsim::ShmAddress;
using nicsim::ShmOptions;

std::unique_ptr<Wire> make_shm(const ShmOptions& options = {}) {
  Result<std::unique_ptr<Wire>> wire = make_shm_wire(options);
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

const WireCase kShm{"", [] { return make_shm(); }};

INSTANTIATE_TEST_SUITE_P(Wires, WireContract,
                         ::testing::Values(shm_case("Shm", {}), shm_case("ShmWithoutCma", {.use_cma = false}),
                                           // Every burst finds the inbox full, and so does
                                           // nearly every chunk.
                                           shm_case("ShmNarrow", {.use_cma = false, .slots = 2}, 2),
                                           WireCase{"Tcp", make_tcp}),
                         case_name);

// ---- Shared memory

TEST(ShmWire, RefusesUnreachablePeersAndNamesTheRemedy) {
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
  EXPECT_TRUE(has(refusal([](ShmAddress& other) { ++other.pid_namespace; }), "another container"));
  EXPECT_EQ(refusal([](ShmAddress& other) { ++other.user_namespace; }),
            "peer 1 is in another container (user namespace): set LANYARD_SIM_WIRE=tcp on all ranks");
  EXPECT_TRUE(has(refusal([](ShmAddress& other) { other.pid_namespace = 0; }), "has no /proc"));
  const Status tcp = wire->set_peers(std::vector{wire->address(), make_tcp()->address()}, 0);
  EXPECT_EQ(tcp.message(), "peer 1 has no shared-memory wire: set LANYARD_SIM_WIRE to the same value on all ranks");
}

// The child enters its own user namespace once all addresses are known.
TEST(ShmWire, APeerWhoseFilesAreForbiddenIsNotReportedAsEnded) {
  TwoProcesses two([&](Rank& child) {
    if (!child.connect(kShm))
      return false;
    if (::unshare(CLONE_NEWUSER) != 0)
      return child.tell('s') && false;
    child.wire->send(0, atomic_packet(1, 0), nullptr);
    if (!child.wait_for([&] { return child.sink.count(What::kLost) > 0; }) || !child.tell('l'))
      return false;
    const std::string& why = child.sink.why_lost;
    return ::write(child.channel, why.data(), why.size()) == static_cast<ssize_t>(why.size());
  });
  ASSERT_TRUE(two.parent.connect(kShm));
  char word = 0;
  ASSERT_EQ(::read(two.parent.channel, &word, 1), 1);
  if (word == 's')
    GTEST_SKIP() << "no user namespace can be made here";
  char why[512] = {};
  ASSERT_GT(::read(two.parent.channel, why, sizeof why - 1), 0);
  EXPECT_TRUE(std::string(why).starts_with("cannot be reached: open /proc/")) << why;
  EXPECT_NE(std::strstr(why, "Permission denied; LANYARD_SIM_WIRE=tcp"), nullptr) << why;
  EXPECT_TRUE(two.child_ended_well());
}

// Beyond the limit the system would end the process.
TEST(ShmWire, RefusesToExceedTheFileSizeLimit) {
  for (const rlim_t limit : {rlim_t{0}, rlim_t{1} << 20}) {
    auto limited = std::make_unique<Limited>(RLIMIT_FSIZE, limit);
    const Status status = make_shm_wire().status();
    limited.reset();
    EXPECT_EQ(status.code(), Code::kFailed);
    EXPECT_TRUE(has(status, std::to_string(limit) + " (ulimit -f); LANYARD_SIM_WIRE=tcp"));
  }
}

TEST(ShmWire, RefusesImpossibleSizes) {
  for (const uint32_t slots : {0u, 1u, 3u, 65537u, 1u << 17})
    EXPECT_EQ(make_shm_wire({.slots = slots}).status().code(), Code::kInvalidArgument) << slots;
}

// The nonce differs: the same process and descriptor number, but another segment.
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
  const auto open_descriptors = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const ptrdiff_t before = open_descriptors();
  {
    Job job(kShm, 4);
    for (uint32_t peer : {1u, 2u, 3u})
      job.wires[0]->send(peer, atomic_packet(0, 0), nullptr);
    job.settle();
    EXPECT_EQ(open_descriptors(), before + 4);  // peers in one process need no descriptor
  }
  EXPECT_EQ(open_descriptors(), before);
}

// ---- Shared memory: long writes that both sides copy

// One poll of each does all its work: the receiver copies the front, the sender the back.
TEST(ShmWire, BothSidesCopyALongWrite) {
  Job job(kShm, 2);
  constexpr uint64_t kBytes = 2 * Wire::kPortionBytes;
  std::vector<std::byte> source(kBytes);
  fill(source.data(), kBytes, 6);
  Buffer target(kBytes);
  job.sinks[1].memory[1] = target.data();
  job.wires[0]->send(1, write_packet(0, 1, kBytes), source.data());
  job.poll(1);
  EXPECT_EQ(target.data()[kBytes - 1], Buffer::kGuardByte);
  std::fill(source.begin(), source.begin() + kBytes / 2, std::byte{0});  // the receiver has read this half
  job.poll(0);
  EXPECT_EQ(first_difference(target.data(), kBytes, 6), kBytes);
  EXPECT_EQ(job.sinks[1].count(What::kLanded), 0u);
  ASSERT_TRUE(job.pump([&] { return job.sinks[1].count(What::kLanded) == 1; }));
  job.settle();
  EXPECT_EQ(first_difference(target.data(), kBytes, 6), kBytes);
  EXPECT_TRUE(target.guards_hold());
}

// The sender may never poll again.
TEST(ShmWire, AReceiverCopiesAloneIfTheSenderDoesNotPoll) {
  Job job(kShm, 2);
  constexpr uint64_t kBytes = 200000;
  constexpr uint32_t kCount = 3 * nicsim::InboxHeader::kMaxShared;  // more than can be shared
  std::vector<std::byte> source(kBytes);
  fill(source.data(), kBytes, 6);
  Buffer target(kBytes);
  job.sinks[1].memory[1] = target.data();
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < kCount; ++i)
      job.wires[0]->send(1, write_packet(0, i, kBytes), source.data());
    for (int polls = 0; polls < 10000; ++polls)
      job.poll(1);
    EXPECT_EQ(job.sinks[1].count(What::kLanded), (round + 1) * kCount);
    EXPECT_EQ(first_difference(target.data(), kBytes, 6), kBytes);
    job.settle();
  }
}

// All shares become free: the next sender is invited again.
TEST(ShmWire, SharesOfAPeerThatHasEndedAreFreeAgain) {
  Job job(kShm, 3);
  constexpr uint64_t kBytes = 2 * Wire::kPortionBytes;
  std::vector<std::byte> source(kBytes);
  fill(source.data(), kBytes, 6);
  Buffer target(kBytes);
  job.sinks[1].memory[1] = target.data();
  for (uint32_t i = 0; i < nicsim::InboxHeader::kMaxShared; ++i)
    job.wires[0]->send(1, write_packet(0, i, kBytes), source.data());
  while (job.sinks[1].count(What::kPlaced) < nicsim::InboxHeader::kMaxShared)
    job.poll(1);
  job.wires[0].reset();
  ASSERT_TRUE(job.pump([&] { return job.sinks[1].count(What::kLost) == 1; }));
  std::fill(target.data(), target.data() + kBytes, std::byte{0});

  job.wires[2]->send(1, write_packet(2, 1, kBytes), source.data());
  job.poll(1);
  EXPECT_EQ(target.data()[kBytes - 1], std::byte{0});
  job.poll(2);
  EXPECT_EQ(target.data()[kBytes - 1], source[kBytes - 1]) << "the sender has copied from the back";
  ASSERT_TRUE(
      job.pump([&] { return job.sinks[1].count(What::kLanded) > 0 && job.sinks[1].events.back().packet.source == 2; }));
  EXPECT_EQ(first_difference(target.data(), kBytes, 6), kBytes);
}

// After destroying a wire, its owner may free the memory at once.
TEST(ShmWire, ADestroyedReceiverIsNotWrittenTo) {
  constexpr uint64_t kBytes = uint64_t{8} << 20;
  const std::vector<std::byte> source(kBytes, std::byte{1});
  for (int round = 0; round < 20; ++round) {
    TwoProcesses two([&](Rank& child) {
      if (!child.connect(kShm) || !child.shake_hands())
        return false;
      child.wire->send(0, write_packet(1, 1, kBytes), source.data());
      return child.wait_for([&] { return child.sink.count(What::kLost) == 1; });
    });
    Rank& parent = two.parent;
    Buffer target(kBytes);
    parent.sink.memory[1] = target.data();
    ASSERT_TRUE(parent.connect(kShm) && parent.shake_hands());
    int polls = 0;
    parent.wait_for([&] { return parent.sink.events.size() > 1 && ++polls > round / 4; });
    parent.wire.reset();
    std::fill(target.data(), target.data() + kBytes, std::byte{7});
    EXPECT_TRUE(two.child_ended_well());
    EXPECT_TRUE(
        std::all_of(target.data(), target.data() + kBytes, [](std::byte byte) { return byte == std::byte{7}; }));
  }
}

// From now on the system refuses this call of this process.
bool refuse(int call) {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{.len = static_cast<unsigned short>(std::size(code)), .filter = code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Refused from the start, or only once everything is connected.
class ShmWireRefusal : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(ShmWireRefusal, LongWritesStillArrive) {
  const int call = std::get<0>(GetParam());
  const bool at_once = std::get<1>(GetParam());
  TwoProcesses two([&](Rank& child) {
    return (!at_once || refuse(call)) && child.connect(kShm) && child.shake_hands() && (at_once || refuse(call)) &&
           exchange_long_writes(child);
  });
  ASSERT_TRUE(two.parent.connect(kShm) && two.parent.shake_hands());
  EXPECT_TRUE(exchange_long_writes(two.parent));
  EXPECT_TRUE(two.child_ended_well());
}

INSTANTIATE_TEST_SUITE_P(Calls, ShmWireRefusal,
                         ::testing::Combine(::testing::Values(SYS_process_vm_readv, SYS_process_vm_writev),
                                            ::testing::Bool()));

// ---- TCP

TEST(TcpWire, ReportsThatDescriptorsAreShort) {
  const rlim_t next = first_free_descriptor();
  bool opened = false;
  for (rlim_t room = 0; !opened && room < 100; ++room) {  // any of a wire's descriptors may be the first to be missing
    const Limited limited(RLIMIT_NOFILE, next + room);
    const Status status = make_tcp_wire({.interface = "127.0.0.1"}).status();
    opened = status.ok();
    EXPECT_TRUE(opened || has(status, "Too many open files")) << status.message();
  }
  EXPECT_TRUE(opened);
}

TEST(TcpWire, APeerThatRefusesConnectionsIsReportedWithItsAddress) {
  const WireCase tcp{"", make_tcp};
  Job job(tcp, 2);
  job.wires[1].reset();
  job.wires[0]->send(1, atomic_packet(0, 0), nullptr);
  ASSERT_TRUE(job.pump([&] { return job.sinks[0].count(What::kLost) > 0; }));
  const std::string& why = job.sinks[0].why_lost;
  EXPECT_TRUE(why.starts_with("cannot be reached: connect to 127.0.0.1:")) << why;
  EXPECT_TRUE(has(why, "Connection refused; if it runs, set LANYARD_SIM_INTERFACE"));
}

// Rank 0 gives up rank 1, which lives and learns why its connection ends.
TEST(TcpWire, AGivenUpPeerDoesNotTakeTheOtherForEnded) {
  Job job(WireCase{"", make_tcp}, 2);
  job.wires[1]->send(0, atomic_packet(1, 0), nullptr);
  ASSERT_TRUE(job.pump([&] { return job.sinks[0].count(What::kAtomic) > 0; }));
  const Limited limited(RLIMIT_NOFILE, 1);
  job.wires[0]->send(1, atomic_packet(0, 0), nullptr);
  EXPECT_TRUE(job.pump([&] { return job.sinks[0].count(What::kLost) > 0 && job.sinks[1].count(What::kLost) > 0; }));
  EXPECT_EQ(job.sinks[1].why_lost, "cannot reach this process");
}

TEST(TcpWire, RefusesInvalidListenAddresses) {
  for (const char* interface : {"nonsense", "0.0.0.0", "192.0.2.1", "224.0.0.1"}) {
    EXPECT_EQ(make_tcp_wire({.interface = interface}).status().code(), Code::kInvalidArgument) << interface;
  }
}

TEST(TcpWire, ListensOnTheInterfaceOfThatName) {
  Result<std::unique_ptr<Wire>> wire = make_tcp_wire({.interface = "lo"});
  ASSERT_TRUE(wire.ok()) << wire.status().to_string();
  const auto address = nicsim::TcpAddress::decode(wire.value()->address()).value();
  sockaddr_in socket;
  std::memcpy(&socket, address.place.socket, sizeof socket);
  EXPECT_EQ(socket.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

TEST(TcpWire, FindsAnInterfaceByItself) { EXPECT_TRUE(make_tcp_wire().ok()); }

TEST(TcpWire, WorksOverIpVersion6) {
  Result<std::unique_ptr<Wire>> probe = make_tcp_wire({.interface = "::1"});
  if (!probe.ok())
    GTEST_SKIP() << "no IPv6 here: " << probe.status().to_string();
  Job job(WireCase{"", [] { return std::move(make_tcp_wire({.interface = "::1"}).value()); }}, 2);
  job.wires[0]->send(1, atomic_packet(0, 3), nullptr);
  EXPECT_TRUE(job.pump([&] { return job.sinks[1].count(What::kAtomic) == 1; }));
}

// ---- The host address of the TCP wire

const NetworkInterface kLoopback{.name = "lo", .address = "127.0.0.1", .running = true, .loopback = true};
const NetworkInterface kDown{.name = "eth0", .address = "10.0.0.1", .default_route = true};
const NetworkInterface kLinkLocal{.name = "usb0", .address = "169.254.3.4", .running = true};
const NetworkInterface kContainers{.name = "docker0", .address = "172.17.0.1", .running = true, .bridge = true};
const NetworkInterface kNetwork{.name = "eth1", .address = "10.1.0.1", .running = true};
const NetworkInterface kOther{.name = "eth2", .address = "10.2.0.1", .running = true};
const NetworkInterface kWayOut{.name = "eth3", .address = "10.3.0.1", .running = true, .default_route = true};
const NetworkInterface kBridgeOut{
    .name = "br0", .address = "10.4.0.1", .running = true, .bridge = true, .default_route = true};

using Interfaces = std::vector<NetworkInterface>;

TEST(DefaultAddress, IsThatOfTheBestInterface) {
  struct {
    const char* best;
    Interfaces interfaces;
  } cases[] = {{"10.3.0.1", {kLoopback, kDown, kLinkLocal, kContainers, kNetwork, kOther, kWayOut}},
               {"10.4.0.1", {kLoopback, kNetwork, kContainers, kBridgeOut}},
               {"10.1.0.1", {kLoopback, kDown, kLinkLocal, kContainers, kNetwork}},
               {"172.17.0.1", {kLoopback, kDown, kLinkLocal, kContainers}},
               {"169.254.3.4", {kLoopback, kDown, kLinkLocal}},
               {"10.1.0.1", {kLoopback, kLinkLocal, kNetwork}},
               {"127.0.0.1", {kLoopback, kDown}},
               {"127.0.0.1", {}}};
  for (auto& [best, interfaces] : cases) {
    EXPECT_EQ(default_address(interfaces), best);
    std::reverse(interfaces.begin(), interfaces.end());
    EXPECT_EQ(default_address(interfaces), best) << "with the interfaces in reverse order";
  }
  EXPECT_EQ(default_address(Interfaces{kLoopback, kNetwork, kOther}), "10.1.0.1");
  EXPECT_EQ(default_address(Interfaces{kOther, kNetwork}), "10.2.0.1") << "expected the first of equals";
}

TEST(NamedAddress, IsAnAddressOrAnInterfacesName) {
  const Interfaces interfaces{kLoopback, kDown, kNetwork};
  for (const char* address : {"10.9.9.9", "::1", "127.0.0.1"})
    EXPECT_EQ(named_address(interfaces, address).value(), address);
  EXPECT_EQ(named_address(interfaces, "eth1").value(), "10.1.0.1");
  EXPECT_EQ(named_address(interfaces, "lo").value(), "127.0.0.1");
  for (const char* nothing : {"eth", "eth10", "10.1.0"}) {
    const Result<std::string> none = named_address(interfaces, nothing);
    ASSERT_EQ(none.status().code(), Code::kInvalidArgument) << nothing;
    EXPECT_TRUE(has(none.status(), nothing));
  }
}

// Every system has the loopback interface.
TEST(NetworkInterfaces, TheLoopbackIsOne) {
  const Interfaces interfaces = nicsim::network_interfaces();
  const auto loopback = std::find_if(interfaces.begin(), interfaces.end(),
                                     [](const NetworkInterface& interface) { return interface.name == "lo"; });
  ASSERT_NE(loopback, interfaces.end());
  EXPECT_EQ(loopback->address, "127.0.0.1");
  EXPECT_TRUE(loopback->loopback);
  EXPECT_FALSE(loopback->bridge);
  EXPECT_FALSE(loopback->default_route);
}

}  // namespace
}  // namespace lanyard::wire_contract
