// ControlThread: receives the control messages of other processes (matching, stall inquiries) while
// the program computes, and prints warnings of blocking calls. It never calls MPI, so every thread
// level of MPI_Init_thread works.
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

  // Requires the context's control plane. kExhausted: the thread cannot be created.
  Status start();
  // May be repeated.
  void stop() LANYARD_EXCLUDES(context_locked);
  // Between begin_polling() and end_polling() the calling thread calls the plane's progress() in a
  // loop, so messages do not wake the control thread. Several threads may do so at once.
  void begin_polling() { polling_threads_.fetch_add(1); }
  void end_polling() LANYARD_EXCLUDES(context_locked);
  // Wakes the control thread. Any thread.
  void wake();

 private:
  // How long it sleeps: if it must poll, and otherwise.
  static constexpr std::chrono::milliseconds kPoll{1};
  static constexpr std::chrono::milliseconds kWatch{200};

  void run();
  // Writes to stderr without blocking: its reader may be slow or gone. Keeps the rest for later.
  void print();

  Context& context_;
  std::thread thread_;
  std::atomic<uint32_t> signal_{0};  // a futex; 1: there is something to do
  std::atomic<uint32_t> polling_threads_{0};
  std::atomic<bool> stopping_{false};
  bool listens_ = false;  // the NIC calls the listener
  std::string unprinted_;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_CONTROL_THREAD_H_
