// CopyServer: short copies by a kernel that stays for a while, waiting for more.
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
#ifndef LANYARD_GPU_DEVICE_COPY_SERVER_H_
#define LANYARD_GPU_DEVICE_COPY_SERVER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "gpu/device/device.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

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

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_COPY_SERVER_H_
