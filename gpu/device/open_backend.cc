#include "gpu/device/backend.h"
#include "gpu/device/driver.h"

namespace lanyard::gpu {

Result<std::unique_ptr<Backend>> open_backend(const DeviceOptions& options) {
  LANYARD_ASSIGN_OR_RETURN(std::unique_ptr<Driver> driver, open_driver());
  return Backend::make(std::move(driver), options);
}

}  // namespace lanyard::gpu
