// VendorDriver: Driver over CUDA's driver interface as of CUDA 12 (no run-time library), or over
// HIP's run-time library. A build has one of them: cuda_driver.cc or hip_driver.cc, which has what
// differs, includes this file.
#ifndef LANYARD_GPU_DEVICE_VENDOR_DRIVER_H_
#define LANYARD_GPU_DEVICE_VENDOR_DRIVER_H_

#ifdef __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#else
#include <cuda.h>
#include <cudaTypedefs.h>
#endif

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/device/driver.h"
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

inline bool is(Error result, Fault fault) { return static_cast<int>(result) == static_cast<int>(fault); }
inline Stream native(StreamHandle stream) { return static_cast<Stream>(stream); }
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

extern const unsigned char kKernelImage[];  // the compiled kernels.cu (device_code.bzl)

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
  // For calls whose first argument is the address of their result.
  template <typename Value, typename Function, typename... Arguments>
  Result<Value> get(const Entry<Function>& entry, Arguments... arguments) const {
    Value value{};
    LANYARD_RETURN_IF_ERROR(run(entry, &value, arguments...));
    return value;
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
  static Result<std::unique_ptr<Driver>> open() {
    LANYARD_ASSIGN_OR_RETURN(const Entries api, Entries::load());
    LANYARD_ASSIGN_OR_RETURN(const int devices, api.get<int>(api.count_devices));
    if (devices == 0)
      return Status(Code::kUnsupported, vendor::kNoDevice);
    std::unique_ptr<VendorDriver> driver(new VendorDriver(api, devices));
    LANYARD_RETURN_IF_ERROR(driver->set_up());
    return std::unique_ptr<Driver>(std::move(driver));
  }
  ~VendorDriver() override;

  const char* kind() const override { return vendor::kKind; }
  int device_count() const override { return static_cast<int>(devices_.size()); }

  Result<DeviceFacts> facts(int device) override {
    DeviceFacts facts;
    vendor::Uuid uuid{};
    LANYARD_RETURN_IF_ERROR(api_.run(api_.uuid, &uuid, device));
    static_assert(sizeof uuid.bytes == sizeof facts.uuid);
    std::memcpy(facts.uuid.data(), uuid.bytes, sizeof uuid.bytes);
    char name[128] = {};
    LANYARD_RETURN_IF_ERROR(api_.run(api_.name, name, static_cast<int>(sizeof name) - 1, device));
    facts.name = name;
    LANYARD_RETURN_IF_ERROR(api_.run(api_.attribute, &facts.multiprocessors, vendor::kMultiprocessors, device));
    LANYARD_RETURN_IF_ERROR(describe(device, facts));
    return facts;
  }

  // ---- Contexts

  Result<ContextHandle> context_of_device(int device) override {
    if (device < 0 || device >= device_count())
      return Status(Code::kInvalidArgument, "there is no device " + std::to_string(device));
    const std::lock_guard lock(mutex_);
    ContextHandle& context = devices_[static_cast<size_t>(device)].context;
    if (context == nullptr) {
      LANYARD_ASSIGN_OR_RETURN(context, make_context(device));
    }
    return context;
  }
  // A default stream belongs to the current context. There may be none before the runtime library's
  // first call.
  Result<ContextHandle> context_of_stream(StreamHandle stream) override {
    if (!vendor::is_default(stream))
      return owner_of(stream);
    LANYARD_ASSIGN_OR_RETURN(const ContextHandle current, current_context());
    return current == nullptr ? context_of_device(0) : current;
  }
  Result<int> device_of_context(ContextHandle context) override {
    const Inside inside(*this, context);
    LANYARD_RETURN_IF_ERROR(inside.status());
    return current_ordinal();
  }
  int current_device() override {
    // Check for a context first. Without one, CUDA's driver reports an error to tools that watch
    // it.
    const Result<ContextHandle> context = current_context();
    if (!context.ok() || context.value() == nullptr)
      return 0;
    const Result<int> device = current_ordinal();
    return device.ok() ? device.value() : 0;
  }
  Result<Place> enter(ContextHandle context) override {
    LANYARD_ASSIGN_OR_RETURN(const ContextHandle previous, current_context());
    if (previous != context)
      LANYARD_RETURN_IF_ERROR(api_.run(api_.set_context, vendor::context_of(context)));
    vendor::CaptureMode mode = vendor::kRelaxed;
    LANYARD_RETURN_IF_ERROR(api_.run(api_.capture_mode, &mode));
    return Place{previous, static_cast<int>(mode)};
  }
  void leave(const Place& place) override {
    vendor::CaptureMode mode = static_cast<vendor::CaptureMode>(place.capture_mode);
    (void)api_.capture_mode.call(&mode);
    const Result<ContextHandle> current = current_context();
    if (current.ok() && current.value() != place.context)
      (void)api_.set_context.call(vendor::context_of(place.context));
  }
  Status reach_device(int device) override {
    LANYARD_ASSIGN_OR_RETURN(const int current, current_ordinal());
    if (current == device)
      return {};
    LANYARD_ASSIGN_OR_RETURN(const int can, api_.get<int>(api_.can_reach, current, device));
    if (can == 0)
      return Status(Code::kUnsupported, "device " + std::to_string(current) + " cannot reach the memory of device " +
                                            std::to_string(device) + " (no path between them)");
    LANYARD_ASSIGN_OR_RETURN(const ContextHandle peer, context_of_device(device));
    const vendor::Error result = api_.reach.call(vendor::context_of(peer), 0);
    return vendor::is(result, Fault::kReachedAlready) ? Status() : api_.status(result, api_.reach.name);
  }
  Result<bool> adds_indivisibly(int device) override {
    LANYARD_ASSIGN_OR_RETURN(const int current, current_ordinal());
    int native = current == device ? 1 : 0;
    if (native == 0)
      LANYARD_RETURN_IF_ERROR(api_.run(api_.link_attribute, &native, vendor::kAtomics, current, device));
    return native != 0;
  }

  // ---- Streams

  Result<StreamHandle> make_stream() override {
    int least = 0;
    int greatest = 0;
    LANYARD_RETURN_IF_ERROR(api_.run(api_.priorities, &least, &greatest));
    vendor::Stream stream = nullptr;
    LANYARD_RETURN_IF_ERROR(api_.run(api_.make_stream, &stream, vendor::kNotOrdered, greatest));
    return StreamHandle{stream};
  }
  void destroy_stream(StreamHandle stream) override { (void)api_.destroy_stream.call(vendor::native(stream)); }
  Result<bool> is_empty(StreamHandle stream) override {
    const vendor::Error result = api_.query_stream.call(vendor::native(stream));
    if (vendor::is(result, Fault::kNotReady))
      return false;
    LANYARD_RETURN_IF_ERROR(api_.status(result, api_.query_stream.name));
    return true;
  }
  Result<uint64_t> capture_of(StreamHandle stream) override {
    vendor::CaptureStatus status = vendor::kNotCaptured;
    vendor::CaptureId id = 0;
    LANYARD_RETURN_IF_ERROR(api_.run(api_.capture, vendor::native(stream), &status, &id));
    if (status == vendor::kNotCaptured)
      return uint64_t{0};
    if (status == vendor::kInvalidated)
      return Status(Code::kInvalidState, "the stream's capture has become invalid: end it");
    return uint64_t{id} + 1;  // the vendors' numbers may begin at 0
  }

  // ---- Work

  Status run_memory_ops(StreamHandle stream, std::span<const MemoryOp> ops) override;
  Result<KernelHandle> load_kernel(const char* name) override {
    LANYARD_ASSIGN_OR_RETURN(const vendor::Module module, module_of_current());
    LANYARD_ASSIGN_OR_RETURN(const vendor::Kernel kernel, api_.get<vendor::Kernel>(api_.find_kernel, module, name));
    return KernelHandle{kernel};
  }
  Status launch(StreamHandle stream, KernelHandle kernel, uint32_t blocks, uint32_t threads,
                std::span<const std::byte> argument, Order order) override;
  Status copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, uint64_t bytes) override;

  // ---- Memory

  Status register_host(void* memory, uint64_t bytes) override {
    return api_.run(api_.register_host, memory, bytes, vendor::kRegister);
  }
  void unregister_host(void* memory) override { (void)api_.unregister_host.call(memory); }
  Result<void*> allocate_host(uint64_t bytes) override {
    return api_.get<void*>(api_.allocate_host, bytes, vendor::kAllocate);
  }
  void free_host(void* memory) override { (void)api_.free_host.call(memory); }
  Result<DeviceAddress> allocate(uint64_t bytes) override {
    LANYARD_ASSIGN_OR_RETURN(const vendor::Pointer memory, api_.get<vendor::Pointer>(api_.allocate, bytes));
    return vendor::address_of(memory);
  }
  void free(DeviceAddress memory) override { (void)api_.free.call(vendor::pointer_to(memory)); }
  Result<PointerFacts> facts_of(const void* address) override;
  Result<IpcHandle> lend(DeviceAddress base) override {
    IpcHandle handle;
    vendor::LentHandle lent;
    static_assert(sizeof lent == sizeof handle);
    const vendor::Error result = api_.lend.call(&lent, vendor::pointer_to(base));
    if (vendor::is(result, Fault::kBadArgument))
      return Status(Code::kUnsupported, std::string(api_.lend.name) + ": " + vendor::kNotLent);
    LANYARD_RETURN_IF_ERROR(api_.status(result, api_.lend.name));
    std::memcpy(handle.data(), &lent, sizeof handle);
    return handle;
  }
  Result<DeviceAddress> borrow(const IpcHandle& handle) override {
    vendor::LentHandle lent;
    std::memcpy(&lent, handle.data(), sizeof handle);
    LANYARD_ASSIGN_OR_RETURN(const auto base, api_.get<vendor::Pointer>(api_.borrow, lent, vendor::kBorrow));
    return vendor::address_of(base);
  }
  void give_back(DeviceAddress base) override { (void)api_.give_back.call(vendor::pointer_to(base)); }

 private:
  struct PerDevice {
    ContextHandle context = nullptr;  // null before the first use; guarded by mutex_
    bool flushes = false;             // whether waits flush writes by others
  };

  VendorDriver(const Entries& api, int devices) : api_(api), devices_(static_cast<size_t>(devices)) {}
  // May be null.
  Result<ContextHandle> current_context() const {
    LANYARD_ASSIGN_OR_RETURN(const auto context, api_.get<vendor::Context>(api_.context));
    return vendor::handle_of(context);
  }
  // Requires a context.
  Result<int> current_ordinal() const { return api_.get<int>(api_.device); }
  Result<vendor::Module> module_of_current() {
    LANYARD_ASSIGN_OR_RETURN(const ContextHandle context, current_context());
    const std::lock_guard lock(mutex_);
    for (const auto& [owner, module] : modules_)
      if (owner == context)
        return module;
    LANYARD_ASSIGN_OR_RETURN(const auto module,
                             api_.get<vendor::Module>(api_.load_module, static_cast<const void*>(kKernelImage)));
    modules_.emplace_back(context, module);
    return module;
  }

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
