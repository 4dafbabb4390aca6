#include "transport/base/service_thread.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>

namespace lanyard {

namespace {

// The calling thread, and the threads that it starts, take no signals but those of faults.
class DeafToSignals {
 public:
  DeafToSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&blocked, fault);
    pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
  }
  ~DeafToSignals() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  DeafToSignals(const DeafToSignals&) = delete;
  DeafToSignals& operator=(const DeafToSignals&) = delete;

 private:
  sigset_t previous_;
};

}  // namespace

Result<std::thread> start_service_thread(const char* name, std::function<void()> body) {
  const DeafToSignals deaf;
  try {
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::system_error& error) {
    return Status(Code::kExhausted, std::string("no thread for ") + name + ": " + error.what());
  }
}

}  // namespace lanyard
