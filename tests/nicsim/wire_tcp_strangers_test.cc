// Which programs may connect to a TCP wire: the handshake byte by byte, and how
// strangers are treated.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/nicsim/tcp_peer.h"

namespace lanyard::wire_contract {
namespace {

bool contains(const Bytes& text, const void* what, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(what);
  return std::search(text.begin(), text.end(), first, first + bytes) != text.end();
}

Bytes one_atomic(uint32_t rank) {
  Bytes bytes;
  append(bytes, atomic_packet(rank, 7));
  return bytes;
}

TEST(TcpHandshake, AProofCoversEveryField) {
  const TcpMeeting meeting{.hello = {.source = 1, .place = {.port = 3}}, .target = 2};
  const TcpProof proof = prove(secret_of(1), TcpRole::kConnector, meeting);
  EXPECT_TRUE(is_same(proof, prove(secret_of(1), TcpRole::kConnector, meeting)));
  EXPECT_FALSE(is_same(proof, prove(secret_of(2), TcpRole::kConnector, meeting)));
  EXPECT_FALSE(is_same(proof, prove(secret_of(1), TcpRole::kListener, meeting)));
  std::vector<TcpMeeting> others(5 + 2 * sizeof(TcpChallenge), meeting);
  std::swap(others[0].hello.source, others[0].target);
  ++others[1].hello.source, ++others[2].target, ++others[3].hello.place.port, others[4].hello.listeners_secret = 0;
  for (size_t i = 0; i < sizeof(TcpChallenge); ++i) {
    others[5 + 2 * i].hello.challenge[i] ^= std::byte{1};
    others[6 + 2 * i].target_challenge[i] ^= std::byte{1};
  }
  for (const TcpMeeting& other : others)
    EXPECT_FALSE(is_same(proof, prove(secret_of(1), TcpRole::kConnector, other)));
  for (size_t i = 0; i < proof.size(); ++i) {
    TcpProof other = proof;
    other[i] ^= std::byte{0x80};
    EXPECT_FALSE(is_same(proof, other));
  }
  EXPECT_NE(nicsim::new_challenge(), nicsim::new_challenge());
}

TEST(TcpHandshake, MayComeInAnyPieces) {
  for (size_t cut = 1; cut < sizeof(TcpHello) + sizeof(TcpProof); ++cut) {
    HandJob job;
    RawSocket socket = job.connect();
    TcpMeeting known = job.meeting(1, 0);
    const auto send_in_two = [&](const void* data, size_t bytes, size_t first) {
      first = std::min(first, bytes);
      EXPECT_TRUE(first == 0 || socket.send(data, first));
      job.settle(milliseconds(1));
      EXPECT_TRUE(first == bytes || socket.send(static_cast<const char*>(data) + first, bytes - first));
    };
    send_in_two(&known.hello, sizeof known.hello, cut);
    TcpAnswer answer;
    ASSERT_TRUE(job.read_into(socket, answer)) << cut;
    known.target_challenge = answer.challenge;
    // The first packet comes with the end of the proof, though a correct peer waits
    // for its welcome.
    Bytes rest;
    append(rest, prove(job.secret(), TcpRole::kConnector, known));
    append(rest, atomic_packet(1, 7));
    send_in_two(rest.data(), rest.size(), cut);
    std::byte welcome{};
    ASSERT_TRUE(job.read_into(socket, welcome));
    EXPECT_EQ(welcome, nicsim::kTcpWelcome);
    ASSERT_TRUE(job.pump([&] { return job.sink.count(What::kAtomic) == 1; })) << cut;
  }
}

// A connection that is refused costs the true peer nothing.
TEST(TcpHandshake, AConnectionWithoutAValidProofIsRefused) {
  HandJob job(3);
  const auto turned_away = [&](TcpHello hello) {
    RawSocket socket = job.connect();
    EXPECT_TRUE(socket.send(&hello, sizeof hello));
    Bytes answer = job.read(socket, 1);
    return answer.empty() && socket.ended();
  };
  const nicsim::TcpPlace place = job.hello(1).place;
  EXPECT_TRUE(turned_away({.magic = 1, .source = 1, .place = place}));
  EXPECT_TRUE(turned_away({.byte_order = 0x04030201, .source = 1, .place = place}));
  EXPECT_TRUE(turned_away({.version = TcpAddress::kVersion + 1, .source = 1, .place = place}));
  EXPECT_TRUE(turned_away({.packet_bytes = sizeof(Packet) + 8, .source = 1, .place = place}));
  EXPECT_TRUE(turned_away({.source = 1, .place = job.hello(2).place}));
  EXPECT_TRUE(turned_away(job.hello(0)));  // the wire's own rank
  EXPECT_TRUE(turned_away({.source = 3}));
  EXPECT_TRUE(turned_away({.source = ~0u}));
  for (const size_t at : {size_t{0}, sizeof(TcpProof) - 1}) {
    RawSocket socket = job.connect();
    EXPECT_FALSE(job.greet(socket, 1, [&](TcpProof& proof) { proof[at] ^= std::byte{1}; }));
    EXPECT_TRUE(job.ends(socket));
  }
  RawSocket peer = job.admitted(1);
  RawSocket second = job.connect();
  EXPECT_FALSE(job.greet(second, 1));  // that rank has a connection already
  ASSERT_TRUE(peer.send(one_atomic(1)));
  EXPECT_TRUE(job.pump([&] { return job.sink.count(What::kAtomic) == 1; }));
  EXPECT_EQ(job.sink.count(What::kLost), 0u);
}

// Both have sent their hello before either has proven anything.
TEST(TcpHandshake, TheSecondConnectionOfARankIsRefused) {
  HandJob job;
  RawSocket sockets[2] = {job.connect(), job.connect()};
  TcpProof proofs[2];
  for (int i : {0, 1}) {
    TcpMeeting known = job.meeting(1, 0);
    TcpAnswer answer;
    ASSERT_TRUE(sockets[i].send(&known.hello, sizeof known.hello) && job.read_into(sockets[i], answer));
    known.target_challenge = answer.challenge;
    proofs[i] = prove(job.secret(), TcpRole::kConnector, known);
  }
  std::byte welcome{};
  ASSERT_TRUE(sockets[0].send(proofs[0].data(), proofs[0].size()) && job.read_into(sockets[0], welcome));
  ASSERT_TRUE(sockets[1].send(proofs[1].data(), proofs[1].size()));
  EXPECT_TRUE(job.ends(sockets[1]));
  ASSERT_TRUE(sockets[0].send(one_atomic(1)));
  EXPECT_TRUE(job.pump([&] { return job.sink.count(What::kAtomic) == 1; }));
  EXPECT_EQ(job.sink.count(What::kLost), 0u);
}

TEST(TcpHandshake, AnOverheardProofIsWorthNothing) {
  HandJob job(3);
  // A whole connection, as an eavesdropper sees it.
  Bytes heard;
  RawSocket peer = job.connect();
  TcpMeeting known = job.meeting(1, 0);
  known.hello.challenge = nicsim::new_challenge();
  const TcpHello& hello = known.hello;
  TcpAnswer answer;
  ASSERT_TRUE(peer.send(&hello, sizeof hello) && job.read_into(peer, answer));
  known.target_challenge = answer.challenge;
  const TcpProof proof = prove(job.secret(), TcpRole::kConnector, known);
  append(heard, hello);
  append(heard, answer);
  append(heard, proof);
  EXPECT_FALSE(contains(heard, job.secret(0).bytes.data(), 8));
  EXPECT_FALSE(contains(heard, job.secret(1).bytes.data(), 8));
  peer.close();
  // The same bytes again.
  RawSocket replay = job.connect();
  TcpAnswer other;
  ASSERT_TRUE(replay.send(&hello, sizeof hello) && job.read_into(replay, other));
  EXPECT_NE(other.challenge, answer.challenge);
  EXPECT_FALSE(is_same(other.proof, answer.proof));
  ASSERT_TRUE(replay.send(proof.data(), proof.size()));
  EXPECT_TRUE(job.ends(replay));
  // The bytes that the listener itself has sent.
  RawSocket mirror = job.connect();
  ASSERT_TRUE(mirror.send(&hello, sizeof hello) && job.read_into(mirror, other));
  ASSERT_TRUE(mirror.send(other.proof.data(), other.proof.size()));
  EXPECT_TRUE(job.ends(mirror));
  EXPECT_TRUE(job.admitted(1).fd() >= 0);
}

// Another program has the peer's port. It sends the wire's own bytes back in a connection of
// the other direction.
TEST(TcpHandshake, AProofIsInvalidInTheOtherDirection) {
  HandJob job;
  job.wire->send(1, atomic_packet(0, 1), nullptr);
  RawSocket out = job.accept();
  TcpHello hello;
  ASSERT_TRUE(job.read_into(out, hello));
  RawSocket in = job.connect();
  hello.source = 1;
  hello.place = job.hello(1).place;
  TcpAnswer answer;
  ASSERT_TRUE(in.send(&hello, sizeof hello) && job.read_into(in, answer));
  ASSERT_TRUE(out.send(&answer, sizeof answer));  // the wire's own proof, to the wire
  EXPECT_TRUE(job.ends(out));
  EXPECT_TRUE(job.pump([&] { return job.sink.count(What::kLost) == 1; }));
  EXPECT_EQ(job.sink.count(What::kAtomic), 0u);
}

TEST(TcpHandshake, NothingIsSentToAListenerWithoutAValidProof) {
  for (const size_t at : {size_t{0}, sizeof(TcpProof) - 1}) {
    HandJob job;
    job.wire->send(1, atomic_packet(0, 1), nullptr);
    RawSocket out = job.accept();
    EXPECT_FALSE(job.answer(out, 1, [&](TcpAnswer& answer) { answer.proof[at] ^= std::byte{1}; }));
    EXPECT_TRUE(out.ended());  // and not a byte came
    EXPECT_TRUE(job.pump([&] { return job.sink.count(What::kLost) == 1; }));
  }
}

TEST(TcpWire, PeersOfAnotherVersionAreRefused) {
  HandJob job;
  auto wire = std::move(nicsim::make_tcp_wire({.interface = "127.0.0.1"}).value());
  TcpAddress other = job.addresses[1];
  ++other.version;
  const Status status = wire->set_peers(std::vector{wire->address(), other.encode()}, 0);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), "peer 1 has another version of Lanyard");
}

