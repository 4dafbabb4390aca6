#include "nicsim/wire/tcp_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>

namespace lanyard::nicsim {

nic::Address TcpAddress::encode() const {
  static_assert(sizeof(TcpAddress) <= nic::Address::kMaxBytes);
  const auto* first = reinterpret_cast<const std::byte*>(this);
  return {.bytes = {first, first + sizeof *this}};
}

std::optional<TcpAddress> TcpAddress::decode(const nic::Address& address) {
  TcpAddress result;
  if (address.bytes.size() != sizeof result)
    return std::nullopt;
  std::memcpy(&result, address.bytes.data(), sizeof result);
  if (result.tag != kTcpAddressTag)
    return std::nullopt;
  return result;
}

std::string default_interface() {
  std::string found = "127.0.0.1";
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    return found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET || (entry->ifa_flags & kUp) != kUp ||
        (entry->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    sockaddr_in address{};
    std::memcpy(&address, entry->ifa_addr, sizeof address);
    char text[INET_ADDRSTRLEN] = {};
    if (::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text) != nullptr) {
      found = text;
      break;
    }
  }
  ::freeifaddrs(first);
  return found;
}

}  // namespace lanyard::nicsim
