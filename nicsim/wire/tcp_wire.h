// The wire between hosts: TCP over Boost.Asio (tcp_hub.h, fd_nap.h).
//
// One listening socket a NIC, on one address and a port of the system's choice. Connections are made at the first send,
// one for each direction. All hosts must lay packets out alike: the handshake compares byte order and sizes, and
// set_peers() the byte order.
//
// Who may connect. Whoever can reach the port can try; both ends first prove that they know the secret of
// one of them (tcp_handshake.h), which stands in its address. A stranger is turned away after a while, or
// at once where many come, and costs a socket and some hundred bytes meanwhile. Packets are neither
// encrypted nor signed: the network between the hosts is trusted not to change them.
//
// Order (W1): everything from one peer arrives in the order of send(), landed() included.
// Every packet costs the sender a system call, so of W5 the second half holds: an arrival wakes
// nobody while somebody attends, else all sleeping helpers, else the owner.
// A peer is lost when it refuses or closes a connection, also where nothing is under way; when connecting takes 10 s;
// or when its host has not answered for 30 s. Children that this process makes by fork() do not keep its connections
// (fork_guard.h), so that the system closes them when it ends.
#ifndef LANYARD_NICSIM_WIRE_TCP_WIRE_H_
#define LANYARD_NICSIM_WIRE_TCP_WIRE_H_

#include <chrono>
#include <memory>
#include <string>

#include "nicsim/wire/wire.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

struct TcpOptions {
  // The IP address to listen on, or the name of the interface whose it is: of the one over which the other hosts reach
  // this one. Empty: default_address() (network_interfaces.h), which on a host with several may be the wrong one.
  std::string interface = {};
  // How long somebody may be connected without having proven to be a peer.
  std::chrono::milliseconds greeting_time{10'000};
};

// Threads as wire.h says. kInvalidArgument where `interface` is no address or interface of this host, kFailed
// where the system refuses a socket.
Result<std::unique_ptr<Wire>> make_tcp_wire(const TcpOptions& options = {});

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_WIRE_H_
