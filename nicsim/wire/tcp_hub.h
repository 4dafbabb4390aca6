// TcpHub: the calls that the connections of the TCP wire make to the wire, all inside poll().
//
// Each connection carries packets one way. A NIC connects to a peer at its first send to it
// (TcpOutLink). That peer's packets, acks included, come on a connection that the peer makes
// (TcpInLink). So two NICs that connect to each other at once need no agreement.
//
// A frame is the Packet as it lies in memory and, for a write or a pull, its payload. A write's
// payload is sent from its place and read to its place, without a copy.
//
// Threads: links belong to the driver; their handlers run inside poll(). Shared pointers hold them,
// because Asio calls handlers of closed sockets later.
#ifndef LANYARD_NICSIM_WIRE_TCP_HUB_H_
#define LANYARD_NICSIM_WIRE_TCP_HUB_H_

#include <fcntl.h>
#include <netinet/tcp.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "nicsim/wire/tcp_handshake.h"
#include "nicsim/wire/wire.h"

namespace lanyard::nicsim {

class TcpInLink;

// Sets the options of a connection. A peer whose host has vanished is noticed after about 30 s.
inline void set_tcp_options(boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  const int fd = socket.native_handle();
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // else a program that a peer starts keeps its connections
  const auto set = [fd](int name, int value) { ::setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value); };
  set(TCP_KEEPIDLE, 15);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 30'000);  // ms
}

// The reason for nic::Nic::why_lost() after a connection broke. The system closes a process's
// connections when it ends.
inline std::string why_broken(boost::system::error_code error) {
  namespace errors = boost::asio::error;
  const bool closed =
      !error || error == errors::eof || error == errors::connection_reset || error == errors::broken_pipe;
  return closed ? nic::kHasEnded : nic::kCannotBeReached + ("its connection broke: " + error.message());
}

class TcpHub {
 public:
  virtual ~TcpHub() = default;
  virtual Sink& sink() = 0;
  // The bytes that this poll() may still read; take(n) lowers it.
  virtual uint64_t read_budget() const = 0;
  virtual void take(uint64_t bytes) = 0;

  // The secret for the proofs of a connection that begins with `hello`; none to refuse it.
  virtual std::optional<TcpSecret> secret_for(const TcpHello& hello) const = 0;
  virtual uint32_t self() const = 0;
  // The link has proven to be the source's. False if it is not needed any more.
  virtual bool admit(const TcpMeeting& meeting, const std::shared_ptr<TcpInLink>& link) = 0;
  // A link that has not been admitted is closed.
  virtual void stranger_ended(const TcpInLink& link) = 0;

  // A peer has answered this NIC's operation.
  virtual void acknowledged(uint32_t rank, uint32_t token) = 0;
  // A peer's link to us (in) or ours to it (out) has ended and is closed.
  // `why`: as nic::Nic::why_lost().
  virtual void in_ended(uint32_t rank, const std::string& why) = 0;
  virtual void out_ended(uint32_t rank, const std::string& why) = 0;

  // Handlers that will run without a ready descriptor. Sleepers look for them while any is queued.
  virtual void handler_queued() = 0;
  virtual void handler_ran() = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_HUB_H_
