#include "nicsim/wire/tcp_door.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <tuple>
#include <utility>

namespace lanyard::nicsim {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// ---- Interfaces

namespace {

// If there are several, the one that the system prefers; empty if there is none.
std::string interface_of_default_route() {
  std::ifstream routes("/proc/net/route");
  std::string best, line, name, destination, gateway, flags, references, uses, mask;
  uint64_t least = std::numeric_limits<uint64_t>::max(), metric = 0;
  std::getline(routes, line);  // the names of the columns
  while (std::getline(routes, line)) {
    std::istringstream columns(line);
    columns >> name >> destination >> gateway >> flags >> references >> uses >> metric >> mask;
    if (columns && destination == "00000000" && mask == "00000000" && metric < least) {
      least = metric;
      best = name;
    }
  }
  return best;
}

bool is_bridge(const std::string& name) {
  std::error_code unknown;
  return std::filesystem::exists("/sys/class/net/" + name + "/bridge", unknown);
}

// 169.254.0.0/16: an interface chooses such an address itself if none is assigned.
bool is_link_local(const NetworkInterface& interface) { return interface.address.starts_with("169.254."); }

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  std::vector<NetworkInterface> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    return found;
  const std::string way_out = interface_of_default_route();
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET)
      continue;
    sockaddr_in address{};
    std::memcpy(&address, entry->ifa_addr, sizeof address);
    constexpr unsigned kRunning = IFF_UP | IFF_RUNNING;
    const std::string name = entry->ifa_name;
    found.push_back({.name = name,
                     .address = asio::ip::address_v4(ntohl(address.sin_addr.s_addr)).to_string(),
                     .running = (entry->ifa_flags & kRunning) == kRunning,
                     .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
                     .bridge = is_bridge(name),
                     .default_route = name == way_out});
  }
  ::freeifaddrs(first);
  return found;
}

std::string default_address(std::span<const NetworkInterface> interfaces) {
  const auto merit = [](const NetworkInterface& interface) {
    return std::tuple(interface.running && !interface.loopback, !is_link_local(interface), interface.default_route,
                      !interface.bridge);
  };
  const auto best = std::ranges::max_element(interfaces, {}, merit);
  return best != interfaces.end() && best->running && !best->loopback ? best->address : "127.0.0.1";
}

Result<std::string> named_address(std::span<const NetworkInterface> interfaces, const std::string& wanted) {
  error_code no_address;
  asio::ip::make_address(wanted, no_address);
  if (!no_address)
    return wanted;
  const auto named = std::ranges::find(interfaces, wanted, &NetworkInterface::name);
  if (named == interfaces.end())
    return Status(Code::kInvalidArgument,
                  "'" + wanted + "' is neither an IP address nor a network interface that has one (IPv4)");
  return named->address;
}

// ---- The door

TcpDoor::TcpDoor(TcpHub& hub, FdNap& nap, asio::io_context& io)
    : hub_(hub), nap_(nap), acceptor_(io), pause_timer_(io) {}

Result<tcp::endpoint> TcpDoor::listen(const std::string& address) {
  error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error || ip.is_unspecified() || ip.is_multicast())
    return Status(Code::kInvalidArgument, "'" + address + "' is no IP address to listen on");
  const tcp::endpoint endpoint(ip, 0);
  acceptor_.open(endpoint.protocol(), error);
  if (error)
    return Status(Code::kFailed, "socket: " + error.message());
  ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  guard_.watch(acceptor_.native_handle());
  acceptor_.bind(endpoint, error);
  if (error)
    return Status(Code::kInvalidArgument, "cannot listen on " + address + ": " + error.message());
  acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error)
    return Status(Code::kFailed, "listen: " + error.message());
  const tcp::endpoint bound = acceptor_.local_endpoint(error);
  if (error)
    return Status(Code::kFailed, "getsockname: " + error.message());
  return bound;
}

void TcpDoor::open(size_t strangers, std::chrono::milliseconds time) {
  max_strangers_ = strangers;
  time_ = time;
  nap_.watch(acceptor_.native_handle(), FdNap::Watch::kRead);
  accept();
}

void TcpDoor::accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (error)
      return pause();
    if (strangers_.size() >= max_strangers_)
      turn_away_oldest();
    strangers_.push_back(std::make_shared<TcpInLink>(hub_, nap_, std::move(socket)));
    strangers_.back()->start(time_);
    accept();
  });
}

// Call when descriptors or memory may be short. Connections in the queue must not wake sleepers.
void TcpDoor::pause() {
  // If a peer waits, close the oldest stranger, whose descriptor it needs. The system reports the
  // shortage before it looks into the queue, so look first.
  pollfd queue{.fd = acceptor_.native_handle(), .events = POLLIN, .revents = 0};
  if (::poll(&queue, 1, 0) == 1)
    turn_away_oldest();
  nap_.change(acceptor_.native_handle(), FdNap::Watch::kNothing);
  pause_timer_.expires_after(kPause);
  pause_timer_.async_wait(hub_.queued([this](error_code) {
    nap_.change(acceptor_.native_handle(), FdNap::Watch::kRead);
    accept();
  }));
}

void TcpDoor::turn_away_oldest() {
  if (strangers_.empty())
    return;
  strangers_.front()->close();
  strangers_.pop_front();
}

void TcpDoor::leaves(const TcpInLink& link) {
  std::erase_if(strangers_, [&](const auto& stranger) { return stranger.get() == &link; });
}

}  // namespace lanyard::nicsim
