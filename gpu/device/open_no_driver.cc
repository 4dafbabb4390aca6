#include "gpu/device/driver.h"

namespace lanyard::gpu {

Result<std::unique_ptr<Driver>> open_driver() {
  return Status(Code::kUnsupported, "this build has no CUDA and no HIP: build with --config=cuda or --config=hip");
}

}  // namespace lanyard::gpu
