// HostPages: lets devices reach ordinary host memory, page by page.
//
// Streams write and wait for words in host memory that others own. A page is registered with the
// driver, for all devices, when a device first asks for one of its words. It stays registered until
// forget() or the end.
#ifndef LANYARD_GPU_DEVICE_HOST_PAGES_H_
#define LANYARD_GPU_DEVICE_HOST_PAGES_H_

#include <cstdint>
#include <map>
#include <shared_mutex>

#include "gpu/device/device.h"
#include "gpu/device/driver.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// Any thread may use it at any time. The driver must outlive it.
class HostPages {
 public:
  struct Place {
    DeviceAddress address = 0;
    bool on_device = false;  // device memory, which the host must not touch
  };

  explicit HostPages(Driver& driver);
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  // Unregisters all pages. Requires: no device reaches them any more.
  ~HostPages();

  // The address at which the device reaches a word (8-aligned). Registers the word's page if it is
  // not registered. Requires: the device's context is current. kUnsupported: managed memory, memory
  // that the driver does not register, or memory of a device out of reach.
  Result<Place> reach(const Device& device, const uint64_t* word);

  // Unregisters all pages. Call it before memory with words is unmapped or freed. Requires: nothing
  // enqueued names a word of these pages. May wait for devices.
  void forget();

 private:
  // A page that this object has registered.
  struct Page {
    ContextHandle context;                   // where it was registered
    std::map<int, DeviceAddress> addresses;  // by the device's ordinal
  };
  uint64_t page_of(const void* address) const { return reinterpret_cast<uint64_t>(address) & ~(page_bytes_ - 1); }
  Result<Place> look_up(const Device& device, const uint64_t* word);
  Status register_page(const Device& device, uint64_t page);

  Driver& driver_;
  const uint64_t page_bytes_;
  std::shared_mutex mutex_;
  std::map<uint64_t, Page> registered_;  // by address
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_HOST_PAGES_H_
