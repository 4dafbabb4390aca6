// CopyQueue: copies that a device does for the host, one after another, on a stream of Lanyard's own.
//
// Its streams have the highest priority and are not ordered with any other, so that copies go on while the program's
// streams wait. Short copies are made by a kernel that stays for a while (CopyServer), which wants the device to
// itself: where processes share one, their kernels run in turns of milliseconds. Longer ones are a kernel each, which
// starts sooner and, between devices, is as fast as a copy engine; only very long copies from and to the host are an
// engine's, whose bandwidth takes no multiprocessors away. The end of a copy is a number in a word of host memory, so
// looking for it costs no call of the driver's.
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

// Short copies, by a kernel that stays for a while, waiting for more.
//
// A launch costs several times what a short copy takes. So the kernel `serve` reads commands from a ring in host
// memory, makes up to ServeArguments::kAtOnce at a time, and ends when none has come for the linger time, or in any
// case after some tens of milliseconds: whoever synchronises the device waits no longer than that, nor does a display's
// watchdog bite. It takes one block, a part of one multiprocessor, while it is there.
//
// What was allocated or mapped after a kernel's launch is not promised to that kernel: renew() before its first copy.
//
// Nobody has to know whether the kernel still looks when a command is written: it says when it has left, and whoever
// asks for a copy that has not ended finds out and launches it again.
//
// One caller at a time, but for ended() and has_stopped(), which are for anybody. The device outlives it.
class CopyServer {
 public:
  static constexpr uint64_t kMostUnderWay = CopyCommands::kCommands - 1;  // and a command to end

  // With the device's context current.
  static Result<std::unique_ptr<CopyServer>> make(Device& device, std::chrono::nanoseconds linger);
  CopyServer(const CopyServer&) = delete;
  CopyServer& operator=(const CopyServer&) = delete;
  // Requires: no copy is under way, or the device is lost. Waits until the kernel has left, at most 1 s.
  ~CopyServer();

  // Requires: bytes > 0 and fewer than kMostUnderWay under way. The copy's number; a failure is for good.
  Result<uint64_t> start(DeviceAddress to, DeviceAddress from, uint64_t bytes);
  // Copies that are started from now on are a later launch's.
  void renew();
  // Launches the kernel where it has_stopped() and is wanted.
  Status go_on();

  uint64_t started() const { return started_; }
  uint64_t ended() const { return std::atomic_ref(*words_.first).load(std::memory_order_acquire); }
  // Whether copies may be left that no kernel makes.
  bool has_stopped() const { return left() == launches_.load(std::memory_order_relaxed); }
  StreamHandle stream() const { return stream_; }

 private:
  CopyServer(Device& device, std::chrono::nanoseconds linger) : device_(device), linger_(linger) {}
  void write(DeviceAddress to, DeviceAddress from, uint64_t bytes);
  uint64_t left() const { return std::atomic_ref(*words_.second).load(std::memory_order_acquire); }

  Device& device_;
  const std::chrono::nanoseconds linger_;
  WordPair words_;  // copies that have ended; launches that have left
  CommandRing ring_;
  StreamHandle stream_ = nullptr;
  uint64_t started_ = 0;
  uint64_t renewed_at_ = 0;  // what started_ was behind the last command to end
  std::atomic<uint64_t> launches_{0};
};

// Any thread at any time. The device outlives it.
class CopyQueue {
 public:
  static constexpr uint64_t kMostUnderWay = 512;
  static constexpr uint64_t kShortestForEngine = uint64_t{8} << 20;

  static constexpr uint64_t kLongestServed = uint64_t{64} << 10;

  // `linger`: how long the kernel for short copies waits for more; 0: there is none.
  static Result<std::unique_ptr<CopyQueue>> make(Device& device, std::chrono::nanoseconds linger);
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;
  // Requires: no copy is under way, or the device is lost.
  ~CopyQueue();

  // Makes memory of another device of this process reachable. kUnsupported: there is no path between them.
  Status reach(int device);

  // To be called before the first copy of memory that was allocated or mapped since the queue was made.
  void renew();

  // Starts a copy of bytes > 0, `with_host` where one side is the host's memory; its number, never 0. Copies may end in
  // any order. kAgain: too many are under way; kFailed: the device is lost.
  Result<uint64_t> start(DeviceAddress to, DeviceAddress from, uint64_t bytes, bool with_host);
  // kFailed: it never will.
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
  std::unique_ptr<CopyServer> server_;  // null: none wanted
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
