// The IPv4 network interfaces of this host, and the address on which a NIC listens for other hosts.
#ifndef LANYARD_NICSIM_WIRE_NETWORK_INTERFACES_H_
#define LANYARD_NICSIM_WIRE_NETWORK_INTERFACES_H_

#include <span>
#include <string>
#include <vector>

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

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_NETWORK_INTERFACES_H_
