// The wire between hosts: TCP over Boost.Asio (README.md).
//
// Both ends of a connection first prove that they know the secret of one of them, which is part of
// its address. Packets are neither encrypted nor signed: the network between the hosts must be
// trusted not to change them.
//
// Order (W1): everything from one peer arrives in the order of send(), landed() included.
//
// Every packet costs the sender a system call, so only the second half of W5 holds. An arrival
// wakes no thread while one attends, otherwise all sleeping helpers, otherwise the owner.
//
// A peer is lost if it refuses or closes a connection, even when nothing is in flight, if
// connecting takes 10 s, or if its host has not answered for 30 s. Children made by fork() do not
// keep this process's connections (ForkGuard), so the system closes them when it ends.
#ifndef LANYARD_NICSIM_WIRE_TCP_WIRE_H_
#define LANYARD_NICSIM_WIRE_TCP_WIRE_H_

#include <chrono>
#include <memory>
#include <string>

#include "nicsim/wire/wire.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

struct TcpOptions {
  // The IP address to listen on, or the name of an interface with such an address. Other hosts must
  // reach this host by it. Empty: default_address() (tcp_door.h), which may be wrong on a
  // host with several.
  std::string interface = {};
  // The time that a connection may take to prove that it is a peer's.
  std::chrono::milliseconds greeting_time{10'000};
};

// Threads: as wire.h says. kInvalidArgument if `interface` is not an address or interface of this
// host; kFailed if the system refuses a socket.
Result<std::unique_ptr<Wire>> make_tcp_wire(const TcpOptions& options = {});

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_WIRE_H_
