// The parts of VendorDriver that are HIP's. A context is a device. HIP documents waits by
// memory operation only for memory of hipMallocSignalMemory; Lanyard's words are elsewhere,
// so waits are kernels. The numbers of attributes and memory types change with the major
// version (Entries::load).
#include <dlfcn.h>
#include <hip/hip_version.h>

#include <string>

#include "gpu/device/vendor_driver.h"

namespace lanyard::gpu {

using vendor::pointer_to;

Result<Entries> Entries::load() {
  const std::string versioned = "libamdhip64.so." + std::to_string(HIP_VERSION_MAJOR);
  void* library = nullptr;
  for (const char* name : {versioned.c_str(), "libamdhip64.so"})
    if (library == nullptr)
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Status(Code::kUnsupported, "this machine has no HIP library: " + std::string(dlerror()));
  Entries entries;
  const char* const missing =
      entries.look_up([library](const char* name, int /*version*/) { return dlsym(library, name); });
  if (missing != nullptr)
    return Status(Code::kUnsupported, std::string("the HIP library has no ") + missing);
  LANYARD_ASSIGN_OR_RETURN(const int version, entries.get<int>(entries.version));
  if (version / 10'000'000 != HIP_VERSION_MAJOR)
    return Status(Code::kUnsupported, "Lanyard was built with HIP " + std::to_string(HIP_VERSION_MAJOR) +
                                          ", this machine has " + std::to_string(version / 10'000'000) +
                                          ": build it with this machine's HIP");
  return entries;
}

Status Entries::status(hipError_t result, const char* call) const {
  if (result == hipSuccess)
    return {};
  return driver_error(static_cast<Fault>(result), call, error_name.call(result), error_text.call(result));
}

Result<std::unique_ptr<Driver>> open_driver() { return VendorDriver::open(); }

Status VendorDriver::set_up() { return {}; }

VendorDriver::~VendorDriver() = default;

// No memory operations: each is a launch, maybe a kernel, and our kernels handle many words at
// once. No shared words: memory of hipMalloc may be cached, and kernels then miss stores by others.
Status VendorDriver::describe(int device, DeviceFacts& facts) const {
  char bus[32] = {};
  LANYARD_RETURN_IF_ERROR(api_.run(api_.bus, bus, static_cast<int>(sizeof bus) - 1, device));
  facts.name += std::string(" (PCI ") + bus + ")";
  return {};
}

Result<ContextHandle> VendorDriver::make_context(int device) { return vendor::handle_of(device); }

Result<ContextHandle> VendorDriver::owner_of(StreamHandle stream) {
  const int device = api_.device_of_stream.call(static_cast<hipStream_t>(stream));
  if (device < 0)
    return Status(Code::kInvalidArgument, "hipGetStreamDeviceId: not a stream, or one that was destroyed");
  return context_of_device(device);
}

Status VendorDriver::run_memory_ops(StreamHandle /*stream*/, std::span<const MemoryOp> /*ops*/) {
  return Status(Code::kUnsupported, "HIP's memory operations need signal memory");
}

Status VendorDriver::launch(StreamHandle stream, KernelHandle kernel, uint32_t blocks, uint32_t threads,
                            std::span<const std::byte> argument, Order /*order*/) {
  void* parameters[] = {const_cast<std::byte*>(argument.data())};
  return api_.run(api_.launch, static_cast<hipFunction_t>(kernel), blocks, 1, 1, threads, 1, 1, 0,
                  static_cast<hipStream_t>(stream), parameters, nullptr);
}

Status VendorDriver::copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  return api_.run(api_.copy, pointer_to(to), pointer_to(from), bytes, hipMemcpyDefault,
                  static_cast<hipStream_t>(stream));
}

Result<PointerFacts> VendorDriver::facts_of(const void* address) {
  PointerFacts facts;
  hipPointerAttribute_t attributes{};
  const hipError_t result = api_.pointer_facts.call(&attributes, address);
  if (result == hipErrorInvalidValue)
    return facts;  // memory that the library does not know
  LANYARD_RETURN_IF_ERROR(api_.status(result, api_.pointer_facts.name));
  if (attributes.hostPointer == nullptr && attributes.devicePointer == nullptr)
    return facts;
  facts.address =
      reinterpret_cast<DeviceAddress>(attributes.devicePointer != nullptr ? attributes.devicePointer : address);
  if (attributes.isManaged != 0) {
    facts.kind = PointerFacts::Kind::kManaged;
    return facts;
  }
  // Go by the pointers: the numbers of types differ between releases.
  if (attributes.hostPointer != nullptr) {
    facts.kind = PointerFacts::Kind::kPinned;
    return facts;
  }
  facts.kind = PointerFacts::Kind::kDevice;
  facts.device = attributes.device;
  hipDeviceptr_t base = nullptr;
  size_t bytes = 0;
  LANYARD_RETURN_IF_ERROR(api_.run(api_.allocation, &base, &bytes, const_cast<void*>(address)));
  facts.address = reinterpret_cast<DeviceAddress>(address);
  facts.base = reinterpret_cast<DeviceAddress>(base);
  facts.bytes = bytes;
  return facts;
}

}  // namespace lanyard::gpu
