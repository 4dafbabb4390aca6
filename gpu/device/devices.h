// Devices: the devices of one driver, opened when they are first asked for.
#ifndef LANYARD_GPU_DEVICE_DEVICES_H_
#define LANYARD_GPU_DEVICE_DEVICES_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/device/driver.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// How a process uses its devices.
struct DeviceOptions {
  Sharing sharing = Sharing::kAlone;
  std::chrono::nanoseconds copy_linger{0};  // of CopyQueue::make()
  bool only_met_waits = false;              // of DeviceStream::Options
  bool foreign_writes = false;              // the same
};

// Any thread at any time. The driver outlives it. The devices live as long as it does; opening one blocks as
// Device::open() does.
class Devices {
 public:
  Devices(Driver& driver, const DeviceOptions& options) : driver_(driver), options_(options) {}

  Result<Device*> of_context(ContextHandle context) {
    const std::lock_guard lock(mutex_);
    for (const std::unique_ptr<Device>& device : devices_)
      if (device->context() == context)
        return device.get();
    Result<std::unique_ptr<Device>> device = Device::open(driver_, context, options_.sharing);
    if (!device.ok())
      return device.status();
    return devices_.emplace_back(std::move(device.value())).get();
  }

  // In the context that the vendor's run-time library uses.
  Result<Device*> of_ordinal(int ordinal) {
    const Result<ContextHandle> context = driver_.context_of_device(ordinal);
    if (!context.ok())
      return context.status();
    return of_context(context.value());
  }

  Driver& driver() { return driver_; }
  const DeviceOptions& options() const { return options_; }

 private:
  Driver& driver_;
  const DeviceOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DEVICES_H_
