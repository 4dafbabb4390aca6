// CopyQueue: copies that a device makes for the host, on streams of Lanyard's own.
//
// Its streams have the highest priority and no order with other streams, so copies go on while the
// program's streams wait. The length of a copy decides how it is made:
//  - short: by a kernel that stays for a while (CopyServer). It needs the device to itself: kernels
//    of processes that share a device take turns of milliseconds.
//  - longer: by a kernel each. It starts sooner than a copy engine and, between devices,
//    is as fast.
//  - very long, from or to the host: by a copy engine, which occupies no multiprocessors.
// A word of host memory holds the number of copies that have ended, so checking costs no
// driver call.
#ifndef LANYARD_GPU_DEVICE_COPY_QUEUE_H_
#define LANYARD_GPU_DEVICE_COPY_QUEUE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device/device.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// Short copies, by a kernel that stays for a while and waits for more.
//
// A launch takes several times as long as a short copy. So the kernel `serve` reads commands from a
// ring in host memory and makes up to ServeArguments::kAtOnce at a time. It ends if none has come
// for the linger time, and always after some tens of milliseconds: synchronising the device takes
// no longer, and no display watchdog fires. It occupies one block, a part of one multiprocessor.
//
// A kernel is not sure to see memory allocated or mapped after its launch: call renew() before
// the first copy of such memory.
//
// The host writes commands without knowing whether the kernel still runs. The kernel records
// that it has ended. CopyQueue::has_ended() sees this for an unfinished copy and launches the
// kernel again.
//
// One caller at a time, but any thread may call ended() and has_stopped(). The device must
// outlive it.
class CopyServer {
 public:
  // One place is for the command to end.
  static constexpr uint64_t kMostUnderWay = CopyCommands::kCommands - 1;

  // Requires: the device's context is current.
  static Result<std::unique_ptr<CopyServer>> make(Device& device, std::chrono::nanoseconds linger);
  CopyServer(const CopyServer&) = delete;
  CopyServer& operator=(const CopyServer&) = delete;
  // Requires: no copy is in flight, or the device is lost. Waits until the kernel has ended, at
  // most 1 s.
  ~CopyServer();

  // Starts a copy and returns its number. Requires: bytes > 0 and fewer than kMostUnderWay in
  // flight. A failure is permanent.
  Result<uint64_t> start(DeviceAddress to, DeviceAddress from, uint64_t bytes);
  // Copies started from now on run in a later launch.
  void renew();
  // Launches the kernel if it has stopped and copies are left.
  Status go_on();

  uint64_t started() const { return started_; }
  uint64_t ended() const { return std::atomic_ref(*words_.first).load(std::memory_order_acquire); }
  // Whether no kernel runs, so that copies may be left undone.
  bool has_stopped() const { return left() == launches_.load(std::memory_order_relaxed); }
  StreamHandle stream() const { return stream_; }

 private:
  CopyServer(Device& device, std::chrono::nanoseconds linger) : device_(device), linger_(linger) {}
  void write(DeviceAddress to, DeviceAddress from, uint64_t bytes);
  uint64_t left() const { return std::atomic_ref(*words_.second).load(std::memory_order_acquire); }

  Device& device_;
  const std::chrono::nanoseconds linger_;
  WordPair words_;  // copies that have ended; launches that have ended
  CommandRing ring_;
  StreamHandle stream_ = nullptr;
  uint64_t started_ = 0;
  uint64_t renewed_at_ = 0;  // started_ after the last command to end
  std::atomic<uint64_t> launches_{0};
};

// Any thread may use it at any time. The device must outlive it.
class CopyQueue {
 public:
  static constexpr uint64_t kMostUnderWay = 512;
  static constexpr uint64_t kShortestForEngine = uint64_t{8} << 20;

  static constexpr uint64_t kLongestServed = uint64_t{64} << 10;

  // `linger`: how long the kernel for short copies waits for more; 0: no such kernel.
  static Result<std::unique_ptr<CopyQueue>> make(Device& device, std::chrono::nanoseconds linger);
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;
  // Requires: no copy is in flight, or the device is lost.
  ~CopyQueue();

  // Makes memory of another device of this process reachable. kUnsupported: no path between them.
  Status reach(int device);

  // Call this before the first copy of memory that was allocated or mapped since the
  // queue was made.
  void renew();

  // Starts a copy of bytes > 0 and returns its number, never 0. `with_host`: one side is
  // host memory. Copies may end in any order. kAgain: too many are in flight. kFailed: the
  // device is lost.
  Result<uint64_t> start(DeviceAddress to, DeviceAddress from, uint64_t bytes, bool with_host);
  // Whether the copy has ended. kFailed: it never will.
  Result<bool> has_ended(uint64_t number);

 private:
  CopyQueue(Device& device, const WordPair& words) : device_(device), words_(words) {}
  Status go_on();
  Status launch(DeviceAddress to, DeviceAddress from, uint64_t bytes);
  Status copy_by_engine(DeviceAddress to, DeviceAddress from, uint64_t bytes);
  uint64_t ended() const { return std::atomic_ref(*words_.first).load(std::memory_order_acquire); }
  Status ask_driver();

  Device& device_;
  const WordPair words_;                // the number of the last copy that has ended; unused
  std::unique_ptr<CopyServer> server_;  // null if linger is 0
  std::atomic<uint32_t> unmet_{0};

  std::mutex mutex_;  // guards the rest
  StreamHandle stream_ = nullptr;
  uint64_t* arrivals_ = nullptr;  // a word of device memory
  uint64_t started_ = 0;
  Status failure_;
  std::vector<bool> reached_;  // by device
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_COPY_QUEUE_H_
