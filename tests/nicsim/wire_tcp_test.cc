// The TCP wire against a peer that the test plays, with bytes in any pieces and connections
// that end anywhere.
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/nicsim/tcp_peer.h"

namespace lanyard::wire_contract {
namespace {

using nicsim::kLoanBytes;

// ---- Receiving

// Every kind of packet, some more than once. The sink refuses the write with key 666; the others go
// to memory[1] and memory[2].
struct Script {
  explicit Script(uint32_t first_token) {
    uint32_t token = first_token;
    add_write(token++, 10, 1);
    add_pull(token++);
    append(bytes, atomic_packet(1, token++));
    add_write(token++, 0, 1);
    add_write(token++, 33, /*key=*/666);
    append(bytes, Packet{.kind = PacketKind::kAck, .code = Code::kNotFound, .source = 1, .token = token++});
    add_write(token++, 1, 2);
    append(bytes, Packet{.kind = PacketKind::kCannotPull, .source = 1, .token = token++});
    add_pull(token++);
    next_token = token;
  }
  void add_write(uint32_t token, size_t size, uint64_t key) {
    append(bytes, write_packet(1, token, size, key));
    Bytes payload(size);
    fill(payload.data(), size, token);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
  }
  void add_pull(uint32_t token) {
    append(bytes, Packet{.kind = PacketKind::kPull, .source = 1, .token = token, .bytes = uint64_t{1} << 40});
    Bytes loan(kLoanBytes);
    fill(loan.data(), loan.size(), token);
    bytes.insert(bytes.end(), loan.begin(), loan.end());
  }

