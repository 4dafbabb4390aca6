#include "gpu/device/hip_driver.h"
#include "gpu/device/open_driver.h"

namespace lanyard::gpu {

Result<std::unique_ptr<Driver>> open_driver() { return HipDriver::open(); }

}  // namespace lanyard::gpu
