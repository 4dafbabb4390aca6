#include "gpu/device/cuda_driver.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "gpu/device/kernel_image.h"

namespace lanyard::gpu {

// Returns early from a function with what a failed call of the driver's means.
#define LANYARD_CUDA_TRY(call, ...)                                                \
  do {                                                                             \
    if (const CUresult result_ = cuda_.call(__VA_ARGS__); result_ != CUDA_SUCCESS) \
      return cuda_.status(result_, #call);                                         \
  } while (false)

Result<std::unique_ptr<Driver>> CudaDriver::open() {
  const Result<CudaEntries> entries = CudaEntries::load();
  if (!entries.ok())
    return entries.status();
  const CudaEntries& cuda = entries.value();
  LANYARD_RETURN_IF_ERROR(cuda.status(cuda.cuInit(0), "cuInit"));
  int devices = 0;
  LANYARD_RETURN_IF_ERROR(cuda.status(cuda.cuDeviceGetCount(&devices), "cuDeviceGetCount"));
  if (devices == 0)
    return Status(Code::kUnsupported, "this machine has no NVIDIA device, or CUDA_VISIBLE_DEVICES hides them all");
  std::unique_ptr<CudaDriver> driver(new CudaDriver(cuda, devices));
  // Before, captures do not take such launches.
  constexpr int kEarliest = 12030;
  int version = 0;
  LANYARD_RETURN_IF_ERROR(cuda.status(cuda.cuDriverGetVersion(&version), "cuDriverGetVersion"));
  driver->begins_early_ = version >= kEarliest;
  for (int device = 0; device < devices; ++device) {
    const Result<int> generation = driver->attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    if (!generation.ok())
      return generation.status();
    driver->begins_early_ = driver->begins_early_ && generation.value() >= 9;
    const Result<int> flush = driver->attribute(device, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
    if (!flush.ok())
      return flush.status();
    driver->flush_[device] = flush.value();
  }
  return std::unique_ptr<Driver>(std::move(driver));
}

// Errors are left alone: at the end of the process the driver may have gone first.
CudaDriver::~CudaDriver() {
  for (size_t device = 0; device < contexts_.size(); ++device)
    if (contexts_[device] != nullptr)
      cuda_.cuDevicePrimaryCtxRelease(static_cast<CUdevice>(device));
}

Result<int> CudaDriver::attribute(int device, CUdevice_attribute which) const {
  int value = 0;
  LANYARD_CUDA_TRY(cuDeviceGetAttribute, &value, which, device);
  return value;
}

Result<DeviceFacts> CudaDriver::facts(int device) {
  DeviceFacts facts;
  CUdevice handle = 0;
  LANYARD_CUDA_TRY(cuDeviceGet, &handle, device);
  CUuuid uuid{};
  LANYARD_CUDA_TRY(cuDeviceGetUuid, &uuid, handle);
  static_assert(sizeof uuid.bytes == sizeof facts.uuid);
  std::memcpy(facts.uuid.data(), uuid.bytes, sizeof uuid.bytes);
  char name[128] = {};
  LANYARD_CUDA_TRY(cuDeviceGetName, name, sizeof name - 1, handle);
  char bus[32] = {};
  LANYARD_CUDA_TRY(cuDeviceGetPCIBusId, bus, sizeof bus - 1, handle);
  const Result<int> processors = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  const Result<int> warp = attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  const Result<int> words = attribute(device, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
  for (const Result<int>* value : {&processors, &warp, &words})
    if (!value->ok())
      return value->status();
  facts.name = std::string(name) + " (PCI " + bus + ")";
  facts.pci = bus;
  facts.multiprocessors = processors.value();
  facts.warp_threads = warp.value();
  facts.writes_words = facts.awaits_words = words.value() != 0;
  facts.shares_words = true;
  return facts;
}

Result<ContextHandle> CudaDriver::context_of_device(int device) {
  const std::lock_guard lock(mutex_);
  if (device < 0 || device >= static_cast<int>(contexts_.size()))
    return Status(Code::kInvalidArgument, "there is no device " + std::to_string(device));
  if (contexts_[device] == nullptr)
    LANYARD_CUDA_TRY(cuDevicePrimaryCtxRetain, &contexts_[device], device);
  return ContextHandle{contexts_[device]};
}

Result<ContextHandle> CudaDriver::context_of_stream(StreamHandle stream) {
  CUcontext context = nullptr;
  // The two default streams are the current context's, and there may be none before the runtime library's first call.
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
    LANYARD_CUDA_TRY(cuCtxGetCurrent, &context);
    if (context == nullptr)
      return context_of_device(0);
    return ContextHandle{context};
  }
  LANYARD_CUDA_TRY(cuStreamGetCtx, static_cast<CUstream>(stream), &context);
  return ContextHandle{context};
}

Result<int> CudaDriver::device_of_context(ContextHandle context) {
  const Inside inside(*this, context);
  LANYARD_RETURN_IF_ERROR(inside.status());
  CUdevice device = 0;
  LANYARD_CUDA_TRY(cuCtxGetDevice, &device);
  return static_cast<int>(device);
}

int CudaDriver::current_device() {
  // Asked for the device where there is no context, the driver reports an error to whoever watches it.
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (cuda_.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr)
    return 0;
  return cuda_.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
}

Result<Driver::Place> CudaDriver::enter(ContextHandle context) {
  CUcontext previous = nullptr;
  LANYARD_CUDA_TRY(cuCtxGetCurrent, &previous);
  if (previous != context)
    LANYARD_CUDA_TRY(cuCtxSetCurrent, static_cast<CUcontext>(context));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  LANYARD_CUDA_TRY(cuThreadExchangeStreamCaptureMode, &mode);
  return Place{previous, static_cast<int>(mode)};
}

void CudaDriver::leave(const Place& place) {
  CUstreamCaptureMode mode = static_cast<CUstreamCaptureMode>(place.capture_mode);
  cuda_.cuThreadExchangeStreamCaptureMode(&mode);
  CUcontext current = nullptr;
  if (cuda_.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current == place.context)
    return;
  cuda_.cuCtxSetCurrent(static_cast<CUcontext>(place.context));
}

Status CudaDriver::reach_device(int device) {
  CUdevice current = 0;
  LANYARD_CUDA_TRY(cuCtxGetDevice, &current);
  if (current == device)
    return {};
  int can = 0;
  LANYARD_CUDA_TRY(cuDeviceCanAccessPeer, &can, current, device);
  if (can == 0)
    return Status(Code::kUnsupported, "device " + std::to_string(current) + " cannot reach the memory of device " +
                                          std::to_string(device) + " (no NVLink or PCIe path between them)");
  const Result<ContextHandle> peer = context_of_device(device);
  if (!peer.ok())
    return peer.status();
  const CUresult result = cuda_.cuCtxEnablePeerAccess(static_cast<CUcontext>(peer.value()), 0);
  if (result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
    return {};
  return cuda_.status(result, "cuCtxEnablePeerAccess");
}

Result<bool> CudaDriver::adds_indivisibly(int device) {
  CUdevice current = 0;
  LANYARD_CUDA_TRY(cuCtxGetDevice, &current);
  int native = current == device ? 1 : 0;
  if (native == 0)
    LANYARD_CUDA_TRY(cuDeviceGetP2PAttribute, &native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, current,
                     device);
  return native != 0;
}

Result<StreamHandle> CudaDriver::make_stream() {
  int least = 0;
  int greatest = 0;
  LANYARD_CUDA_TRY(cuCtxGetStreamPriorityRange, &least, &greatest);
  CUstream stream = nullptr;
  LANYARD_CUDA_TRY(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, greatest);
  return StreamHandle{stream};
}

void CudaDriver::destroy_stream(StreamHandle stream) { cuda_.cuStreamDestroy(static_cast<CUstream>(stream)); }

Result<bool> CudaDriver::is_empty(StreamHandle stream) {
  const CUresult result = cuda_.cuStreamQuery(static_cast<CUstream>(stream));
  if (result == CUDA_ERROR_NOT_READY)
    return false;
  LANYARD_RETURN_IF_ERROR(cuda_.status(result, "cuStreamQuery"));
  return true;
}

Result<uint64_t> CudaDriver::capture_of(StreamHandle stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  LANYARD_CUDA_TRY(cuStreamGetCaptureInfo, static_cast<CUstream>(stream), &status, &id, nullptr, nullptr, nullptr);
  if (status == CU_STREAM_CAPTURE_STATUS_NONE)
    return uint64_t{0};
  if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    return Status(Code::kInvalidState, "the stream's capture has become invalid: end it");
  return uint64_t{id} + 1;  // the driver's numbers may begin at 0
}

// By an object that the graph and all that comes of it own, and that tells of its destruction.
Status CudaDriver::follow_capture(StreamHandle stream, std::shared_ptr<std::atomic<bool>> gone) {
  using Gone = std::shared_ptr<std::atomic<bool>>;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  LANYARD_CUDA_TRY(cuStreamGetCaptureInfo, static_cast<CUstream>(stream), &status, nullptr, &graph, nullptr, nullptr);
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return {Code::kInvalidState, "the stream is not being captured, or its capture has become invalid"};
  auto owned = std::make_unique<Gone>(std::move(gone));
  const CUhostFn tell = [](void* owned_by_graph) {
    const std::unique_ptr<Gone> last(static_cast<Gone*>(owned_by_graph));
    (*last)->store(true);
  };
  CUuserObject object = nullptr;
  LANYARD_CUDA_TRY(cuUserObjectCreate, &object, owned.get(), tell, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  // The driver's. Should the graph refuse it, it is never released: that would say that the graph is gone.
  static_cast<void>(owned.release());
  LANYARD_CUDA_TRY(cuGraphRetainUserObject, graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  return {};
}

Status CudaDriver::run_memory_ops(StreamHandle stream, std::span<const MemoryOp> ops) {
  CUdevice device = 0;
  LANYARD_CUDA_TRY(cuCtxGetDevice, &device);
  std::array<CUstreamBatchMemOpParams, kMemoryOpsAtOnce> params;
  for (size_t i = 0; i < ops.size(); ++i) {
    CUstreamBatchMemOpParams& param = params[i];
    param = {};
    if (ops[i].kind == MemoryOp::Kind::kWrite) {
      param.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
      param.writeValue.address = ops[i].word;
      param.writeValue.value64 = ops[i].value;
      param.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;  // after a fence at system scope
    } else {
      param.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
      param.waitValue.address = ops[i].word;
      param.waitValue.value64 = ops[i].value;
      param.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
      // Data and flag may be two writes of another device's or a NIC's.
      if (flush_[device] != 0)
        param.waitValue.flags |= CU_STREAM_WAIT_VALUE_FLUSH;
    }
  }
  LANYARD_CUDA_TRY(cuStreamBatchMemOp, static_cast<CUstream>(stream), static_cast<unsigned>(ops.size()), params.data(),
                   0);
  return {};
}

Result<CUmodule> CudaDriver::module_of_current() {
  CUcontext context = nullptr;
  LANYARD_CUDA_TRY(cuCtxGetCurrent, &context);
  const std::lock_guard lock(mutex_);
  for (const auto& [owner, module] : modules_)
    if (owner == context)
      return module;
  CUmodule module = nullptr;
  LANYARD_CUDA_TRY(cuModuleLoadData, &module, kKernelImage);
  modules_.emplace_back(context, module);
  return module;
}

Result<KernelHandle> CudaDriver::load_kernel(const char* name) {
  const Result<CUmodule> module = module_of_current();
  if (!module.ok())
    return module.status();
  CUfunction function = nullptr;
  LANYARD_CUDA_TRY(cuModuleGetFunction, &function, module.value(), name);
  return KernelHandle{function};
}

Status CudaDriver::launch(StreamHandle stream, KernelHandle kernel, uint32_t blocks, uint32_t threads,
                          std::span<const std::byte> argument, Order order) {
  void* parameters[] = {const_cast<std::byte*>(argument.data())};
  CUlaunchAttribute early{};
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = threads;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = static_cast<CUstream>(stream);
  config.attrs = &early;
  config.numAttrs = order == Order::kBesides && begins_early_ ? 1 : 0;
  LANYARD_CUDA_TRY(cuLaunchKernelEx, &config, static_cast<CUfunction>(kernel), parameters, nullptr);
  return {};
}

Status CudaDriver::copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  LANYARD_CUDA_TRY(cuMemcpyAsync, to, from, bytes, static_cast<CUstream>(stream));
  return {};
}

Status CudaDriver::register_host(void* memory, uint64_t bytes, Pages pages) {
  const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  LANYARD_CUDA_TRY(cuMemHostRegister, memory, bytes,
                   pages == Pages::kRegisters ? flags | CU_MEMHOSTREGISTER_IOMEMORY : flags);
  return {};
}

void CudaDriver::unregister_host(void* memory) { cuda_.cuMemHostUnregister(memory); }

Result<void*> CudaDriver::allocate_host(uint64_t bytes) {
  void* memory = nullptr;
  LANYARD_CUDA_TRY(cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  return memory;
}

void CudaDriver::free_host(void* memory) { cuda_.cuMemFreeHost(memory); }

Result<DeviceAddress> CudaDriver::allocate(uint64_t bytes) {
  CUdeviceptr memory = 0;
  LANYARD_CUDA_TRY(cuMemAlloc, &memory, bytes);
  return DeviceAddress{memory};
}

void CudaDriver::free(DeviceAddress memory) { cuda_.cuMemFree(memory); }

Result<PointerFacts> CudaDriver::facts_of(const void* address) {
  unsigned type = 0;
  unsigned managed = 0;
  int device = -1;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
  };
  void* values[] = {&type, &managed, &device, &base, &bytes};
  const CUdeviceptr pointer = reinterpret_cast<CUdeviceptr>(address);
  const CUresult result = cuda_.cuPointerGetAttributes(std::size(attributes), attributes, values, pointer);
  if (result == CUDA_ERROR_INVALID_VALUE)
    return PointerFacts{};  // older drivers, for what they do not know
  LANYARD_RETURN_IF_ERROR(cuda_.status(result, "cuPointerGetAttributes"));
  PointerFacts facts;
  if (type == 0)
    return facts;
  facts.address = pointer;
  if (managed != 0) {
    facts.kind = PointerFacts::Kind::kManaged;
  } else if (type == CU_MEMORYTYPE_HOST) {
    facts.kind = PointerFacts::Kind::kPinned;
    // Asked for by itself, as it alone wants a current context; without one both addresses are the same (unified).
    CUdeviceptr reached = 0;
    void* address_value[] = {&reached};
    CUpointer_attribute address_attribute[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    if (cuda_.cuPointerGetAttributes(1, address_attribute, address_value, pointer) == CUDA_SUCCESS && reached != 0)
      facts.address = reached;
  } else {
    facts.kind = PointerFacts::Kind::kDevice;
    facts.device = device;
    facts.base = base;
    facts.bytes = bytes;
  }
  return facts;
}

Result<Driver::IpcHandle> CudaDriver::lend(DeviceAddress base) {
  CUipcMemHandle cuda_handle;
  const CUresult result = cuda_.cuIpcGetMemHandle(&cuda_handle, base);
  if (result == CUDA_ERROR_INVALID_VALUE)
    return Status(Code::kUnsupported,
                  "cuIpcGetMemHandle: CUDA_ERROR_INVALID_VALUE: memory of cudaMallocAsync or cuMemCreate cannot be "
                  "lent to other processes: use cudaMalloc");
  LANYARD_RETURN_IF_ERROR(cuda_.status(result, "cuIpcGetMemHandle"));
  IpcHandle handle;
  static_assert(sizeof cuda_handle == sizeof handle);
  std::memcpy(handle.data(), &cuda_handle, sizeof handle);
  return handle;
}

Result<DeviceAddress> CudaDriver::borrow(const IpcHandle& handle) {
  CUipcMemHandle cuda_handle;
  std::memcpy(&cuda_handle, handle.data(), sizeof handle);
  CUdeviceptr base = 0;
  LANYARD_CUDA_TRY(cuIpcOpenMemHandle, &base, cuda_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  return DeviceAddress{base};
}

void CudaDriver::give_back(DeviceAddress base) { cuda_.cuIpcCloseMemHandle(base); }

#undef LANYARD_CUDA_TRY

}  // namespace lanyard::gpu
