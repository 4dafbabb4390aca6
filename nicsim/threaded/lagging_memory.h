// An injected fault for tests and for tools that check received data: a device whose data
// arrives later than it says.
//
// A copy into device memory reports its end once the source has been read; its bytes appear some
// time later. So the simulated NIC counts a message and sets its flag while a kernel still reads
// the old bytes. Everything else works as in the memory underneath.
#ifndef LANYARD_NICSIM_THREADED_LAGGING_MEMORY_H_
#define LANYARD_NICSIM_THREADED_LAGGING_MEMORY_H_

#include <chrono>
#include <memory>

#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

// `memory` must outlive the result. Memory that has been copied to must live for `lag` after
// has_ended() returned true. kExhausted if the system cannot start a thread.
Result<std::unique_ptr<DeviceMemory>> make_lagging_memory(DeviceMemory& memory, std::chrono::microseconds lag);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_LAGGING_MEMORY_H_
