// fi_getinfo(3) for the one simulated device.
#ifndef LANYARD_NICSIM_FI_INFO_H_
#define LANYARD_NICSIM_FI_INFO_H_

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

namespace lanyard::nicsim::fi {

inline constexpr size_t kMaxTransmitSize = 1024;     // operations in flight of an endpoint
inline constexpr uint64_t kMaxUserKey = UINT32_MAX;  // of a region

// As fi_provider::getinfo. -FI_ENODATA if the hints cannot be met, -FI_ENOMEM. The caller frees the
// result with fi_freeinfo().
int get_info(uint32_t version, const char* node, const char* service, uint64_t flags, const struct fi_info* hints,
             struct fi_info** info);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_INFO_H_
