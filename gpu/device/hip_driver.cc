#include "gpu/device/hip_driver.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "gpu/device/kernel_image.h"

namespace lanyard::gpu {
namespace {

ContextHandle context_of(int device) { return reinterpret_cast<ContextHandle>(static_cast<intptr_t>(device) + 1); }
int device_of(ContextHandle context) { return static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1; }
void* pointer_to(DeviceAddress address) { return reinterpret_cast<void*>(address); }
DeviceAddress address_of(const void* pointer) { return reinterpret_cast<DeviceAddress>(pointer); }
hipStream_t hip_stream(StreamHandle stream) { return static_cast<hipStream_t>(stream); }

}  // namespace

// Returns early from a function with what a failed call of the library's means.
#define LANYARD_HIP_TRY(call, ...)                                                \
  do {                                                                            \
    if (const hipError_t result_ = hip_.call(__VA_ARGS__); result_ != hipSuccess) \
      return hip_.status(result_, #call);                                         \
  } while (false)

Result<std::unique_ptr<Driver>> HipDriver::open() {
  // HIP spreads all streams over four hardware queues, unless it is told otherwise before it is first used. Lanyard has
  // up to three on a device, and one that waits holds up those that share its hardware queue.
  setenv("GPU_MAX_HW_QUEUES", "8", 0);
  const Result<HipEntries> entries = HipEntries::load();
  if (!entries.ok())
    return entries.status();
  int devices = 0;
  LANYARD_RETURN_IF_ERROR(entries.value().status(entries.value().hipGetDeviceCount(&devices), "hipGetDeviceCount"));
  if (devices == 0)
    return Status(Code::kUnsupported, "this machine has no device for HIP, or HIP_VISIBLE_DEVICES hides them all");
  return std::unique_ptr<Driver>(new HipDriver(entries.value(), devices));
}

Result<DeviceFacts> HipDriver::facts(int device) {
  DeviceFacts facts;
  char name[128] = {};
  LANYARD_HIP_TRY(hipDeviceGetName, name, sizeof name - 1, device);
  char bus[32] = {};
  LANYARD_HIP_TRY(hipDeviceGetPCIBusId, bus, sizeof bus - 1, device);
  facts.name = std::string(name) + " (PCI " + bus + ")";
  facts.pci = bus;
  hipUUID uuid{};
  LANYARD_HIP_TRY(hipDeviceGetUuid, &uuid, device);
  static_assert(sizeof uuid.bytes == sizeof facts.uuid);
  std::memcpy(facts.uuid.data(), uuid.bytes, sizeof uuid.bytes);
  LANYARD_HIP_TRY(hipDeviceGetAttribute, &facts.multiprocessors, hipDeviceAttributeMultiprocessorCount, device);
  LANYARD_HIP_TRY(hipDeviceGetAttribute, &facts.warp_threads, hipDeviceAttributeWarpSize, device);
  // Each memory operation of HIP's is a launch of its own, and may be a kernel: ours do many at once.
  facts.writes_words = facts.awaits_words = false;
  // Memory of hipMalloc's is coarse-grained: HIP promises that what others have written there is seen after
  // hipDeviceSynchronize, hipStreamSynchronize or a call that waits for the null stream, and no earlier; not by the
  // next kernel of a stream, let alone by one that waits ("Coherence control" of HIP's manual, ROCm 7.2). Ends of lanes
  // could lie in uncached memory (hipDeviceMallocUncached); the program's buffers are what they are.
  facts.shares_words = false;
  return facts;
}

Result<ContextHandle> HipDriver::context_of_device(int device) {
  if (device < 0 || device >= devices_)
    return Status(Code::kInvalidArgument, "there is no device " + std::to_string(device));
  return context_of(device);
}

Result<ContextHandle> HipDriver::context_of_stream(StreamHandle stream) {
  if (stream == nullptr || stream == hipStreamPerThread)
    return context_of_device(current_device());
  const int device = hip_.hipGetStreamDeviceId(hip_stream(stream));
  if (device < 0)
    return Status(Code::kInvalidArgument, "hipGetStreamDeviceId: not a stream, or one that is destroyed");
  return context_of_device(device);
}

Result<int> HipDriver::device_of_context(ContextHandle context) { return device_of(context); }

int HipDriver::current_device() {
  int device = 0;
  return hip_.hipGetDevice(&device) == hipSuccess ? device : 0;
}

Result<Driver::Place> HipDriver::enter(ContextHandle context) {
  int previous = 0;
  LANYARD_HIP_TRY(hipGetDevice, &previous);
  if (previous != device_of(context))
    LANYARD_HIP_TRY(hipSetDevice, device_of(context));
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  LANYARD_HIP_TRY(hipThreadExchangeStreamCaptureMode, &mode);
  return Place{context_of(previous), static_cast<int>(mode)};
}

void HipDriver::leave(const Place& place) {
  hipStreamCaptureMode mode = static_cast<hipStreamCaptureMode>(place.capture_mode);
  static_cast<void>(hip_.hipThreadExchangeStreamCaptureMode(&mode));
  if (current_device() != device_of(place.context))
    static_cast<void>(hip_.hipSetDevice(device_of(place.context)));
}

Status HipDriver::reach_device(int device) {
  const int current = current_device();
  if (current == device)
    return {};
  int can = 0;
  LANYARD_HIP_TRY(hipDeviceCanAccessPeer, &can, current, device);
  if (can == 0)
    return Status(Code::kUnsupported, "device " + std::to_string(current) + " cannot reach the memory of device " +
                                          std::to_string(device) + " (no path between them)");
  const hipError_t result = hip_.hipDeviceEnablePeerAccess(device, 0);
  if (result == hipErrorPeerAccessAlreadyEnabled)
    return {};
  return hip_.status(result, "hipDeviceEnablePeerAccess");
}

Result<bool> HipDriver::adds_indivisibly(int device) {
  const int current = current_device();
  int native = current == device ? 1 : 0;
  if (native == 0)
    LANYARD_HIP_TRY(hipDeviceGetP2PAttribute, &native, hipDevP2PAttrNativeAtomicSupported, current, device);
  return native != 0;
}

Result<StreamHandle> HipDriver::make_stream() {
  int least = 0;
  int greatest = 0;
  LANYARD_HIP_TRY(hipDeviceGetStreamPriorityRange, &least, &greatest);
  hipStream_t stream = nullptr;
  LANYARD_HIP_TRY(hipStreamCreateWithPriority, &stream, hipStreamNonBlocking, greatest);
  return StreamHandle{stream};
}

void HipDriver::destroy_stream(StreamHandle stream) { static_cast<void>(hip_.hipStreamDestroy(hip_stream(stream))); }

Result<bool> HipDriver::is_empty(StreamHandle stream) {
  const hipError_t result = hip_.hipStreamQuery(hip_stream(stream));
  if (result == hipErrorNotReady)
    return false;
  LANYARD_RETURN_IF_ERROR(hip_.status(result, "hipStreamQuery"));
  return true;
}

Result<uint64_t> HipDriver::capture_of(StreamHandle stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  unsigned long long id = 0;
  LANYARD_HIP_TRY(hipStreamGetCaptureInfo, hip_stream(stream), &status, &id);
  if (status == hipStreamCaptureStatusNone)
    return uint64_t{0};
  if (status == hipStreamCaptureStatusInvalidated)
    return Status(Code::kInvalidState, "the stream's capture has become invalid: end it");
  return uint64_t{id} + 1;  // the library's numbers may begin at 0
}

// By an object that the graph and all that comes of it own, and that tells of its destruction.
Status HipDriver::follow_capture(StreamHandle stream, std::shared_ptr<std::atomic<bool>> gone) {
  using Gone = std::shared_ptr<std::atomic<bool>>;
  constexpr unsigned kNoDestructorSync = 1;
  constexpr unsigned kMove = 1;
  if (hip_.hipUserObjectCreate == nullptr || hip_.hipGraphRetainUserObject == nullptr)
    return {Code::kUnsupported, "HIP tells of the end of graphs since its version 5.3"};
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  LANYARD_HIP_TRY(hipStreamGetCaptureInfo_v2, hip_stream(stream), &status, &id, &graph, nullptr, nullptr);
  if (status != hipStreamCaptureStatusActive)
    return {Code::kInvalidState, "the stream is not being captured, or its capture has become invalid"};
  auto owned = std::make_unique<Gone>(std::move(gone));
  const auto tell = [](void* owned_by_graph) {
    const std::unique_ptr<Gone> last(static_cast<Gone*>(owned_by_graph));
    (*last)->store(true);
  };
  void* object = nullptr;
  LANYARD_HIP_TRY(hipUserObjectCreate, &object, owned.get(), tell, 1, kNoDestructorSync);
  // The library's. Should the graph refuse it, it is never released: that would say that the graph is gone.
  static_cast<void>(owned.release());
  LANYARD_HIP_TRY(hipGraphRetainUserObject, graph, object, 1, kMove);
  return {};
}

Status HipDriver::run_memory_ops(StreamHandle stream, std::span<const MemoryOp> ops) {
  for (const MemoryOp& op : ops) {
    if (op.kind == MemoryOp::Kind::kWait)
      return Status(Code::kUnsupported, "HIP's waits want signal memory");
    LANYARD_HIP_TRY(hipStreamWriteValue64, hip_stream(stream), pointer_to(op.word), op.value, 0);
  }
  return {};
}

Result<hipModule_t> HipDriver::module_of_current() {
  const int device = current_device();
  const std::lock_guard lock(mutex_);
  for (const auto& [owner, module] : modules_)
    if (owner == device)
      return module;
  hipModule_t module = nullptr;
  LANYARD_HIP_TRY(hipModuleLoadData, &module, kKernelImage);
  modules_.emplace_back(device, module);
  return module;
}

Result<KernelHandle> HipDriver::load_kernel(const char* name) {
  const Result<hipModule_t> module = module_of_current();
  if (!module.ok())
    return module.status();
  hipFunction_t function = nullptr;
  LANYARD_HIP_TRY(hipModuleGetFunction, &function, module.value(), name);
  return KernelHandle{function};
}

Status HipDriver::launch(StreamHandle stream, KernelHandle kernel, uint32_t blocks, uint32_t threads,
                         std::span<const std::byte> argument, Order /*order*/) {
  void* parameters[] = {const_cast<std::byte*>(argument.data())};
  LANYARD_HIP_TRY(hipModuleLaunchKernel, static_cast<hipFunction_t>(kernel), blocks, 1, 1, threads, 1, 1, 0,
                  hip_stream(stream), parameters, nullptr);
  return {};
}

Status HipDriver::copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  LANYARD_HIP_TRY(hipMemcpyAsync, pointer_to(to), pointer_to(from), bytes, hipMemcpyDefault, hip_stream(stream));
  return {};
}

Status HipDriver::register_host(void* memory, uint64_t bytes, Pages pages) {
  const unsigned flags = hipHostRegisterPortable | hipHostRegisterMapped;
  LANYARD_HIP_TRY(hipHostRegister, memory, bytes, pages == Pages::kRegisters ? flags | hipHostRegisterIoMemory : flags);
  return {};
}

void HipDriver::unregister_host(void* memory) { static_cast<void>(hip_.hipHostUnregister(memory)); }

Result<void*> HipDriver::allocate_host(uint64_t bytes) {
  void* memory = nullptr;
  // Coherent: kernels that are running, and the host, see what either writes.
  LANYARD_HIP_TRY(hipHostMalloc, &memory, bytes, hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent);
  return memory;
}

void HipDriver::free_host(void* memory) { static_cast<void>(hip_.hipHostFree(memory)); }

Result<DeviceAddress> HipDriver::allocate(uint64_t bytes) {
  void* memory = nullptr;
  LANYARD_HIP_TRY(hipMalloc, &memory, bytes);
  return address_of(memory);
}

void HipDriver::free(DeviceAddress memory) { static_cast<void>(hip_.hipFree(pointer_to(memory))); }

Result<PointerFacts> HipDriver::facts_of(const void* address) {
  PointerFacts facts;
  hipPointerAttribute_t attributes{};
  const hipError_t result = hip_.hipPointerGetAttributes(&attributes, address);
  if (result == hipErrorInvalidValue)
    return facts;  // memory that the library does not know
  LANYARD_RETURN_IF_ERROR(hip_.status(result, "hipPointerGetAttributes"));
  if (attributes.hostPointer == nullptr && attributes.devicePointer == nullptr)
    return facts;
  facts.address = address_of(attributes.devicePointer != nullptr ? attributes.devicePointer : address);
  if (attributes.isManaged != 0) {
    facts.kind = PointerFacts::Kind::kManaged;
    return facts;
  }
  // By the pointers rather than by the type, whose numbers differ between releases.
  if (attributes.hostPointer != nullptr) {
    facts.kind = PointerFacts::Kind::kPinned;
    return facts;
  }
  facts.kind = PointerFacts::Kind::kDevice;
  facts.device = attributes.device;
  hipDeviceptr_t base = nullptr;
  size_t bytes = 0;
  LANYARD_HIP_TRY(hipMemGetAddressRange, &base, &bytes, const_cast<void*>(address));
  facts.address = address_of(address);
  facts.base = address_of(base);
  facts.bytes = bytes;
  return facts;
}

Result<Driver::IpcHandle> HipDriver::lend(DeviceAddress base) {
  hipIpcMemHandle_t hip_handle;
  LANYARD_HIP_TRY(hipIpcGetMemHandle, &hip_handle, pointer_to(base));
  IpcHandle handle;
  static_assert(sizeof hip_handle == sizeof handle);
  std::memcpy(handle.data(), &hip_handle, sizeof handle);
  return handle;
}

Result<DeviceAddress> HipDriver::borrow(const IpcHandle& handle) {
  hipIpcMemHandle_t hip_handle;
  std::memcpy(&hip_handle, handle.data(), sizeof handle);
  void* base = nullptr;
  LANYARD_HIP_TRY(hipIpcOpenMemHandle, &base, hip_handle, hipIpcMemLazyEnablePeerAccess);
  return address_of(base);
}

void HipDriver::give_back(DeviceAddress base) { static_cast<void>(hip_.hipIpcCloseMemHandle(pointer_to(base))); }

#undef LANYARD_HIP_TRY

}  // namespace lanyard::gpu
