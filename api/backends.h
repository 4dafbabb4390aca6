// The composition root: the only place that names drivers.
#ifndef LANYARD_API_BACKENDS_H_
#define LANYARD_API_BACKENDS_H_

#include <memory>

#include "api/settings.h"
#include "gpu/device/backend.h"
#include "transport/nic/nic.h"

namespace lanyard::api {

// The GPUs of this machine, as the build and the settings have them. kUnsupported: none; the message says why.
Result<std::unique_ptr<gpu::Backend>> open_gpus(const Settings& settings);

// The memory of the GPUs as the NIC sees it, with the fault that the settings ask for: null for that of the GPUs
// itself.
Result<std::unique_ptr<DeviceMemory>> faulty_memory(const Settings& settings, DeviceMemory& memory);

// The NIC that the settings ask for, without peers yet. `memory` (may be null) outlives it. kUnsupported,
// or whatever kept the device from opening.
Result<std::unique_ptr<nic::Nic>> open_nic(const Settings& settings, DeviceMemory* memory);

}  // namespace lanyard::api

#endif  // LANYARD_API_BACKENDS_H_
