// VendorDriver: Driver over CUDA's driver interface as of CUDA 12 (no run-time library), or over
// HIP's run-time library. A build has one of them. vendor_driver.cc is for both; cuda_driver.cc and
// hip_driver.cc have the differences.
#ifndef LANYARD_GPU_DEVICE_VENDOR_DRIVER_H_
#define LANYARD_GPU_DEVICE_VENDOR_DRIVER_H_

#ifdef __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#else
#include <cuda.h>
#include <cudaTypedefs.h>
#endif

#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/device/driver.h"
#include "gpu/device/driver_error.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// Functions of both: X(our name, CUDA's, the version of its interface, HIP's).
#define LANYARD_SHARED_ENTRIES(X)                                                               \
  X(count_devices, cuDeviceGetCount, 2000, hipGetDeviceCount)                                   \
  X(name, cuDeviceGetName, 2000, hipDeviceGetName)                                              \
  X(uuid, cuDeviceGetUuid, 11040, hipDeviceGetUuid)                                             \
  X(attribute, cuDeviceGetAttribute, 2000, hipDeviceGetAttribute)                               \
  X(can_reach, cuDeviceCanAccessPeer, 4000, hipDeviceCanAccessPeer)                             \
  X(link_attribute, cuDeviceGetP2PAttribute, 8000, hipDeviceGetP2PAttribute)                    \
  X(reach, cuCtxEnablePeerAccess, 4000, hipDeviceEnablePeerAccess)                              \
  X(context, cuCtxGetCurrent, 4000, hipGetDevice)                                               \
  X(set_context, cuCtxSetCurrent, 4000, hipSetDevice)                                           \
  X(device, cuCtxGetDevice, 2000, hipGetDevice)                                                 \
  X(priorities, cuCtxGetStreamPriorityRange, 5050, hipDeviceGetStreamPriorityRange)             \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, 10010, hipThreadExchangeStreamCaptureMode) \
  X(make_stream, cuStreamCreateWithPriority, 5050, hipStreamCreateWithPriority)                 \
  X(destroy_stream, cuStreamDestroy, 4000, hipStreamDestroy)                                    \
  X(query_stream, cuStreamQuery, 2000, hipStreamQuery)                                          \
  X(capture, cuStreamGetCaptureInfo, 10010, hipStreamGetCaptureInfo)                            \
  X(load_module, cuModuleLoadData, 2000, hipModuleLoadData)                                     \
  X(find_kernel, cuModuleGetFunction, 2000, hipModuleGetFunction)                               \
  X(register_host, cuMemHostRegister, 6050, hipHostRegister)                                    \
  X(unregister_host, cuMemHostUnregister, 4000, hipHostUnregister)                              \
  X(free_host, cuMemFreeHost, 2000, hipHostFree)                                                \
  X(free, cuMemFree, 3020, hipFree)                                                             \
  X(lend, cuIpcGetMemHandle, 4010, hipIpcGetMemHandle)                                          \
  X(borrow, cuIpcOpenMemHandle, 11000, hipIpcOpenMemHandle)                                     \
  X(give_back, cuIpcCloseMemHandle, 4010, hipIpcCloseMemHandle)

#ifdef __HIP_PLATFORM_AMD__
#define LANYARD_VENDORS(cuda, hip) hip

// More functions of HIP: X(our name, HIP's, its type). The header overloads two of them for C++.
#define LANYARD_VENDOR_ENTRIES(X)                                                  \
  X(allocate, hipMalloc, hipError_t (*)(void** memory, size_t bytes))              \
  X(allocate_host, hipHostMalloc, hipError_t (*)(void** memory, size_t, unsigned)) \
  X(error_name, hipGetErrorName, decltype(&::hipGetErrorName))                     \
  X(error_text, hipGetErrorString, decltype(&::hipGetErrorString))                 \
  X(version, hipRuntimeGetVersion, decltype(&::hipRuntimeGetVersion))              \
  X(bus, hipDeviceGetPCIBusId, decltype(&::hipDeviceGetPCIBusId))                  \
  X(device_of_stream, hipGetStreamDeviceId, decltype(&::hipGetStreamDeviceId))     \
  X(launch, hipModuleLaunchKernel, decltype(&::hipModuleLaunchKernel))             \
  X(copy, hipMemcpyAsync, decltype(&::hipMemcpyAsync))                             \
  X(pointer_facts, hipPointerGetAttributes, decltype(&::hipPointerGetAttributes))  \
  X(allocation, hipMemGetAddressRange, decltype(&::hipMemGetAddressRange))

