#include "gpu/device/backend.h"

#include <utility>

#include "gpu/device/device_stream.h"

namespace lanyard::gpu {

Result<std::unique_ptr<Backend>> Backend::make(std::unique_ptr<Driver> driver, const DeviceOptions& options) {
  const Result<ProcessName> self = ProcessName::own();
  if (!self.ok())
    return self.status();
  return std::unique_ptr<Backend>(new Backend(std::move(driver), self.value(), options));
}

Backend::Backend(std::unique_ptr<Driver> driver, const ProcessName& self, const DeviceOptions& options)
    : driver_(std::move(driver)), devices_(*driver_, options), pages_(*driver_), memory_(devices_, self) {}

std::vector<std::string> Backend::describe_devices() {
  std::vector<std::string> lines;
  for (int device = 0; device < driver_->device_count(); ++device) {
    const Result<DeviceFacts> facts = driver_->facts(device);
    lines.push_back(!facts.ok() ? facts.status().message()
                                : facts.value().name + ", " + std::to_string(facts.value().multiprocessors) +
                                      " multiprocessors, waits by kernels" +
                                      (facts.value().awaits_words ? ", where it is shared by memory operations" : ""));
  }
  return lines;
}

Result<std::unique_ptr<Stream>> Backend::make_stream(void* handle) {
  const Result<ContextHandle> context = driver_->context_of_stream(handle);
  if (!context.ok())
    return context.status();
  const Result<Device*> device = devices_.of_context(context.value());
  if (!device.ok())
    return device.status();
  const DeviceStream::Options options{.only_met_waits = devices_.options().only_met_waits,
                                      .foreign_writes = devices_.options().foreign_writes};
  Result<std::unique_ptr<DeviceStream>> stream = DeviceStream::make(*device.value(), pages_, handle, options);
  if (!stream.ok())
    return stream.status();
  return std::unique_ptr<Stream>(std::move(stream.value()));
}

}  // namespace lanyard::gpu
