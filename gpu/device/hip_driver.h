// HipDriver: Driver over HIP's run-time library. A context is a device.
//
// What differs from CUDA: no batches of memory operations (one by one, in order); waits by memory operation are
// documented for memory of hipMallocSignalMemory only, which the words of Lanyard's are not, so there are none and
// waits are kernels; the numbers of attributes and memory types change with the major version (HipEntries::load).
#ifndef LANYARD_GPU_DEVICE_HIP_DRIVER_H_
#define LANYARD_GPU_DEVICE_HIP_DRIVER_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gpu/device/driver.h"
#include "gpu/device/hip_entries.h"

namespace lanyard::gpu {

class HipDriver final : public Driver {
 public:
  // kUnsupported: no library, or no device.
  static Result<std::unique_ptr<Driver>> open();

  const char* kind() const override { return "hip"; }
  int device_count() const override { return devices_; }
  Result<DeviceFacts> facts(int device) override;
  Result<ContextHandle> context_of_device(int device) override;
  Result<ContextHandle> context_of_stream(StreamHandle stream) override;
  Result<int> device_of_context(ContextHandle context) override;
  int current_device() override;
  Result<Place> enter(ContextHandle context) override;
  void leave(const Place& place) override;
  Status reach_device(int device) override;
  Result<bool> adds_indivisibly(int device) override;

  Result<StreamHandle> make_stream() override;
  void destroy_stream(StreamHandle stream) override;
  Result<bool> is_empty(StreamHandle stream) override;
  Result<uint64_t> capture_of(StreamHandle stream) override;
  Status follow_capture(StreamHandle stream, std::shared_ptr<std::atomic<bool>> gone) override;

  Status run_memory_ops(StreamHandle stream, std::span<const MemoryOp> ops) override;
  Result<KernelHandle> load_kernel(const char* name) override;
  Status launch(StreamHandle stream, KernelHandle kernel, uint32_t blocks, uint32_t threads,
                std::span<const std::byte> argument, Order order) override;
  Status copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, uint64_t bytes) override;

  Status register_host(void* memory, uint64_t bytes, Pages pages) override;
  void unregister_host(void* memory) override;
  Result<void*> allocate_host(uint64_t bytes) override;
  void free_host(void* memory) override;
  Result<DeviceAddress> allocate(uint64_t bytes) override;
  void free(DeviceAddress memory) override;
  Result<PointerFacts> facts_of(const void* address) override;

  Result<IpcHandle> lend(DeviceAddress base) override;
  Result<DeviceAddress> borrow(const IpcHandle& handle) override;
  void give_back(DeviceAddress base) override;

 private:
  HipDriver(const HipEntries& hip, int devices) : hip_(hip), devices_(devices) {}
  Result<hipModule_t> module_of_current();

  const HipEntries hip_;
  const int devices_;
  std::mutex mutex_;                                  // guards modules_
  std::vector<std::pair<int, hipModule_t>> modules_;  // by device
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_HIP_DRIVER_H_
