// Where a NIC of the TCP wire listens: the host's IPv4 network interfaces, and TcpDoor, which
// accepts connections. A connection is a stranger's until it has proven to be a peer's
// (tcp_handshake.h). Few strangers stay, and not for long. While descriptors are short, peers wait
// in the system's queue.
//
// Threads: only the driver's, except before open().
#ifndef LANYARD_NICSIM_WIRE_TCP_DOOR_H_
#define LANYARD_NICSIM_WIRE_TCP_DOOR_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nicsim/wire/fd_nap.h"
#include "nicsim/wire/tcp_link.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

// One address of an interface.
struct NetworkInterface {
  std::string name = {};
  std::string address = {};    // as text
  bool running = false;        // up, with a carrier
  bool loopback = false;       // reaches this host only
  bool bridge = false;         // often for containers of this host; other hosts may have the same address
  bool default_route = false;  // used by packets that no other route fits
};

// In the system's order; empty if the system does not tell.
std::vector<NetworkInterface> network_interfaces();

// The default: an address that other hosts can probably reach. Among running interfaces, without
// loopback, prefers an assigned address over a link-local one, then the default route, then an
// interface that is no bridge, then the first. If there is none, 127.0.0.1.
std::string default_address(std::span<const NetworkInterface> interfaces);

// The IP address for `wanted`, which is an address or an interface's name. kInvalidArgument.
Result<std::string> named_address(std::span<const NetworkInterface> interfaces, const std::string& wanted);

class TcpDoor {
 public:
  TcpDoor(TcpHub& hub, FdNap& nap, boost::asio::io_context& io);

  // Listens on a port that the system chooses, at an address. kInvalidArgument if it is not an
  // address of this host; kFailed.
  Result<boost::asio::ip::tcp::endpoint> listen(const std::string& address);
  // Accepts connections from now on, at most `strangers` strangers at a time. Each may stay for
  // `time`; a new one may replace the oldest.
  void open(size_t strangers, std::chrono::milliseconds time);
  // Call when the link has been admitted or has ended.
  void leaves(const TcpInLink& link);

 private:
  static constexpr std::chrono::milliseconds kPause{100};

  void accept();
  void pause();
  void turn_away_oldest();

  TcpHub& hub_;
  FdNap& nap_;
  boost::asio::ip::tcp::acceptor acceptor_;
  ForkGuard guard_;  // for the acceptor
  boost::asio::steady_timer pause_timer_;
  std::deque<std::shared_ptr<TcpInLink>> strangers_;  // oldest first
  size_t max_strangers_ = 0;
  std::chrono::milliseconds time_{};
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_DOOR_H_