#else
#define LANYARD_VENDORS(cuda, hip) cuda

// More functions of CUDA: X(our name, CUDA's, the version of its interface).
#define LANYARD_VENDOR_ENTRIES(X)                      \
  X(allocate, cuMemAlloc, 3020)                        \
  X(allocate_host, cuMemHostAlloc, 2020)               \
  X(error_name, cuGetErrorName, 6000)                  \
  X(error_text, cuGetErrorString, 6000)                \
  X(init, cuInit, 2000)                                \
  X(version, cuDriverGetVersion, 2020)                 \
  X(retain_context, cuDevicePrimaryCtxRetain, 7000)    \
  X(release_context, cuDevicePrimaryCtxRelease, 11000) \
  X(context_of_stream, cuStreamGetCtx, 9020)           \
  X(memory_ops, cuStreamBatchMemOp, 11070)             \
  X(launch, cuLaunchKernelEx, 11060)                   \
  X(copy, cuMemcpyAsync, 4000)                         \
  X(pointer_facts, cuPointerGetAttributes, 7000)

#endif

namespace vendor {

using Error = LANYARD_VENDORS(CUresult, hipError_t);
using Context = LANYARD_VENDORS(CUcontext, int);  // with HIP a device
using Stream = LANYARD_VENDORS(CUstream, hipStream_t);
using Module = LANYARD_VENDORS(CUmodule, hipModule_t);
using Kernel = LANYARD_VENDORS(CUfunction, hipFunction_t);
using Pointer = LANYARD_VENDORS(CUdeviceptr, void*);
using Uuid = LANYARD_VENDORS(CUuuid, hipUUID);
using LentHandle = LANYARD_VENDORS(CUipcMemHandle, hipIpcMemHandle_t);
using CaptureMode = LANYARD_VENDORS(CUstreamCaptureMode, hipStreamCaptureMode);
using CaptureStatus = LANYARD_VENDORS(CUstreamCaptureStatus, hipStreamCaptureStatus);
using CaptureId = LANYARD_VENDORS(cuuint64_t, unsigned long long);

inline constexpr char kKind[] = LANYARD_VENDORS("cuda", "hip");
inline constexpr char kNoDevice[] =
    LANYARD_VENDORS("this machine has no NVIDIA device, or CUDA_VISIBLE_DEVICES hides them all",
                    "this machine has no device for HIP, or HIP_VISIBLE_DEVICES hides them all");
inline constexpr char kNotLent[] =
    LANYARD_VENDORS("memory of cudaMallocAsync or cuMemCreate cannot be lent to other processes: use cudaMalloc",
                    "memory of hipMallocAsync cannot be lent to other processes: use hipMalloc");
inline constexpr auto kMultiprocessors =
    LANYARD_VENDORS(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, hipDeviceAttributeMultiprocessorCount);
inline constexpr auto kAtomics =
    LANYARD_VENDORS(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, hipDevP2PAttrNativeAtomicSupported);
inline constexpr auto kRelaxed = LANYARD_VENDORS(CU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed);
inline constexpr auto kNotCaptured = LANYARD_VENDORS(CU_STREAM_CAPTURE_STATUS_NONE, hipStreamCaptureStatusNone);
inline constexpr auto kInvalidated =
    LANYARD_VENDORS(CU_STREAM_CAPTURE_STATUS_INVALIDATED, hipStreamCaptureStatusInvalidated);
inline constexpr unsigned kNotOrdered = LANYARD_VENDORS(CU_STREAM_NON_BLOCKING, hipStreamNonBlocking);
inline constexpr unsigned kRegister = LANYARD_VENDORS(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP,
                                                      hipHostRegisterPortable | hipHostRegisterMapped);
// HIP's is coherent: running kernels and the host see each other's writes.
inline constexpr unsigned kAllocate =
    LANYARD_VENDORS(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP,
                    hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent);
inline constexpr unsigned kBorrow = LANYARD_VENDORS(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, hipIpcMemLazyEnablePeerAccess);

inline Pointer pointer_to(DeviceAddress address) {
  return LANYARD_VENDORS(static_cast, reinterpret_cast)<Pointer>(address);
}
inline DeviceAddress address_of(Pointer pointer) {
  return LANYARD_VENDORS(static_cast, reinterpret_cast)<DeviceAddress>(pointer);
}
// With HIP a handle is the device's number + 1, so that none is null.
inline Context context_of(ContextHandle handle) {
  return LANYARD_VENDORS(static_cast<Context>(handle), static_cast<int>(reinterpret_cast<intptr_t>(handle)) - 1);
}
inline ContextHandle handle_of(Context context) {
  return LANYARD_VENDORS(context, reinterpret_cast<ContextHandle>(static_cast<intptr_t>(context) + 1));
}
inline bool is_default(StreamHandle stream) {
  return stream == nullptr ||
         LANYARD_VENDORS(stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD, stream == hipStreamPerThread);
}

}  // namespace vendor

