// Backend: the streams and the memory of this process's GPUs, for api/.
#ifndef LANYARD_GPU_DEVICE_BACKEND_H_
#define LANYARD_GPU_DEVICE_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/device/driver.h"
#include "gpu/device/device_lanes.h"
#include "gpu/device/gpu_memory.h"
#include "gpu/packing.h"
#include "gpu/stream.h"
#include "transport/base/device_memory.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// Any thread may use it at any time. It must outlive its streams, the graphs captured on them, and
// all uses of its memory.
class Backend {
 public:
  // Over any driver. kUnsupported: the host does not identify this process (ProcessName).
  static Result<std::unique_ptr<Backend>> make(std::unique_ptr<Driver> driver, const DeviceOptions& options);

  const char* kind() const { return driver_->kind(); }  // "cuda", "hip"

  // One line for people per device.
  std::vector<std::string> describe_devices();
  // One line per pair of devices, a device with itself included: whether lanes (gpu/lane.h) may
  // connect them.
  std::vector<std::string> describe_lanes();

  // A stream over the program's CUstream (cudaStream_t) or hipStream_t, which must outlive it. The
  // first stream of a device loads the kernels, which may wait for the device's work.
  // kInvalidArgument: not a stream, as far as the driver can tell. kUnsupported: this build has no
  // code for the device. kExhausted: too many streams on the device, or no memory.
  Result<std::unique_ptr<Stream>> make_stream(void* handle);

  DeviceMemory& memory() { return memory_; }

  // A packing of device memory, with packed memory on the same device. Memory that it gives back is
  // kept for reuse until the end, since freeing it would wait for the device. May wait for the
  // device, not for its streams. The backend must outlive it. kExhausted. kUnsupported: more than
  // kMostLoops loops.
  static constexpr size_t kMostLoops = size_t{1} << 16;
  Result<std::shared_ptr<Packing>> make_packing(std::shared_ptr<const Layout> layout, void* memory, int device);

  // A packing that combines parts on the device into `memory`; else the same. Parts without an
  // address are contributions of other processes. They get places `stride` bytes apart in memory
  // that the packing owns. kExhausted. kUnsupported: the device does not support the elements.
  Result<std::shared_ptr<Packing>> make_combining(Combination combination, uint64_t stride, void* memory, int device);

  Lanes& lanes() { return lanes_; }

  // Call this before freeing host memory in which streams have had words (HostPages::forget()).
  void forget_words() { pages_.forget(); }

 private:
  Backend(std::unique_ptr<Driver> driver, const ProcessName& self, const DeviceOptions& options);

  const std::unique_ptr<Driver> driver_;
  Devices devices_;
  HostPages pages_;
  GpuMemory memory_;
  DeviceLanes lanes_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_BACKEND_H_
