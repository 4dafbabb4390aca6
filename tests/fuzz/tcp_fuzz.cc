// Fuzzes the TCP wire's reading of bytes: from a stranger, from a peer that has proven its
// identity, and from a listener at a peer's address. The links read from socket pairs, in pieces
// that the input chooses.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "nicsim/wire/fd_nap.h"
#include "nicsim/wire/tcp_handshake.h"
#include "nicsim/wire/tcp_link.h"
#include "tests/fuzz/fuzz.h"
#include "transport/base/check.h"

namespace lanyard::fuzz {
namespace {

using namespace nicsim;  // the wire's namespace
namespace asio = boost::asio;
using asio::ip::tcp;

constexpr uint32_t kPeers = 3;
constexpr uint32_t kSource = 1;

class FuzzHub final : public TcpHub {
 public:
  FuzzHub() { sink_ = &fuzz_sink; }
  void allow(uint64_t bytes) { budget_ = bytes; }
  std::optional<TcpSecret> secret_for(const TcpHello& hello) const override {
    return hello.source >= kPeers || hello.source == 0 ? std::nullopt : std::optional(secret_);
  }
  bool admit(const TcpMeeting& meeting, const std::shared_ptr<TcpInLink>&) override {
    LANYARD_CHECK(may_admit && meeting.hello.source == kSource, "a connection without proof of identity is admitted");
    return true;
  }
  void stranger_ended(const TcpInLink&) override {}
  void acknowledged(uint32_t rank, uint32_t token) override {
    LANYARD_CHECK(rank == kSource, "an acknowledgement is credited to another peer");
    if (out != nullptr)
      out->acknowledged(token);
  }
  void in_ended(uint32_t rank, const std::string& why) override {
    if (!std::exchange(lost, true))
      fuzz_sink.peer_lost(rank, why);
  }
  void out_ended(uint32_t, const std::string&) override {}

