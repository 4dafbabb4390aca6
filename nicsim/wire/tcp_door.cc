#include "nicsim/wire/tcp_door.h"

#include <fcntl.h>
#include <poll.h>

#include <boost/asio/ip/address.hpp>
#include <utility>

#include "nicsim/wire/tcp_in_link.h"

namespace lanyard::nicsim {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

TcpDoor::TcpDoor(TcpHub& hub, FdNap& nap, asio::io_context& io)
    : hub_(hub), nap_(nap), acceptor_(io), pause_timer_(io), stranger_timer_(io) {}

Result<tcp::endpoint> TcpDoor::listen(const std::string& interface) {
  error_code error;
  const auto ip = asio::ip::make_address(interface, error);
  if (error || ip.is_unspecified() || ip.is_multicast())
    return Status(Code::kInvalidArgument, "'" + interface + "' is no IP address to listen on");
  const tcp::endpoint endpoint(ip, 0);
  acceptor_.open(endpoint.protocol(), error);
  if (error)
    return Status(Code::kFailed, "socket: " + error.message());
  ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  guard_.watch(acceptor_.native_handle());
  acceptor_.bind(endpoint, error);
  if (error)
    return Status(Code::kInvalidArgument, "cannot listen on " + interface + ": " + error.message());
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
    let_in(std::move(socket));
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
  hub_.handler_queued();
  pause_timer_.async_wait([this](error_code) {
    hub_.handler_ran();
    nap_.change(acceptor_.native_handle(), FdNap::Watch::kRead);
    accept();
  });
}

void TcpDoor::let_in(tcp::socket socket) {
  if (strangers_.size() >= max_strangers_)
    turn_away_oldest();
  auto link = std::make_shared<TcpInLink>(hub_, nap_, std::move(socket));
  link->start();
  strangers_.push_back({.link = std::move(link), .until = Clock::now() + time_});
  watch_the_time();
}

void TcpDoor::turn_away_oldest() {
  if (strangers_.empty())
    return;
  const std::shared_ptr<TcpInLink> oldest = strangers_.front().link;
  oldest->close();
  leaves(*oldest);
}

void TcpDoor::watch_the_time() {
  if (strangers_.empty() || std::exchange(timing_, true))
    return;
  stranger_timer_.expires_at(strangers_.front().until);
  hub_.handler_queued();
  stranger_timer_.async_wait([this](error_code) {
    hub_.handler_ran();
    timing_ = false;
    while (!strangers_.empty() && strangers_.front().until <= Clock::now())
      turn_away_oldest();
    watch_the_time();
  });
}

void TcpDoor::leaves(const TcpInLink& link) {
  std::erase_if(strangers_, [&](const Stranger& stranger) { return stranger.link.get() == &link; });
  if (strangers_.empty())
    stranger_timer_.cancel();  // sleepers look for timers
}

}  // namespace lanyard::nicsim
