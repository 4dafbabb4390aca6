#include "nicsim/wire/tcp_wire.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "nicsim/wire/fd_nap.h"
#include "nicsim/wire/tcp_door.h"
#include "nicsim/wire/tcp_link.h"

namespace lanyard::nicsim {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

namespace {

constexpr size_t kHandlersPerPoll = 64;
// All peers may connect at once, and so many strangers beside them.
constexpr size_t kSpareStrangers = 64;
// After a peer's end has been seen elsewhere, its last packets may take this long to arrive.
constexpr milliseconds kGrace{100};
// The longest sleep while a handler is queued that no descriptor announces.
constexpr milliseconds kHandlerPeriod{20};

tcp::endpoint endpoint_of(const TcpPlace& place) {
  tcp::endpoint endpoint;
  endpoint.resize(std::min<size_t>(place.socket_bytes, sizeof place.socket));
  std::memcpy(endpoint.data(), place.socket, endpoint.size());
  endpoint.port(static_cast<uint16_t>(place.port));
  return endpoint;
}

// Decodes the address. An error if this wire cannot reach it.
Result<TcpAddress> check(uint32_t rank, const nic::Address& encoded) {
  const std::string name = "peer " + std::to_string(rank);
  const std::optional<TcpAddress> decoded = TcpAddress::decode(encoded);
  if (!decoded)
    return Status(Code::kInvalidArgument,
                  name + " has no TCP wire: set LANYARD_SIM_WIRE to the same value on all ranks");
  if (decoded->byte_order != TcpAddress::kByteOrder)
    return Status(Code::kInvalidArgument, name + " has another byte order, which Lanyard does not support");
  if (decoded->version != TcpAddress::kVersion)
    return Status(Code::kInvalidArgument, name + " has another version of Lanyard");
  return *decoded;
}

class TcpWire final : public Wire, public TcpHub {
 public:
  TcpWire(std::unique_ptr<FdNap> nap, const TcpOptions& options)
      : nap_(std::move(nap)), options_(options), door_(*this, *nap_, io_) {}

  Status listen(const std::string& ip) {
    LANYARD_ASSIGN_OR_RETURN(const tcp::endpoint bound, door_.listen(ip));
    TcpPlace& place = address_.place;
    place.port = bound.port();
    place.socket_bytes = static_cast<uint32_t>(bound.size());
    std::memcpy(place.socket, bound.data(), place.socket_bytes);
    address_.secret = TcpSecret::random();
    return {};
  }

  const char* name() const override { return "tcp"; }
  nic::Address address() const override { return address_.encode(); }

  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override {
    if (ready_.load())
      return {Code::kInvalidState, "set_peers() was called before"};
    if (self >= peers.size() || peers[self].bytes != address().bytes)
      return {Code::kInvalidArgument, "the address at index self is not this NIC's"};
    std::vector<std::unique_ptr<Peer>> table;
    for (const nic::Address& encoded : peers) {
      table.push_back(std::make_unique<Peer>(io_));
      if (encoded.bytes.empty())
        continue;
      LANYARD_ASSIGN_OR_RETURN(const TcpAddress address, check(static_cast<uint32_t>(table.size() - 1), encoded));
      table.back()->place = address.place;
      table.back()->secret = address.secret;
    }
    peers_ = std::move(table);
    self_ = self;
    door_.open(peers_.size() + kSpareStrangers, options_.greeting_time);
    ready_.store(true, std::memory_order_release);
    return {};
  }

  Status add_peer(uint32_t rank, const nic::Address& encoded) override {
    if (rank >= peers_.size() || rank == self_)
      return {Code::kInvalidArgument, "no such peer"};
    LANYARD_ASSIGN_OR_RETURN(const TcpAddress address, check(rank, encoded));
    Peer& peer = *peers_[rank];
    if (peer.place && *peer.place != address.place)
      return {Code::kInvalidArgument, "another NIC has connected as peer " + std::to_string(rank)};
    peer.place = address.place;
    peer.secret = address.secret;
    return {};
  }

  // By address: containers with addresses of their own count as different hosts.
  bool shares_host(uint32_t rank) const override {
    return endpoint_of(*peers_[rank]->place).address() == endpoint_of(address_.place).address();
  }

  void send(uint32_t rank, const Packet& packet, const std::byte* payload) override {
    Peer& peer = *peers_[rank];
    if (peer.lost)
      return;
    if (peer.out == nullptr) {
      const TcpHello hello{.source = self_, .listeners_secret = peer.secret ? 1u : 0u, .place = address_.place};
      peer.out = std::make_shared<TcpOutLink>(*this, *nap_, io_, endpoint_of(*peer.place), TcpMeeting{hello, rank},
                                              peer.secret.value_or(address_.secret));
      peer.out->connect();
    }
    peer.out->queue(packet, payload);
    if (sink_ == nullptr)
      return peer.out->flush();
    if (!std::exchange(peer.dirty, true))
      dirty_.push_back(rank);  // sends answers together
  }