  Bytes bytes;
  uint32_t next_token = 0;
};

// The effect of a script on the sink. `targets` are memory[1] and memory[2].
void expect_script(const TestSink& sink, uint32_t first, const Bytes& ten, const Bytes& one, const std::string& where) {
  const std::vector<std::pair<What, uint32_t>> expected{
      {What::kPlaced, 0}, {What::kLanded, 0},     {What::kPull, 1},       {What::kAtomic, 2}, {What::kPlaced, 3},
      {What::kLanded, 3}, {What::kRefused, 4},    {What::kThrownAway, 4}, {What::kAck, 5},    {What::kPlaced, 6},
      {What::kLanded, 6}, {What::kCannotPull, 7}, {What::kPull, 8}};
  ASSERT_EQ(sink.events.size(), expected.size()) << where;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(sink.events[i].what, expected[i].first) << where << ", event " << i;
    ASSERT_EQ(sink.events[i].packet.token, first + expected[i].second) << where << ", event " << i;
  }
  ASSERT_EQ(first_difference(ten.data(), 10, first), 10u) << where;
  ASSERT_EQ(first_difference(one.data(), 1, first + 6), 1u) << where;
  ASSERT_EQ(sink.loans.size(), 2u);
  ASSERT_EQ(first_difference(sink.loans[0].data(), kLoanBytes, first + 1), kLoanBytes) << where;
  ASSERT_EQ(first_difference(sink.loans[1].data(), kLoanBytes, first + 8), kLoanBytes) << where;
}

void poll_until_taken(HandJob& job, RawSocket& socket) {
  int left = 0;
  job.pump([&] { return ::ioctl(socket.fd(), TIOCOUTQ, &left) == 0 && left == 0; });
  while (job.wire->poll(job.sink) > 0) {
  }
}

TEST(TcpInLink, TakesBytesInAnyPieces) {
  HandJob job;
  Bytes ten(10), one(1);
  job.sink.memory[1] = ten.data();
  job.sink.memory[2] = one.data();
  RawSocket socket = job.admitted();
  uint32_t token = 0;
  const auto run = [&](const std::vector<size_t>& cuts) {
    const Script script(token);
    size_t from = 0;
    std::string where = "cut at";
    for (const size_t cut : cuts) {
      ASSERT_TRUE(socket.send(script.bytes.data() + from, cut - from));
      poll_until_taken(job, socket);
      from = cut;
      where += " " + std::to_string(cut);
    }
    ASSERT_TRUE(socket.send(script.bytes.data() + from, script.bytes.size() - from));
    ASSERT_TRUE(job.pump([&] { return job.sink.events.size() >= 13; })) << where;
    poll_until_taken(job, socket);
    expect_script(job.sink, token, ten, one, where);
    job.sink.events.clear();
    job.sink.loans.clear();
    std::fill(ten.begin(), ten.end(), std::byte{0});
    one[0] = std::byte{0};
    token = script.next_token;
  };
  const size_t size = Script(0).bytes.size();
  for (size_t cut = 1; cut < size && !HasFatalFailure(); ++cut)
    run({cut});
  for (size_t step : {1, 2, 3, 7, 63, 64, 65, 160, 223}) {
    std::vector<size_t> cuts;
    for (size_t cut = step; cut < size; cut += step)
      cuts.push_back(cut);
    run(cuts);
    if (HasFatalFailure())
      return;
  }
}

// W4: one poll() reads one portion, however many peers send.
TEST(TcpInLink, W4_AllLinksTogetherReadOnePortionAPoll) {
  constexpr uint32_t kPeers = 24;
  constexpr uint64_t kBytes = 64 << 20;  // more than arrives
  HandJob job(kPeers + 1);
  std::vector<RawSocket> sockets(1);
  const Bytes source(1 << 20);
  const std::unique_ptr<std::byte[]> target(new std::byte[kBytes]);
  job.sink.memory[1] = target.get();
  for (uint32_t rank = 1; rank <= kPeers; ++rank)
    sockets.push_back(job.admitted(rank));
  job.settle();
  uint64_t sent = 0;
  for (uint32_t rank = 1; rank <= kPeers; ++rank) {
    const Packet head = write_packet(rank, 1, kBytes);
    ASSERT_TRUE(sockets[rank].send(&head, sizeof head));
    const ssize_t bytes = ::send(sockets[rank].fd(), source.data(), source.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ASSERT_GT(bytes, 0);
    sent += sizeof head + static_cast<uint64_t>(bytes);
    ASSERT_EQ(::shutdown(sockets[rank].fd(), SHUT_WR), 0);
  }
  ASSERT_GT(sent, 3 * Wire::kPortionBytes) << "this system's sockets take too little for this test";
  size_t polls = 0;
  ASSERT_TRUE(job.pump([&] {
    polls += job.wire->poll(job.sink) > 0;
    return job.sink.count(What::kLost) == kPeers;
  }));
  EXPECT_GE(2 * polls, sent / Wire::kPortionBytes);  // pump() polls every other time
  EXPECT_EQ(job.sink.count(What::kAbandoned), kPeers);
}

struct End {
  const char* name;
  size_t bytes;  // bytes sent of an atomic and a write of 1000 bytes
  size_t atomics, abandoned;
};

TEST(TcpInLink, AConnectionMayEndAnywhere) {
  constexpr size_t kHead = sizeof(Packet);
  for (const End& end :
       {End{"before anything", 0, 0, 0}, End{"in the first head", kHead / 2, 0, 0}, End{"between two", kHead, 1, 0},
        End{"in the second head", 2 * kHead - 1, 1, 0}, End{"before the payload", 2 * kHead, 1, 1},
        End{"in the payload", 2 * kHead + 500, 1, 1}, End{"before its last byte", 2 * kHead + 999, 1, 1}}) {
    HandJob job;
    Buffer target(1000);
    job.sink.memory[1] = target.data();
    RawSocket socket = job.admitted();
    Bytes bytes;
    append(bytes, atomic_packet(1, 1));
    append(bytes, write_packet(1, 2, 1000));
    bytes.resize(end.bytes <= 2 * kHead ? end.bytes : 2 * kHead);
    if (end.bytes > 2 * kHead) {
      Bytes payload(1000);
      fill(payload.data(), 1000, 3);
      bytes.insert(bytes.end(), payload.begin(), payload.begin() + static_cast<ptrdiff_t>(end.bytes - 2 * kHead));
    }
    ASSERT_TRUE(socket.send(bytes));
    socket.close();
    ASSERT_TRUE(job.pump([&] { return job.sink.count(What::kLost) == 1; })) << end.name;
    EXPECT_EQ(job.sink.count(What::kAtomic), end.atomics) << end.name;
    EXPECT_EQ(job.sink.count(What::kAbandoned), end.abandoned) << end.name;
    EXPECT_EQ(job.sink.count(What::kLanded), 0u) << end.name;
    EXPECT_EQ(job.sink.events.back().what, What::kLost) << end.name;
    job.settle();
    EXPECT_EQ(job.sink.count(What::kLost), 1u) << end.name;
    EXPECT_TRUE(target.guards_hold());
  }
  // The connection ends in a loan. A refused write is not abandoned.
  HandJob job(3);
  Script script(0);
  script.bytes.clear();
  script.add_pull(1);
  script.bytes.pop_back();
  RawSocket one = job.admitted(1), two = job.admitted(2);
  ASSERT_TRUE(one.send(script.bytes));
  one.close();
  Bytes refused;
  append(refused, write_packet(2, 1, 1000, 666));
  ASSERT_TRUE(two.send(refused));
  two.close();
  ASSERT_TRUE(job.pump([&] { return job.sink.count(What::kLost) == 2; }));
  EXPECT_EQ(job.sink.count(What::kPull) + job.sink.count(What::kAbandoned), 0u);
}

TEST(TcpInLink, AStrangerThatEndsInItsHandshakeLosesNoPeer) {
  HandJob job;
  for (size_t bytes = 0; bytes <= sizeof(TcpHello); ++bytes) {
    RawSocket socket = job.connect();
    const TcpHello hello = job.hello(1);
    ASSERT_TRUE(bytes == 0 || socket.send(&hello, bytes));
    job.settle(milliseconds(0));
    socket.close();
  }
  RawSocket socket = job.admitted();
  EXPECT_EQ(job.sink.count(What::kLost), 0u);
}

TEST(TcpInLink, APeerThatSendsInvalidDataIsLost) {
  Packet strange = atomic_packet(1, 1);
  strange.kind = static_cast<PacketKind>(77);
  for (const Packet& packet : {strange, atomic_packet(0, 1), atomic_packet(2, 1)}) {
    HandJob job(3);
    RawSocket socket = job.admitted();
    ASSERT_TRUE(socket.send(&packet, sizeof packet));
    EXPECT_TRUE(job.ends(socket));
    EXPECT_EQ(job.sink.events.size(), 1u);
    EXPECT_EQ(job.sink.count(What::kLost), 1u);
  }
}

// ---- Sending

TEST(TcpOutLink, TriesAgainIfTheConnectionBreaksBeforeItIsAdmitted) {
  HandJob job;
  job.wire->send(1, atomic_packet(0, 5), nullptr);
  job.accept().close();  // before reading the hello
  {
    RawSocket second = job.accept();
    TcpHello hello;
    ASSERT_TRUE(job.read_into(second, hello));
    const TcpAnswer half;
    ASSERT_TRUE(second.send(&half, sizeof half / 2));
  }
  {
    RawSocket third = job.accept();
    ASSERT_TRUE(job.answer(third));
  }
  RawSocket fourth = job.welcomed();
  Packet got;
  ASSERT_TRUE(job.read_into(fourth, got));
  EXPECT_EQ(got.kind, PacketKind::kAtomic);
  EXPECT_EQ(got.token, 5u);
  EXPECT_EQ(job.sink.count(What::kLost), 0u);
}

TEST(TcpOutLink, SendsNothingBeforeTheWelcome) {
  HandJob job;
  job.wire->send(1, atomic_packet(0, 5), nullptr);
  RawSocket socket = job.accept();
  ASSERT_TRUE(job.answer(socket));
  job.settle();
  EXPECT_TRUE(socket.receive(1).empty());
  const std::byte wrong{0};
  ASSERT_TRUE(socket.send(&wrong, 1));
  EXPECT_TRUE(job.ends(socket));
  EXPECT_TRUE(job.pump([&] { return job.sink.count(What::kLost) == 1; }));
}

TEST(TcpOutLink, APeerThatRefusesOrSendsMoreThanTheHandshakeIsLost) {
  HandJob job(3);
  job.listeners[1].close();
  job.wire->send(1, atomic_packet(0, 5), nullptr);
  ASSERT_TRUE(job.pump([&] { return job.sink.count(What::kLost) == 1; }));
  job.wire->send(2, atomic_packet(0, 5), nullptr);
  RawSocket socket = job.welcomed(2);
  ASSERT_TRUE(socket.send("?", 1));
  ASSERT_TRUE(job.pump([&] { return job.sink.count(What::kLost) == 2; }));
}

// ---- The end of a peer

TEST(TcpWire, W6_BothConnectionsToALostPeerAreClosed) {
  HandJob job;
  RawSocket in = job.admitted();
  job.wire->send(1, atomic_packet(0, 1), nullptr);
  RawSocket out = job.welcomed();
  in.close();
  ASSERT_TRUE(job.pump([&] { return job.sink.count(What::kLost) == 1; }));
  EXPECT_TRUE(job.ends(out));
}

// The wire's own connection has broken. The peer is not lost while packets arrive on the other one.
TEST(TcpWire, W6_APeerThatKeepsItsConnectionIsLostOnceNothingMoreArrives) {
  HandJob job;
  RawSocket in = job.admitted();
  job.wire->send(1, atomic_packet(0, 1), nullptr);
  RawSocket out = job.welcomed();
  Packet packet;
  ASSERT_TRUE(job.read_into(out, packet));
  out.close();
  size_t sent = 0;
  const auto start = steady_clock::now();
  while (steady_clock::now() - start < milliseconds(300)) {
    packet = atomic_packet(1, 1);
    ASSERT_TRUE(in.send(&packet, sizeof packet));
    ++sent;
    ASSERT_TRUE(job.pump([&] { return job.sink.count(What::kAtomic) == sent; }));
    std::this_thread::sleep_for(milliseconds(1));
  }
  ASSERT_TRUE(job.pump([&] { return job.sink.count(What::kLost) == 1; }));
  EXPECT_TRUE(job.ends(in));
}

}  // namespace
}  // namespace lanyard::wire_contract