// ---- Strangers

size_t still_open(std::vector<RawSocket>& sockets) {
  return static_cast<size_t>(std::count_if(sockets.begin(), sockets.end(), [](RawSocket& socket) {
    socket.receive(1);
    return !socket.ended();
  }));
}

TEST(TcpStrangers, AreFewAndKeepNoPeerOut) {
  HandJob job(3);
  constexpr size_t kMost = 3 + 64;
  std::vector<RawSocket> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(job.connect());
    job.settle(milliseconds(0));
  }
  ASSERT_TRUE(job.pump([&] { return still_open(strangers) <= kMost; }));
  job.settle();
  EXPECT_EQ(still_open(strangers), kMost);
  RawSocket peer = job.admitted(1);
  ASSERT_TRUE(peer.send(one_atomic(1)));
  EXPECT_TRUE(job.pump([&] { return job.sink.count(What::kAtomic) == 1; }));
  // The peer is no longer a stranger, and stays.
  for (int i = 0; i < 100; ++i)
    strangers.push_back(job.connect());
  job.settle();
  ASSERT_TRUE(peer.send(one_atomic(1)));
  EXPECT_TRUE(job.pump([&] { return job.sink.count(What::kAtomic) == 2; }));
}

TEST(TcpStrangers, AreClosedWhenTheirTimeIsOver) {
  HandJob job(2, {.greeting_time = milliseconds(100)});
  RawSocket peer = job.admitted();
  RawSocket silent = job.connect();
  job.settle(milliseconds(50));  // so that their times end one after the other
  RawSocket slow = job.connect();
  const TcpHello hello = job.hello(1);
  ASSERT_TRUE(slow.send(&hello, sizeof hello - 1));
  // Asleep meanwhile, as an idle NIC.
  const auto gone = [&](RawSocket& socket) {
    for (const auto start = steady_clock::now(); steady_clock::now() - start < kPatience;) {
      while (job.wire->poll(job.sink) > 0) {
      }
      socket.receive(1);
      if (socket.ended())
        return true;
      job.wire->sleep(Sleeper::kOwner, seconds(1));
    }
    return false;
  };
  EXPECT_TRUE(gone(silent));
  EXPECT_TRUE(gone(slow));
  RawSocket later = job.connect();  // the timer runs again
  EXPECT_TRUE(gone(later));
  ASSERT_TRUE(peer.send(one_atomic(1)));
  EXPECT_TRUE(job.pump([&] { return job.sink.count(What::kAtomic) == 1; }));
}