  size_t poll(Sink& sink) override {
    if (!ready_.load(std::memory_order_acquire))
      return 0;
    sink_ = &sink;
    budget_ = kPortionBytes;
    size_t steps = 0;
    while (steps < kHandlersPerPoll && budget_ > 0 && io_.poll_one() > 0)
      ++steps;
    sink_ = nullptr;
    for (const uint32_t rank : dirty_) {
      peers_[rank]->dirty = false;
      peers_[rank]->out->flush();
    }
    dirty_.clear();
    return steps;
  }

  bool give_up_stalled(uint64_t key, Sink& sink) override {
    for (const std::unique_ptr<Peer>& peer : peers_) {
      if (peer->in != nullptr)
        peer->in->give_up_stalled(key, sink);
    }
    return true;
  }

  void attend() override { nap_->attend(); }
  void leave() override { nap_->leave(); }

  void sleep(Sleeper who, Nanoseconds timeout, const Idle& idle) override {
    if (queued_.load(std::memory_order_seq_cst) > 0)
      timeout = std::min<Nanoseconds>(timeout, kHandlerPeriod);
    nap_->sleep(who, timeout, idle);
  }

  void wake(Sleeper who) override { nap_->wake(who); }

 private:
  struct Peer {
    explicit Peer(asio::io_context& io) : grace(io) {}
    std::optional<TcpPlace> place;    // once its address is known, or it has connected
    std::optional<TcpSecret> secret;  // once its address is known
    std::shared_ptr<TcpOutLink> out;
    std::shared_ptr<TcpInLink> in;
    asio::steady_timer grace;
    bool dirty = false;  // has packets to flush at the end of this poll()
    bool lost = false;
  };

  // The peer has ended, but packets from it may still be arriving. It is not lost while they come.
  void give_grace(uint32_t rank, const std::string& why) {
    Peer& peer = *peers_[rank];
    const auto bytes_read = [](const Peer& from) { return from.in == nullptr ? 0 : from.in->bytes_read(); };
    peer.grace.expires_after(kGrace);
    peer.grace.async_wait(queued([this, rank, why, bytes_read, before = bytes_read(peer)](error_code) {
      if (peers_[rank]->lost)
        return;
      if (bytes_read(*peers_[rank]) != before)
        return give_grace(rank, why);
      lose(rank, why);
    }));
  }

  void lose(uint32_t rank, const std::string& why) {
    Peer& peer = *peers_[rank];
    if (std::exchange(peer.lost, true))
      return;
    if (peer.in != nullptr) {
      if (why != nic::kHasEnded)
        peer.in->say_unreachable();
      peer.in->close();
    }
    if (peer.out != nullptr)
      peer.out->close();
    sink_->peer_lost(rank, why);
  }

  std::optional<TcpSecret> secret_for(const TcpHello& hello) const override {
    if (hello.source >= peers_.size() || hello.source == self_)
      return std::nullopt;
    const Peer& peer = *peers_[hello.source];
    if (peer.lost || peer.in != nullptr || (peer.place && *peer.place != hello.place))
      return std::nullopt;
    return hello.listeners_secret != 0 ? std::optional(address_.secret) : peer.secret;
  }

  bool admit(const TcpMeeting& meeting, const std::shared_ptr<TcpInLink>& link) override {
    Peer& peer = *peers_[meeting.hello.source];
    if (peer.lost || peer.in != nullptr || (peer.place && *peer.place != meeting.hello.place))
      return false;
    peer.place = meeting.hello.place;
    peer.in = link;
    door_.leaves(*link);
    return true;
  }

  void stranger_ended(const TcpInLink& link) override { door_.leaves(link); }

  void acknowledged(uint32_t rank, uint32_t token) override {
    if (peers_[rank]->out != nullptr)
      peers_[rank]->out->acknowledged(token);
  }

  // A peer that has closed its link to us sends nothing more.
  void in_ended(uint32_t rank, const std::string& why) override { lose(rank, why); }
  void out_ended(uint32_t rank, const std::string& why) override {
    if (!peers_[rank]->lost)
      give_grace(rank, why);
  }

  const std::unique_ptr<FdNap> nap_;
  const TcpOptions options_;
  asio::io_context io_{1};  // before everything that uses it
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  TcpDoor door_;
  TcpAddress address_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<bool> ready_{false};  // set_peers() has been called
  std::vector<uint32_t> dirty_;     // for the driver only
};

}  // namespace

Result<std::unique_ptr<Wire>> make_tcp_wire(const TcpOptions& options) {
  LANYARD_ASSIGN_OR_RETURN(std::unique_ptr<FdNap> nap, FdNap::create());
  std::unique_ptr<TcpWire> wire;
  try {
    wire = std::make_unique<TcpWire>(std::move(nap), options);
  } catch (const boost::system::system_error& error) {  // Asio has descriptors of its own
    return Status(Code::kFailed, error.what());
  }
  const std::vector<NetworkInterface> interfaces = network_interfaces();
  std::string address = default_address(interfaces);
  if (!options.interface.empty()) {
    LANYARD_ASSIGN_OR_RETURN(address, named_address(interfaces, options.interface));
  }
  LANYARD_RETURN_IF_ERROR(wire->listen(address));
  return std::unique_ptr<Wire>(std::move(wire));
}

}  // namespace lanyard::nicsim
