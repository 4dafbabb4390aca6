// The network interfaces of this host, and on which of their addresses a NIC listens for those of other hosts. IPv4.
#ifndef LANYARD_NICSIM_WIRE_NETWORK_INTERFACES_H_
#define LANYARD_NICSIM_WIRE_NETWORK_INTERFACES_H_

#include <span>
#include <string>
#include <vector>

#include "transport/base/status.h"

namespace lanyard::nicsim {

// One of an interface's addresses.
struct NetworkInterface {
  std::string name = {};
  std::string address = {};    // as text
  bool running = false;        // up, and its cable is plugged in
  bool loopback = false;       // reaches this host only
  bool bridge = false;         // often to containers of this host, with an address that other hosts have, too
  bool default_route = false;  // where packets leave that no other route is for
};

// In the system's order; none where it does not say.
std::vector<NetworkInterface> network_interfaces();

// Where the user names none: an address that other hosts reach, as far as can be seen here. Of interfaces that run, and
// are no loopback, one with an address that was assigned (not link-local) before others, then that of the default
// route, then one that is no bridge, then the first; else 127.0.0.1.
std::string default_address(std::span<const NetworkInterface> interfaces);

// The IP address that the user means by `wanted`, an address or an interface's name. kInvalidArgument.
Result<std::string> named_address(std::span<const NetworkInterface> interfaces, const std::string& wanted);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_NETWORK_INTERFACES_H_
