// What all connections of the TCP wire have set.
#ifndef LANYARD_NICSIM_WIRE_TCP_SOCKET_H_
#define LANYARD_NICSIM_WIRE_TCP_SOCKET_H_

#include <fcntl.h>
#include <netinet/tcp.h>

#include <boost/asio/ip/tcp.hpp>

namespace lanyard::nicsim {

// A peer whose host has vanished is noticed after some 30 s.
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

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_SOCKET_H_
