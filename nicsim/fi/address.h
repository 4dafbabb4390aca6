// The address of an endpoint, as fi_getname() gives it and fi_av_insert() takes it: which NIC, and
// which of its endpoints.
#ifndef LANYARD_NICSIM_FI_ADDRESS_H_
#define LANYARD_NICSIM_FI_ADDRESS_H_

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

// Of one size for every wire, so that addresses can stand in an array, and no larger than what MPIs keep for a name.
// Plain data, to be carried to other processes.
struct EndpointAddress {
  static constexpr uint16_t kMagic = 0x4c43;  // "CL"

  uint16_t magic = kMagic;
  uint16_t endpoint = 0;  // told apart by their owner only: regions and counters are the NIC's
  uint32_t nic_bytes = 0;
  std::byte nic[56] = {};

  // Nothing where the NIC's address does not fit.
  static std::optional<EndpointAddress> of(const nic::Address& nic, uint16_t endpoint) {
    EndpointAddress address;
    if (nic.bytes.size() > sizeof address.nic)
      return std::nullopt;
    address.endpoint = endpoint;
    address.nic_bytes = static_cast<uint32_t>(nic.bytes.size());
    std::memcpy(address.nic, nic.bytes.data(), nic.bytes.size());
    return address;
  }
  // Nothing where these bytes are no address.
  std::optional<nic::Address> nic_address() const {
    if (magic != kMagic || nic_bytes > sizeof nic)
      return std::nullopt;
    return nic::Address{.bytes = {nic, nic + nic_bytes}};
  }
};
static_assert(std::is_trivially_copyable_v<EndpointAddress> && sizeof(EndpointAddress) == FI_NAME_MAX);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_ADDRESS_H_
