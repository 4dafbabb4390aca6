// DeviceLanes: Lanes between devices of one driver.
//
// Memory borrowed for a lane stays mapped until unmap(): unmapping may wait for the device, whose
// streams may wait for what the caller does next. But if the owner has freed memory and allocated
// anew, the new memory cannot be mapped beside the old. So connect() unmaps if it must and may. An
// allocation is mapped once for any number of lanes.
#ifndef LANYARD_GPU_DEVICE_DEVICE_LANES_H_
#define LANYARD_GPU_DEVICE_DEVICE_LANES_H_

#include <cstddef>
#include <mutex>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/device/gpu_memory.h"
#include "gpu/lane.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

class DeviceLanes final : public Lanes {
 public:
  // All must outlive it and its lanes.
  DeviceLanes(Devices& devices, HostPages& pages, DeviceMemory& memory)
      : devices_(devices), pages_(pages), memory_(memory) {}

  Result<Opened> open(bool sends, void* buffer, uint64_t bytes) override;
  Status connect(Lane& lane, const LaneOffer& other, const Terms& terms) override;
  void disconnect(Lane& lane) override;
  bool may_unmap() const override;
  void unmap() override;

  // Whether the device can carry messages to and from memory of `other`. kUnsupported says why not.
  // Makes a context.
  Status check_way(int device, int other);

 private:
  struct OwnLane;
  Status connect_once(OwnLane& lane, const LaneOffer& other, const Terms& terms);
  // Requires: the device's context is current.
  static Status check_way(Device& device, int other);
  // The address at which the lane's device reaches lent memory. Requires: its context is current.
  Result<DeviceAddress> reach(OwnLane& lane, const DeviceMemory::Loan& loan);

  Devices& devices_;
  HostPages& pages_;
  DeviceMemory& memory_;
  mutable std::mutex mutex_;  // guards the following
  std::vector<std::byte*> retired_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DEVICE_LANES_H_