template <typename Function>
struct Entry {
  const char* name;  // the vendor's
  int version;       // CUDA's
  Function call = nullptr;
};

// All entries are set. The library stays loaded until the process ends.
struct Entries {
#ifdef __HIP_PLATFORM_AMD__
#define LANYARD_ENTRY(ours, cuda, version, hip) Entry<decltype(&::hip)> ours{#hip, 0};
  LANYARD_SHARED_ENTRIES(LANYARD_ENTRY)
#undef LANYARD_ENTRY
#define LANYARD_ENTRY(ours, hip, type) Entry<std::type_identity_t<type>> ours{#hip, 0};
#else
#define LANYARD_ENTRY(ours, cuda, version, ...) Entry<PFN_##cuda##_v##version> ours{#cuda, version};
  LANYARD_SHARED_ENTRIES(LANYARD_ENTRY)
#endif
  LANYARD_VENDOR_ENTRIES(LANYARD_ENTRY)
#undef LANYARD_ENTRY

  // kUnsupported: no library, or another version than this build needs.
  static Result<Entries> load();

  // The Status for a result of `call`.
  Status status(vendor::Error result, const char* call) const;
  template <typename Function, typename... Arguments>
  Status run(const Entry<Function>& entry, Arguments... arguments) const {
    return status(entry.call(arguments...), entry.name);
  }

 private:
  // Sets each entry to find(name, version), a void*. Returns the name of the last entry that is
  // missing, or null.
  template <typename Find>
  const char* look_up(Find find) {
    const char* missing = nullptr;
    const auto set = [&]<typename Function>(Entry<Function>& entry) {
      entry.call = reinterpret_cast<Function>(find(entry.name, entry.version));
      if (entry.call == nullptr)
        missing = entry.name;
    };
#define LANYARD_ENTRY(ours, ...) set(ours);
    LANYARD_SHARED_ENTRIES(LANYARD_ENTRY)
    LANYARD_VENDOR_ENTRIES(LANYARD_ENTRY)
#undef LANYARD_ENTRY
    return missing;
  }
};

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
    ContextHandle context = nullptr;  // null before the first use; guarded by mutex_
    bool flushes = false;             // whether waits flush writes by others
  };

  VendorDriver(const Entries& api, int devices) : api_(api), devices_(static_cast<size_t>(devices)) {}
  Result<ContextHandle> current_context() const;  // may be null
  Result<int> current_ordinal() const;            // requires a context
  Result<vendor::Module> module_of_current();

  // ---- Different for each vendor
  Status set_up();
  Result<ContextHandle> make_context(int device);
  Result<ContextHandle> owner_of(StreamHandle stream);
  Status describe(int device, DeviceFacts& facts) const;  // beyond name, uuid and multiprocessors

  const Entries api_;
  // Every device can begin a kernel before the previous one has ended. Set by open().
  bool begins_early_ = false;
  std::vector<PerDevice> devices_;
  std::mutex mutex_;  // guards modules_ and the contexts
  std::vector<std::pair<ContextHandle, vendor::Module>> modules_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_VENDOR_DRIVER_H_
