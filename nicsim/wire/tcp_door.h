// TcpDoor: accepts the connections of a NIC of the TCP wire. Any program may connect. A
// connection is a stranger's until it has proven to be a peer's (tcp_handshake.h). Few strangers
// stay, and not for long. While descriptors are short the door accepts none, and peers wait in
// the system's queue.
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
#include <string>

#include "nicsim/wire/fd_nap.h"
#include "nicsim/wire/fork_guard.h"
#include "nicsim/wire/tcp_hub.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

class TcpDoor {
 public:
  TcpDoor(TcpHub& hub, FdNap& nap, boost::asio::io_context& io);

  // Listens on a port that the system chooses. kInvalidArgument if `interface` is not an address of
  // this host; kFailed.
  Result<boost::asio::ip::tcp::endpoint> listen(const std::string& interface);
  // Accepts connections from now on, at most `strangers` strangers at a time. Each may stay for
  // `time`; a new one may replace the oldest.
  void open(size_t strangers, std::chrono::milliseconds time);
  // Call when the link has been admitted or has ended.
  void leaves(const TcpInLink& link);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPause{100};

  struct Stranger {
    std::shared_ptr<TcpInLink> link;
    Clock::time_point until;
  };

  void accept();
  void let_in(boost::asio::ip::tcp::socket socket);
  void pause();
  void turn_away_oldest();
  void watch_the_time();

  TcpHub& hub_;
  FdNap& nap_;
  boost::asio::ip::tcp::acceptor acceptor_;
  ForkGuard guard_;  // for the acceptor
  boost::asio::steady_timer pause_timer_;
  boost::asio::steady_timer stranger_timer_;
  std::deque<Stranger> strangers_;  // oldest first
  bool timing_ = false;             // stranger_timer_ is set
  size_t max_strangers_ = 0;
  std::chrono::milliseconds time_{};
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_DOOR_H_
