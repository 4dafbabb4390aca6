// The parts of VendorDriver that are CUDA's.
#include <dlfcn.h>

#include <array>
#include <iterator>
#include <string>

#include "gpu/device/vendor_driver.h"

namespace lanyard::gpu {

Result<Entries> Entries::load() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Status(Code::kUnsupported, "this machine has no NVIDIA driver: " + std::string(dlerror()));
  const auto find = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr)
    return Status(Code::kUnsupported, "the NVIDIA driver is older than CUDA 12");
  Entries entries;
  const char* const missing = entries.look_up([find](const char* name, int version) {
    void* entry = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    const CUresult result = find(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
    return result == CUDA_SUCCESS ? entry : nullptr;
  });
  if (missing != nullptr)
    return Status(Code::kUnsupported, std::string("the NVIDIA driver has no ") + missing + ": it is too old");
  LANYARD_RETURN_IF_ERROR(entries.run(entries.init, 0));
  return entries;
}

Status Entries::status(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS)
    return {};
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name.call(result, &name) != CUDA_SUCCESS)
    name = "an unknown error";
  if (error_text.call(result, &text) != CUDA_SUCCESS)
    text = "no description";
  return driver_error(static_cast<Fault>(result), call, name, text);
}

Result<std::unique_ptr<Driver>> open_driver() { return VendorDriver::open(); }

Status VendorDriver::set_up() {
  // Older drivers cannot capture launches that begin early.
  constexpr int kEarliest = 12030;
  LANYARD_ASSIGN_OR_RETURN(const int version, api_.get<int>(api_.version));
  begins_early_ = version >= kEarliest;
  for (int device = 0; device < device_count(); ++device) {
    LANYARD_ASSIGN_OR_RETURN(const int generation,
                             api_.get<int>(api_.attribute, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    LANYARD_ASSIGN_OR_RETURN(const int flushes,
                             api_.get<int>(api_.attribute, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, device));
    begins_early_ = begins_early_ && generation >= 9;
    devices_[static_cast<size_t>(device)].flushes = flushes != 0;
  }
  return {};
}

// Ignores errors: at the end of the process the driver may already be gone.
VendorDriver::~VendorDriver() {
  for (int device = 0; device < device_count(); ++device)
    if (devices_[static_cast<size_t>(device)].context != nullptr)
      api_.release_context.call(device);
}

Status VendorDriver::describe(int device, DeviceFacts& facts) const {
  LANYARD_ASSIGN_OR_RETURN(const int bus, api_.get<int>(api_.attribute, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device));
  LANYARD_ASSIGN_OR_RETURN(const int words,
                           api_.get<int>(api_.attribute, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device));
  facts.name += " (PCI bus " + std::to_string(bus) + ")";
  facts.has_memory_ops = words != 0;
  facts.shares_words = true;
  return {};
}

Result<ContextHandle> VendorDriver::make_context(int device) {
  LANYARD_ASSIGN_OR_RETURN(const CUcontext context, api_.get<CUcontext>(api_.retain_context, device));
  return ContextHandle{context};
}

Result<ContextHandle> VendorDriver::owner_of(StreamHandle stream) {
  CUcontext context = nullptr;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.context_of_stream, static_cast<CUstream>(stream), &context));
  return ContextHandle{context};
}

Status VendorDriver::run_memory_ops(StreamHandle stream, std::span<const MemoryOp> ops) {
  LANYARD_ASSIGN_OR_RETURN(const int device, current_ordinal());
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
      // Another device or a NIC may write data and flag separately.
      if (devices_[static_cast<size_t>(device)].flushes)
        param.waitValue.flags |= CU_STREAM_WAIT_VALUE_FLUSH;
    }
  }
  return api_.run(api_.memory_ops, static_cast<CUstream>(stream), static_cast<unsigned>(ops.size()), params.data(), 0);
}

Status VendorDriver::launch(StreamHandle stream, KernelHandle kernel, uint32_t blocks, uint32_t threads,
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
  config.numAttrs = order == Order::kOverlapping && begins_early_ ? 1 : 0;
  return api_.run(api_.launch, &config, static_cast<CUfunction>(kernel), parameters, nullptr);
}

Status VendorDriver::copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  return api_.run(api_.copy, to, from, bytes, static_cast<CUstream>(stream));
}

Result<PointerFacts> VendorDriver::facts_of(const void* address) {
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
  const CUresult result = api_.pointer_facts.call(std::size(attributes), attributes, values, pointer);
  if (result == CUDA_ERROR_INVALID_VALUE)
    return PointerFacts{};  // older drivers, for memory that they do not know
  LANYARD_RETURN_IF_ERROR(api_.status(result, api_.pointer_facts.name));
  PointerFacts facts;
  if (type == 0)
    return facts;
  facts.address = pointer;
  if (managed != 0) {
    facts.kind = PointerFacts::Kind::kManaged;
  } else if (type == CU_MEMORYTYPE_HOST) {
    facts.kind = PointerFacts::Kind::kPinned;
    // Queried alone, as only this attribute needs a current context. Without one both addresses are
    // the same (unified addressing).
    CUdeviceptr reached = 0;
    void* address_value[] = {&reached};
    CUpointer_attribute address_attribute[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    if (api_.pointer_facts.call(1, address_attribute, address_value, pointer) == CUDA_SUCCESS && reached != 0)
      facts.address = reached;
  } else {
    facts.kind = PointerFacts::Kind::kDevice;
    facts.device = device;
    facts.base = base;
    facts.bytes = bytes;
  }
  return facts;
}

}  // namespace lanyard::gpu
