// The other side of a TCP wire, played by the test's thread: connects to it or listens for it,
// byte by byte.
#ifndef LANYARD_TESTS_TCP_PEER_H_
#define LANYARD_TESTS_TCP_PEER_H_

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "nicsim/wire/tcp_handshake.h"
#include "nicsim/wire/tcp_wire.h"
#include "tests/nicsim/wire_contract_fixture.h"

namespace lanyard::wire_contract {

using nicsim::is_same;
using nicsim::prove;
using nicsim::TcpAddress;
using nicsim::TcpAnswer;
using nicsim::TcpChallenge;
using nicsim::TcpHello;
using nicsim::TcpMeeting;
using nicsim::TcpProof;
using nicsim::TcpRole;
using nicsim::TcpSecret;
using Bytes = std::vector<std::byte>;

inline TcpSecret secret_of(uint32_t seed) {
  TcpSecret secret;
  fill(secret.bytes.data(), secret.bytes.size(), seed);
  return secret;
}

template <typename T>
void append(Bytes& bytes, const T& value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

// A socket of the test, on 127.0.0.1.
class RawSocket {
 public:
  RawSocket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit RawSocket(int fd) : fd_(fd) {}
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawSocket& operator=(RawSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~RawSocket() { close(); }
  void close() {
    if (fd_ >= 0)
      ::close(std::exchange(fd_, -1));
  }
  int fd() const { return fd_; }

  bool connect(uint32_t port) {
    const sockaddr_in address = loopback(port);
    return ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  // Makes the socket nonblocking.
  uint32_t listen() {
    EXPECT_EQ(::fcntl(fd_, F_SETFL, O_NONBLOCK), 0);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  // Receives the bytes that are there now; a later call gets the rest.
  Bytes receive(size_t most) {
    if (most == 0)
      return {};
    Bytes bytes(most);
    const ssize_t count = ::recv(fd_, bytes.data(), most, MSG_DONTWAIT);
    bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
    ended_ = ended_ || count == 0 || (count < 0 && errno != EAGAIN);
    return bytes;
  }
  // Whether receive() has found the end.
  bool ended() const { return ended_; }
  bool send(const Bytes& bytes) { return send(bytes.data(), bytes.size()); }
  bool send(const void* data, size_t bytes) {
    return ::send(fd_, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
  }

 private:
  static sockaddr_in loopback(uint32_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  int fd_;
  bool ended_ = false;
};

// A wire of rank 0 in a job whose other ranks the test plays. Each of them has its own listening
// socket and secret.
struct HandJob {
  explicit HandJob(size_t size = 2, nicsim::TcpOptions options = {}) : listeners(size) {
    options.interface = "127.0.0.1";
    wire = std::move(nicsim::make_tcp_wire(options).value());
    addresses.push_back(*TcpAddress::decode(wire->address()));
    std::vector<nic::Address> all{wire->address()};
    for (uint32_t rank = 1; rank < size; ++rank) {
      TcpAddress address = addresses[0];
      address.place.port = listeners[rank].listen();
      address.secret = secret_of(rank);
      addresses.push_back(address);
      all.push_back(address.encode());
    }
    EXPECT_TRUE(works(wire->set_peers(all, 0)));
  }

  bool pump(const std::function<bool()>& done, steady_clock::duration patience = kPatience) {
    const auto drive = [&] {
      if (wire->poll(sink) == 0)
        std::this_thread::yield();
    };
    return eventually(done, drive, patience);
  }
  // Polls until nothing has happened for a while.
  void settle(milliseconds quiet = milliseconds(2)) {
    steady_clock::time_point last = steady_clock::now();
    pump([&] {
      if (wire->poll(sink) > 0)
        last = steady_clock::now();
      return steady_clock::now() - last > quiet;
    });
  }

  // Reads exactly `bytes` bytes, less if the other side ends first.
  Bytes read(RawSocket& socket, size_t bytes) {
    Bytes all;
    pump([&] {
      const Bytes some = socket.receive(bytes - all.size());
      all.insert(all.end(), some.begin(), some.end());
      return all.size() == bytes || socket.ended();
    });
    return all;
  }
  template <typename T>
  bool read_into(RawSocket& socket, T& value) {
    const Bytes bytes = read(socket, sizeof value);
    if (bytes.size() != sizeof value)
      return false;
    std::memcpy(&value, bytes.data(), sizeof value);
    return true;
  }
  bool ends(RawSocket& socket) {
    return pump([&] {
      socket.receive(4096);
      return socket.ended();
    });
  }

  TcpMeeting meeting(uint32_t source, uint32_t target) const { return {.hello = hello(source), .target = target}; }
  const TcpSecret& secret(uint32_t rank = 0) const { return addresses[rank].secret; }
  TcpHello hello(uint32_t source) const { return {.source = source, .place = addresses[source].place}; }
  RawSocket connect() {
    RawSocket socket;
    EXPECT_TRUE(socket.connect(addresses[0].place.port));
    return socket;
  }
  // Makes the handshake as that rank, to send to the wire. `change` may spoil the proof.
  bool greet(RawSocket& socket, uint32_t rank, const std::function<void(TcpProof&)>& change = {}) {
    TcpMeeting known = meeting(rank, 0);
    known.hello.challenge = nicsim::new_challenge();
    TcpAnswer answer;
    if (!socket.send(&known.hello, sizeof known.hello) || !read_into(socket, answer))
      return false;
    known.target_challenge = answer.challenge;
    EXPECT_TRUE(is_same(answer.proof, prove(secret(), TcpRole::kListener, known)));
    TcpProof proof = prove(secret(), TcpRole::kConnector, known);
    if (change)
      change(proof);
    std::byte welcome{};
    return socket.send(proof.data(), proof.size()) && read_into(socket, welcome) && welcome == nicsim::kTcpWelcome;
  }
  RawSocket admitted(uint32_t rank = 1) {
    RawSocket socket = connect();
    EXPECT_TRUE(greet(socket, rank));
    return socket;
  }

  // Accepts the wire's connection to that rank.
  RawSocket accept(uint32_t rank = 1) {
    int fd = -1;
    EXPECT_TRUE(pump([&] { return (fd = ::accept4(listeners[rank].fd(), nullptr, nullptr, SOCK_CLOEXEC)) >= 0; }));
    return RawSocket(fd);
  }
  // Answers the wire's handshake up to the wire's proof.
  bool answer(RawSocket& socket, uint32_t rank = 1, const std::function<void(TcpAnswer&)>& change = {}) {
    TcpMeeting known{.target = rank, .target_challenge = nicsim::new_challenge()};
    const TcpHello& hello = known.hello;
    if (!read_into(socket, known.hello) || !hello.fits() || hello.source != 0 || hello.listeners_secret != 1 ||
        hello.place != addresses[0].place)
      return false;
    TcpAnswer answer{.challenge = known.target_challenge, .proof = prove(secret(rank), TcpRole::kListener, known)};
    if (change)
      change(answer);
    TcpProof proof;
    return socket.send(&answer, sizeof answer) && read_into(socket, proof) &&
           is_same(proof, prove(secret(rank), TcpRole::kConnector, known));
  }
  RawSocket welcomed(uint32_t rank = 1) {
    RawSocket socket = accept(rank);
    EXPECT_TRUE(answer(socket, rank));
    EXPECT_TRUE(socket.send(&nicsim::kTcpWelcome, 1));
    return socket;
  }

  std::vector<RawSocket> listeners;  // by rank; the first is unused
  std::vector<TcpAddress> addresses;
  std::unique_ptr<Wire> wire;
  TestSink sink;
};

}  // namespace lanyard::wire_contract

#endif  // LANYARD_TESTS_TCP_PEER_H_