  FuzzSink fuzz_sink{kPeers};
  TcpSecret secret_;
  bool may_admit = false;
  bool lost = false;
  std::shared_ptr<TcpOutLink> out;
};

struct Pair {
  Pair() {
    int fds[2] = {-1, -1};
    LANYARD_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0,
                  "socketpair() failed");
    ours = fds[0];
    theirs = fds[1];
  }
  ~Pair() { ::close(ours); }
  bool send(const void* data, size_t bytes) const {
    return ::send(ours, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
  }
  template <typename T>
  bool receive(T& value) const {
    return ::recv(ours, &value, sizeof value, 0) == sizeof value;
  }
  int ours = -1;
  int theirs = -1;  // owned and closed by the link
};

struct World {
  World() : nap(std::move(FdNap::create().value())) {}
  void poll() {
    hub.allow(Wire::kPortionBytes);
    io.restart();
    for (int i = 0; i < 64 && hub.read_budget() > 0 && io.poll_one() > 0; ++i) {
    }
  }
  std::unique_ptr<FdNap> nap;
  FuzzHub hub;
  asio::io_context io{1};
};

// Sends bytes in pieces. One or two bytes before each piece give its length.
void send_all(World& world, const Pair& pair, FuzzInput& input) {
  while (!input.empty()) {
    const auto length = input.take<uint8_t>();
    const size_t most = length < 200 ? length : length * size_t{37};
    const std::span<const std::byte> piece = input.take_bytes(most);
    if (!piece.empty() && !pair.send(piece.data(), piece.size()))
      break;
    world.poll();
  }
}

void run_in_link(FuzzInput& input, bool as_peer) {
  World world;
  const Pair pair;
  const auto link = std::make_shared<TcpInLink>(world.hub, *world.nap, tcp::socket(world.io, tcp::v4(), pair.theirs));
  link->start(std::chrono::hours(1));
  if (as_peer) {
    TcpMeeting meeting{.hello = {.source = kSource}};
    TcpAnswer answer;
    LANYARD_CHECK(pair.send(&meeting.hello, sizeof meeting.hello), "cannot send the hello");
    world.poll();
    LANYARD_CHECK(pair.receive(answer), "the link sends no answer");
    meeting.target_challenge = answer.challenge;
    const TcpProof proof = prove(world.hub.secret_, TcpRole::kConnector, meeting);
    world.hub.may_admit = true;
    LANYARD_CHECK(pair.send(proof.data(), proof.size()), "cannot send the proof");
    world.poll();
    std::byte welcome{};
    LANYARD_CHECK(pair.receive(welcome) && welcome == kTcpWelcome, "the link does not welcome the peer");
  }
  send_all(world, pair, input);
  ::shutdown(pair.ours, SHUT_WR);
  for (int i = 0; i < 1000 && link->open(); ++i)
    world.poll();
  LANYARD_CHECK(!link->open(), "the link is open although the peer has closed its socket");
  LANYARD_CHECK(world.hub.fuzz_sink.all_over(), "a write is still landing after the link closed");
}

// Connects to a listener at a peer's address. `honest` says how many steps of the greeting it
// does correctly.
void run_out_link(FuzzInput& input) {
  static const int listener = [] {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    LANYARD_CHECK(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(fd, 8) == 0,
                  "no listening socket");
    return fd;
  }();
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size);
  const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), ntohs(bound.sin_port));

  World world;
  TcpMeeting meeting{.target = kSource};
  auto link = std::make_shared<TcpOutLink>(world.hub, *world.nap, world.io, endpoint, meeting, world.hub.secret_);
  const auto payload = std::make_unique<std::byte[]>(5000);
  link->queue({.kind = PacketKind::kWrite, .bytes = 5000}, payload.get());
  link->connect();
  const int ours = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  LANYARD_CHECK(ours >= 0, "accept4() failed");
  world.poll();
  const auto honest = input.take<uint8_t>() % 3;
  if (honest > 0) {
    TcpHello& hello = meeting.hello;
    LANYARD_CHECK(::recv(ours, &hello, sizeof hello, MSG_WAITALL) == sizeof hello, "the link sends no hello");
    const TcpAnswer answer{.proof = prove(world.hub.secret_, TcpRole::kListener, meeting)};
    LANYARD_CHECK(::send(ours, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer, "cannot send the answer");
    world.poll();
  }
  if (honest > 1)
    LANYARD_CHECK(::send(ours, &kTcpWelcome, 1, MSG_NOSIGNAL) == 1, "cannot send the welcome");
  while (!input.empty()) {
    world.poll();
    const std::span<const std::byte> piece = input.take_bytes(input.take<uint8_t>());
    if (piece.size() == 4) {  // an acknowledgement of that operation
      uint32_t token = 0;
      std::memcpy(&token, piece.data(), sizeof token);
      link->acknowledged(token);
    } else if (::send(ours, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) {
      break;
    }
  }
  world.poll();
  const linger at_once{.l_onoff = 1, .l_linger = 0};  // frees the port at once
  ::setsockopt(ours, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(ours);
  world.poll();
  link->close();
  world.poll();
}

void write_seed(const std::string& folder, const char* name, const std::string& text) {
  std::ofstream(folder + "/" + name, std::ios::binary) << text;
}

// Writes seeds: one packet of each kind, from a peer.
void write_seeds(const std::string& folder) {
  std::string bytes;
  const auto add = [&](const Packet& packet, size_t payload) {
    bytes.append(reinterpret_cast<const char*>(&packet), sizeof packet).append(payload, 'x');
  };
  add({.kind = PacketKind::kWrite, .source = kSource, .token = 1, .key = 2, .bytes = 10}, 10);
  add({.kind = PacketKind::kWrite, .source = kSource, .token = 2, .key = 1, .bytes = 3}, 3);
  add({.kind = PacketKind::kPull, .source = kSource, .token = 3, .bytes = 9}, kLoanBytes);
  add({.kind = PacketKind::kAtomic, .source = kSource, .token = 4}, 0);
  add({.kind = PacketKind::kAck, .source = kSource, .token = 5}, 0);
  add({.kind = PacketKind::kCannotPull, .source = kSource, .token = 6}, 0);
  std::string pieces;
  for (size_t at = 0; at < bytes.size(); at += 70)
    pieces.append(1, static_cast<char>(70)).append(bytes, at, 70);
  write_seed(folder, "peer", "\2" + pieces);
  write_seed(folder, "long", std::string("\3\x20", 2) + bytes);
  const TcpHello hello{.source = kSource};
  write_seed(folder, "stranger",
             std::string("\0\x4c", 2).append(reinterpret_cast<const char*>(&hello), sizeof hello) + "\x20" +
                 std::string(32, 'p'));
  write_seed(folder, "listener", std::string("\1\2\4\0\0\0\0\1x", 9));
  write_seed(folder, "impostor", std::string("\1\0\x30", 3) + std::string(48, 'a'));
}

}  // namespace
}  // namespace lanyard::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* folder = std::getenv("LANYARD_FUZZ_SEEDS")) {
    lanyard::fuzz::write_seeds(folder);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lanyard::fuzz::FuzzInput input(data, size);
  switch (input.take<uint8_t>() % 4) {
    case 0: lanyard::fuzz::run_in_link(input, /*as_peer=*/false); break;
    case 1: lanyard::fuzz::run_out_link(input); break;
    default: lanyard::fuzz::run_in_link(input, /*as_peer=*/true); break;
  }
  return 0;
}
