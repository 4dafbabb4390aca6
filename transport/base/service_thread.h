// Threads of Lanyard's own inside somebody else's process.
#ifndef LANYARD_TRANSPORT_BASE_SERVICE_THREAD_H_
#define LANYARD_TRANSPORT_BASE_SERVICE_THREAD_H_

#include <functional>
#include <thread>

#include "transport/base/status.h"

namespace lanyard {

// Starts a thread that runs `body`, which must not throw. It is called `name` in debuggers (at most 15 characters) and
// takes none of the application's signals, which are for the application's threads; those that a fault raises stay, as
// a handler may want to report it. kExhausted where the system gives no thread.
Result<std::thread> start_service_thread(const char* name, std::function<void()> body);

}  // namespace lanyard

#endif  // LANYARD_TRANSPORT_BASE_SERVICE_THREAD_H_
