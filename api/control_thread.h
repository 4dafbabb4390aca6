// ControlThread: takes in what other processes say (matching, questions) while the program is elsewhere, and looks
// after calls that wait for long. It never calls MPI, so that every thread level of MPI_Init_thread will do.
#ifndef LANYARD_API_CONTROL_THREAD_H_
#define LANYARD_API_CONTROL_THREAD_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "api/context_lock.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::api {

class Context;

class ControlThread {
 public:
  explicit ControlThread(Context& context) : context_(context) {}
  ~ControlThread() { stop(); }
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  // Requires the context's control plane. kExhausted: no thread.
  Status start();
  // May be repeated.
  void stop() LANYARD_EXCLUDES(context_locked);
  // Between attend() and leave() the calling thread calls the plane's progress() in a loop, so that no message need
  // wake this one. Nests and counts.
  void attend() { attendants_.fetch_add(1); }
  void leave() LANYARD_EXCLUDES(context_locked);
  // The thread looks for something to do, soon. Any thread.
  void wake();
  // For the NIC, which calls it when a message has arrived. The thread is started first.
  nic::Listener listener();

 private:
  // How long it sleeps where it must look again by itself, and else. Asleep it takes no part in anything.
  static constexpr std::chrono::milliseconds kLookAgain{1};
  static constexpr std::chrono::milliseconds kWatch{200};

  void run();
  // Writes of what is to be said on stderr as much as there is room for: whoever reads it may be slow, or gone.
  void speak();

  Context& context_;
  std::thread thread_;
  std::atomic<uint32_t> signal_{0};  // a futex: 1 where there is something to do
  std::atomic<uint32_t> attendants_{0};
  std::atomic<bool> stopping_{false};
  bool called_ = false;  // the NIC calls
  std::string unsaid_;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_CONTROL_THREAD_H_
