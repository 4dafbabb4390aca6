#include "nicsim/wire/tcp_address.h"

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

}  // namespace lanyard::nicsim
