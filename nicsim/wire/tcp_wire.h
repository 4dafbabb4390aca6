// The wire between hosts: TCP over Boost.Asio (README.md).
//
// Order (W1): everything from one peer arrives in the order of send(), landed() included.
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
