// A device whose data comes later than it says: a fault to be found, by tests and by whoever checks what a job
// receives.
//
// A copy into device memory is said to have ended once its source has been read; the bytes appear in the device's
// memory some time afterwards. So the simulated card counts a message, and sets its flag, while a kernel still finds
// the old bytes there. Everything else is as in the device memory underneath.
#ifndef LANYARD_NICSIM_THREADED_LAGGING_MEMORY_H_
#define LANYARD_NICSIM_THREADED_LAGGING_MEMORY_H_

#include <chrono>
#include <memory>

#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

// `memory` outlives it; memory that has been copied to must live for `lag` longer than the copy said. kFailed where the
// system has no thread.
Result<std::unique_ptr<DeviceMemory>> make_lagging_memory(DeviceMemory& memory, std::chrono::microseconds lag);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_LAGGING_MEMORY_H_