TEST(TcpStrangers, WhileDescriptorsAreShortNoThreadSpinsAndPeersConnectLater) {
  HandJob job;
  RawSocket socket = job.connect();  // waits in the system's queue
  auto none = std::make_unique<Limited>(RLIMIT_NOFILE, first_free_descriptor());
  size_t steps = 0, sleeps = 0;
  for (const auto start = steady_clock::now(); steady_clock::now() - start < seconds(1); ++sleeps) {
    while (const size_t more = job.wire->poll(job.sink))
      steps += more;
    job.wire->sleep(Sleeper::kOwner, seconds(1));
  }
  none.reset();
  EXPECT_GE(steps, 1u);
  EXPECT_LT(steps, 100u);
  EXPECT_LT(sleeps, 200u);
  ASSERT_TRUE(job.greet(socket, 1));
  ASSERT_TRUE(socket.send(one_atomic(1)));
  EXPECT_TRUE(job.pump([&] { return job.sink.count(What::kAtomic) == 1; }));
}

// A stranger that sends nothing holds the last descriptor.
TEST(TcpStrangers, GiveTheirDescriptorsToPeersIfThoseAreShort) {
  HandJob job;
  std::vector<RawSocket> strangers;
  strangers.push_back(job.connect());
  RawSocket peer;
  job.settle();
  auto none = std::make_unique<Limited>(RLIMIT_NOFILE, first_free_descriptor());
  ASSERT_TRUE(peer.connect(job.addresses[0].place.port));
  const bool admitted = job.greet(peer, 1);
  none.reset();
  EXPECT_TRUE(admitted);
  EXPECT_EQ(still_open(strangers), 0u);
}

}  // namespace
}  // namespace lanyard::wire_contract
