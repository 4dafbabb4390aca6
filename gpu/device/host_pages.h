// HostPages: ordinary host memory as devices reach it, page by page.
//
// The words that streams ring and wait for are host memory of whoever made them. A page is registered with the driver
// when a device first asks for a word of it, for all devices, and stays so until forget() or the end.
#ifndef LANYARD_GPU_DEVICE_HOST_PAGES_H_
#define LANYARD_GPU_DEVICE_HOST_PAGES_H_

#include <cstdint>
#include <map>
#include <shared_mutex>

#include "gpu/device/device.h"
#include "gpu/device/driver.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// Any thread at any time. The driver outlives it.
class HostPages {
 public:
  struct Place {
    DeviceAddress address = 0;
    bool on_device = false;  // device memory, which the host may not touch
  };

  explicit HostPages(Driver& driver);
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  // Unregisters all. Requires: no device reaches them any more.
  ~HostPages();

  // Where the device, whose context is current, reaches a word (8-aligned). Registers its page if nobody has.
  // kUnsupported: managed memory, memory that the driver does not take, or of a device that this one cannot reach.
  Result<Place> reach(const Device& device, const uint64_t* word);

  // To be called before host memory that words were in is unmapped or freed: its pages are unregistered. Requires:
  // nothing that was enqueued names a word of the pages. May wait for the devices.
  void forget(const void* memory, uint64_t bytes);
  void forget_all();

 private:
  // A page that was registered here.
  struct Page {
    ContextHandle context;                   // in which
    std::map<int, DeviceAddress> addresses;  // by the device's ordinal
  };
  uint64_t page_of(const void* address) const { return reinterpret_cast<uint64_t>(address) & ~(page_bytes_ - 1); }
  Result<Place> look_up(const Device& device, const uint64_t* word);
  Status register_page(const Device& device, uint64_t page);
  void unregister(uint64_t page, ContextHandle context);

  Driver& driver_;
  const uint64_t page_bytes_;
  std::shared_mutex mutex_;
  std::map<uint64_t, Page> registered_;  // by address
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_HOST_PAGES_H_
