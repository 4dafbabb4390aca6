// The composition root: the only file of the API that names drivers.
#ifndef LANYARD_API_BACKENDS_H_
#define LANYARD_API_BACKENDS_H_

#include <memory>

#include "api/settings.h"
#include "gpu/device/backend.h"
#include "transport/nic/nic.h"

namespace lanyard::api {

// Opens the GPUs of this machine that the build and the settings allow. kUnsupported: there are
// none; the message says why.
Result<std::unique_ptr<gpu::Backend>> open_gpus(const Settings& settings);

// Wraps the GPUs' memory with the fault that the settings ask for, for tests. Null: no fault.
Result<std::unique_ptr<DeviceMemory>> faulty_memory(const Settings& settings, DeviceMemory& memory);

// Opens the NIC that the settings ask for, without peers. `memory` may be null, and outlives it.
// kUnsupported, or the error of the device that cannot be opened.
Result<std::unique_ptr<nic::Nic>> open_nic(const Settings& settings, DeviceMemory* memory);

}  // namespace lanyard::api

#endif  // LANYARD_API_BACKENDS_H_
