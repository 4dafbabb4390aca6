// CudaDriver: Driver over CUDA's driver interface (no runtime library), as of CUDA 12.
#ifndef LANYARD_GPU_DEVICE_CUDA_DRIVER_H_
#define LANYARD_GPU_DEVICE_CUDA_DRIVER_H_

#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device/cuda_entries.h"
#include "gpu/device/driver.h"

namespace lanyard::gpu {

class CudaDriver final : public Driver {
 public:
  // kUnsupported: no driver, or no device.
  static Result<std::unique_ptr<Driver>> open();
  ~CudaDriver() override;

  const char* kind() const override { return "cuda"; }
  int device_count() const override { return static_cast<int>(contexts_.size()); }
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
  CudaDriver(const CudaEntries& cuda, int devices) : cuda_(cuda), contexts_(devices), flush_(devices) {}
  Result<int> attribute(int device, CUdevice_attribute which) const;
  Result<CUmodule> module_of_current();

  const CudaEntries cuda_;
  bool begins_early_ = false;        // all devices begin kernels before those before have ended; set by open()
  std::mutex mutex_;                 // guards the following three
  std::vector<CUcontext> contexts_;  // a device: its primary context, once it was asked for
  std::vector<std::pair<CUcontext, CUmodule>> modules_;
  std::vector<int> flush_;  // a device: whether waits flush what other devices have written; set by open()
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_CUDA_DRIVER_H_
