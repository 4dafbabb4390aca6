#include "gpu/device/backend.h"
#include "gpu/device/open_driver.h"

namespace lanyard::gpu {

Result<std::unique_ptr<Backend>> open_backend(const DeviceOptions& options) {
  Result<std::unique_ptr<Driver>> driver = open_driver();
  if (!driver.ok())
    return driver.status();
  return Backend::make(std::move(driver.value()), options);
}

}  // namespace lanyard::gpu
