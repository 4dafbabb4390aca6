// Threads that Lanyard starts inside the application's process.
#ifndef LANYARD_TRANSPORT_BASE_SERVICE_THREAD_H_
#define LANYARD_TRANSPORT_BASE_SERVICE_THREAD_H_

#include <functional>
#include <thread>

#include "transport/base/status.h"

namespace lanyard {

// Starts a thread that runs `body`, which must not throw. Debuggers show it as `name` (at most 15
// characters). It blocks all signals except those that a fault raises, so the application's signals
// go to the application's threads. kExhausted if the system cannot start a thread.
Result<std::thread> start_service_thread(const char* name, std::function<void()> body);

}  // namespace lanyard

#endif  // LANYARD_TRANSPORT_BASE_SERVICE_THREAD_H_
