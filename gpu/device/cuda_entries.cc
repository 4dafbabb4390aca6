#include "gpu/device/cuda_entries.h"

#include <dlfcn.h>

#include <string>

#include "gpu/device/driver_error.h"

namespace lanyard::gpu {
namespace {

Fault fault_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return Fault::kNoMemory;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_NOT_FOUND: return Fault::kBadArgument;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_ALREADY_MAPPED:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_TOO_MANY_PEERS:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: return Fault::kUnsupported;
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: return Fault::kAlreadyRegistered;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: return Fault::kCapture;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE: return Fault::kIllegalAddress;
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_ASSERT: return Fault::kLaunchFailed;
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE: return Fault::kGone;
    default: return Fault::kOther;
  }
}

}  // namespace

Result<CudaEntries> CudaEntries::load() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Status(Code::kUnsupported, "this machine has no NVIDIA driver: " + std::string(dlerror()));
  const auto find = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr)
    return Status(Code::kUnsupported, "the NVIDIA driver is older than CUDA 12");
  CudaEntries entries;
  const char* missing = nullptr;
  const auto look_up = [&](const char* name, int version) {
    void* entry = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    if (find(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) != CUDA_SUCCESS || entry == nullptr)
      missing = name;
    return entry;
  };
#define LANYARD_CUDA_LOOK_UP(name, version) \
  entries.name = reinterpret_cast<PFN_##name##_v##version>(look_up(#name, version));
  LANYARD_CUDA_ENTRIES(LANYARD_CUDA_LOOK_UP)
#undef LANYARD_CUDA_LOOK_UP
  if (missing != nullptr)
    return Status(Code::kUnsupported, std::string("the NVIDIA driver has no ") + missing + ": it is too old");
  return entries;
}

Status CudaEntries::status(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS)
    return {};
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS)
    name = "an unknown error";
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS)
    text = "no description";
  return driver_error(fault_of(result), call, name, text);
}

}  // namespace lanyard::gpu
