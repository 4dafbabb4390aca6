#include "gpu/device/cuda_driver.h"
#include "gpu/device/open_driver.h"

namespace lanyard::gpu {

Result<std::unique_ptr<Driver>> open_driver() { return CudaDriver::open(); }

}  // namespace lanyard::gpu
