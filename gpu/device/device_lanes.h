// DeviceLanes: Lanes between devices of one driver.
//
// What was borrowed for a lane stays mapped until unmap(): it may wait for the device, whose streams may wait for what
// the caller does next. But memory that its owner has freed and allocated anew cannot be mapped beside what was there
// before, so connect() unmaps where it must and may. An allocation is mapped once, however many lanes it serves.
#ifndef LANYARD_GPU_DEVICE_DEVICE_LANES_H_
#define LANYARD_GPU_DEVICE_DEVICE_LANES_H_

#include <cstddef>
#include <mutex>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/device/gpu_memory.h"
#include "gpu/device/host_pages.h"
#include "gpu/lane.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

class DeviceLanes final : public Lanes {
 public:
  // All outlive it, and its lanes.
  DeviceLanes(Devices& devices, HostPages& pages, DeviceMemory& memory)
      : devices_(devices), pages_(pages), memory_(memory) {}

  Result<Opened> open(bool sends, void* buffer, uint64_t bytes) override;
  Status connect(Lane& lane, const LaneOffer& other, const Terms& terms) override;
  void disconnect(Lane& lane) override;
  bool may_unmap() const override;
  void unmap() override;

  // Whether the device may carry messages to and from memory of `other`. kUnsupported: why not. Makes a context.
  Status check_way(int device, int other);

 private:
  struct OwnLane;
  Status connect_once(OwnLane& lane, const LaneOffer& other, const Terms& terms);
  void retire(std::byte* borrowed);
  // With the device's context current.
  static Status check_way(Device& device, int other);
  // Where the device reaches what another process, or this one, has lent. With its context current.
  Result<DeviceAddress> reach(OwnLane& lane, const DeviceMemory::Loan& loan);

  Devices& devices_;
  HostPages& pages_;
  DeviceMemory& memory_;
  mutable std::mutex mutex_;  // guards the following
  std::vector<std::byte*> retired_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DEVICE_LANES_H_
