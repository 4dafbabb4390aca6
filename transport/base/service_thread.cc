#include "transport/base/service_thread.h"

#include <pthread.h>
#include <signal.h>

#include <exception>
#include <string>
#include <utility>

namespace lanyard {

Result<std::thread> start_service_thread(const char* name, std::function<void()> body) {
  // The new thread accepts only the signals that report a fault.
  sigset_t blocked, previous;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
    sigdelset(&blocked, fault);
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  std::thread thread;
  std::string why;
  try {
    thread = std::thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name);
  } catch (const std::exception& error) {
    why = error.what();
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (!thread.joinable())
    return Status(Code::kExhausted, std::string("no thread for ") + name + ": " + why);
  return thread;
}

}  // namespace lanyard
