// Where a NIC of the TCP wire listens.
#ifndef LANYARD_NICSIM_WIRE_TCP_ADDRESS_H_
#define LANYARD_NICSIM_WIRE_TCP_ADDRESS_H_

#include <cstdint>
#include <optional>

#include "nicsim/wire/shm_segment.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

// Plain data, of which nic::Address carries a copy.
struct TcpAddress {
  static constexpr uint32_t kByteOrder = 0x01020304;
  static constexpr uint32_t kVersion = 3;  // of what travels on connections

  uint32_t tag = kTcpAddressTag;
  uint32_t byte_order = kByteOrder;  // packets travel as they lie in memory
  uint32_t family = 4;               // 4 or 6
  uint32_t port = 0;
  uint8_t ip[16] = {};  // network order; 4 bytes in use for family 4
  uint32_t scope = 0;   // of a link-local IPv6 address
  uint32_t version = kVersion;
  uint64_t nonce = 0;  // tells this NIC from an earlier one on the same port; secret (tcp_handshake.h)

  nic::Address encode() const;
  static std::optional<TcpAddress> decode(const nic::Address& address);
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_TCP_ADDRESS_H_
