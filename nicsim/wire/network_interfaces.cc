#include "nicsim/wire/network_interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <tuple>

namespace lanyard::nicsim {

namespace ip = boost::asio::ip;

namespace {

// If there are several, the one that the system prefers; empty if there is none.
std::string interface_of_default_route() {
  std::ifstream routes("/proc/net/route");
  std::string best;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  std::string line;
  std::getline(routes, line);  // the names of the columns
  while (std::getline(routes, line)) {
    std::istringstream columns(line);
    std::string name, destination, gateway, flags, references, uses, mask;
    uint64_t metric = 0;
    columns >> name >> destination >> gateway >> flags >> references >> uses >> metric >> mask;
    if (columns && destination == "00000000" && mask == "00000000" && metric < least) {
      least = metric;
      best = name;
    }
  }
  return best;
}

bool is_bridge(const std::string& name) {
  std::error_code unknown;
  return std::filesystem::exists("/sys/class/net/" + name + "/bridge", unknown);
}

// 169.254.0.0/16: an interface chooses such an address itself if none is assigned.
bool is_link_local(const NetworkInterface& interface) { return interface.address.starts_with("169.254."); }

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  std::vector<NetworkInterface> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    return found;
  const std::string way_out = interface_of_default_route();
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET)
      continue;
    sockaddr_in address{};
    std::memcpy(&address, entry->ifa_addr, sizeof address);
    constexpr unsigned kRunning = IFF_UP | IFF_RUNNING;
    const std::string name = entry->ifa_name;
    found.push_back({.name = name,
                     .address = ip::address_v4(ntohl(address.sin_addr.s_addr)).to_string(),
                     .running = (entry->ifa_flags & kRunning) == kRunning,
                     .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
                     .bridge = is_bridge(name),
                     .default_route = name == way_out});
  }
  ::freeifaddrs(first);
  return found;
}

std::string default_address(std::span<const NetworkInterface> interfaces) {
  const auto merit = [](const NetworkInterface& interface) {
    return std::tuple(interface.running && !interface.loopback, !is_link_local(interface), interface.default_route,
                      !interface.bridge);
  };
  const auto best = std::max_element(interfaces.begin(), interfaces.end(),
                                     [&](const auto& one, const auto& other) { return merit(one) < merit(other); });
  return best != interfaces.end() && best->running && !best->loopback ? best->address : "127.0.0.1";
}

Result<std::string> named_address(std::span<const NetworkInterface> interfaces, const std::string& wanted) {
  boost::system::error_code no_address;
  ip::make_address(wanted, no_address);
  if (!no_address)
    return wanted;
  const auto named = std::find_if(interfaces.begin(), interfaces.end(),
                                  [&](const NetworkInterface& interface) { return interface.name == wanted; });
  if (named == interfaces.end())
    return Status(Code::kInvalidArgument,
                  "'" + wanted + "' is neither an IP address nor a network interface that has one (IPv4)");
  return named->address;
}

}  // namespace lanyard::nicsim
