// The driver that this build is for (--config=cuda, --config=hip, or none).
#ifndef LANYARD_GPU_DEVICE_OPEN_DRIVER_H_
#define LANYARD_GPU_DEVICE_OPEN_DRIVER_H_

#include <memory>

#include "gpu/device/driver.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// kUnsupported: the build is for neither vendor, or this machine has no such driver or device; the message says which.
Result<std::unique_ptr<Driver>> open_driver();

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_OPEN_DRIVER_H_
