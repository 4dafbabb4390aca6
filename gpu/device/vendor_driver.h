// VendorDriver: Driver over CUDA's driver interface (no run-time library) as of CUDA 12, or over HIP's run-time
// library. A build has one of them. vendor_driver.cc is for both, cuda_driver.cc and hip_driver.cc have what differs.
#ifndef LANYARD_GPU_DEVICE_VENDOR_DRIVER_H_
#define LANYARD_GPU_DEVICE_VENDOR_DRIVER_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gpu/device/driver.h"
#include "gpu/device/vendor.h"

namespace lanyard::gpu {

class VendorDriver final : public Driver {
 public:
  // kUnsupported: no library, or no device.
  static Result<std::unique_ptr<Driver>> open();
  ~VendorDriver() override;

  const char* kind() const override { return vendor::kKind; }
  int device_count() const override { return static_cast<int>(devices_.size()); }
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

  Status run_memory_ops(StreamHandle stream, std::span<const MemoryOp> ops) override;
  Result<KernelHandle> load_kernel(const char* name) override;
  Status launch(StreamHandle stream, KernelHandle kernel, uint32_t blocks, uint32_t threads,
                std::span<const std::byte> argument, Order order) override;
  Status copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, uint64_t bytes) override;

  Status register_host(void* memory, uint64_t bytes) override;
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
  struct PerDevice {
    ContextHandle context = nullptr;  // once it was asked for; guarded by mutex_
    bool flushes = false;             // whether waits flush what other devices have written
  };

  VendorDriver(const Entries& api, int devices) : api_(api), devices_(static_cast<size_t>(devices)) {}
  Result<ContextHandle> current_context() const;  // may be null
  Result<int> current_ordinal() const;            // requires a context
  Result<vendor::Module> module_of_current();

  // ---- What the vendors do differently
  Status set_up();
  Result<ContextHandle> make_context(int device);
  Result<ContextHandle> owner_of(StreamHandle stream);
  Status describe(int device, DeviceFacts& facts) const;  // beyond name, uuid and multiprocessors

  const Entries api_;
  bool begins_early_ = false;  // all devices begin kernels before those before have ended; set by open()
  std::vector<PerDevice> devices_;
  std::mutex mutex_;  // guards what is made once
  std::vector<std::pair<ContextHandle, vendor::Module>> modules_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_VENDOR_DRIVER_H_
