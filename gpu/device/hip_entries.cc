#include "gpu/device/hip_entries.h"

#include <dlfcn.h>
#include <hip/hip_version.h>

#include <string>

#include "gpu/device/driver_error.h"

namespace lanyard::gpu {
namespace {

Fault fault_of(hipError_t result) {
  switch (result) {
    case hipErrorOutOfMemory: return Fault::kNoMemory;
    case hipErrorInvalidValue:
    case hipErrorInvalidHandle:
    case hipErrorInvalidContext:
    case hipErrorInvalidDevice:
    case hipErrorInvalidDevicePointer:
    case hipErrorContextIsDestroyed:
    case hipErrorNotFound: return Fault::kBadArgument;
    case hipErrorNotSupported:
    case hipErrorPeerAccessUnsupported:
    case hipErrorNoBinaryForGpu:
    case hipErrorNoDevice: return Fault::kUnsupported;
    case hipErrorHostMemoryAlreadyRegistered: return Fault::kAlreadyRegistered;
    case hipErrorStreamCaptureUnsupported:
    case hipErrorStreamCaptureInvalidated:
    case hipErrorStreamCaptureMerge:
    case hipErrorStreamCaptureUnmatched:
    case hipErrorStreamCaptureUnjoined:
    case hipErrorStreamCaptureIsolation:
    case hipErrorStreamCaptureImplicit:
    case hipErrorStreamCaptureWrongThread: return Fault::kCapture;
    case hipErrorIllegalAddress: return Fault::kIllegalAddress;
    case hipErrorLaunchFailure:
    case hipErrorLaunchTimeOut:
    case hipErrorAssert: return Fault::kLaunchFailed;
    case hipErrorDeinitialized:
    case hipErrorECCNotCorrectable: return Fault::kGone;
    default: return Fault::kOther;
  }
}

}  // namespace

Result<HipEntries> HipEntries::load() {
  const std::string versioned = "libamdhip64.so." + std::to_string(HIP_VERSION_MAJOR);
  void* library = nullptr;
  for (const char* name : {versioned.c_str(), "libamdhip64.so"})
    if (library == nullptr)
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Status(Code::kUnsupported, "this machine has no HIP library: " + std::string(dlerror()));
  HipEntries entries;
  const char* missing = nullptr;
  const auto look_up = [&](const char* name) {
    void* const entry = dlsym(library, name);
    if (entry == nullptr)
      missing = name;
    return entry;
  };
#define LANYARD_HIP_LOOK_UP(name) entries.name = reinterpret_cast<decltype(&::name)>(look_up(#name));
  LANYARD_HIP_ENTRIES(LANYARD_HIP_LOOK_UP)
#undef LANYARD_HIP_LOOK_UP
#define LANYARD_HIP_LOOK_UP(name, type) entries.name = reinterpret_cast<type>(look_up(#name));
  LANYARD_HIP_TYPED_ENTRIES(LANYARD_HIP_LOOK_UP)
#undef LANYARD_HIP_LOOK_UP
  if (missing != nullptr)
    return Status(Code::kUnsupported, std::string("the HIP library has no ") + missing);
#define LANYARD_HIP_LOOK_UP(name, type) entries.name = reinterpret_cast<type>(dlsym(library, #name));
  LANYARD_HIP_LATER_ENTRIES(LANYARD_HIP_LOOK_UP)
#undef LANYARD_HIP_LOOK_UP
  int version = 0;
  LANYARD_RETURN_IF_ERROR(entries.status(entries.hipRuntimeGetVersion(&version), "hipRuntimeGetVersion"));
  if (version / 10'000'000 != HIP_VERSION_MAJOR)
    return Status(Code::kUnsupported, "Lanyard was built with HIP " + std::to_string(HIP_VERSION_MAJOR) +
                                          ", this machine has " + std::to_string(version / 10'000'000) +
                                          ": build it with this machine's HIP");
  return entries;
}

Status HipEntries::status(hipError_t result, const char* call) const {
  if (result == hipSuccess)
    return {};
  return driver_error(fault_of(result), call, hipGetErrorName(result), hipGetErrorString(result));
}

}  // namespace lanyard::gpu
