// What the provider offers: fi_getinfo(3) for the one simulated device.
#ifndef LANYARD_NICSIM_FI_INFO_H_
#define LANYARD_NICSIM_FI_INFO_H_

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

namespace lanyard::nicsim::fi {

inline constexpr size_t kMaxTransmitSize = 1024;     // operations under way an endpoint
inline constexpr uint64_t kMaxUserKey = UINT32_MAX;  // of a region

// As struct fi_provider's getinfo: -FI_ENODATA where the hints ask for what is not simulated,
// -FI_ENOMEM. What it returns is the caller's, for fi_freeinfo().
int get_info(uint32_t version, const char* node, const char* service, uint64_t flags, const struct fi_info* hints,
             struct fi_info** info);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_INFO_H_
