// The entry points of HIP's run-time library, looked up when it is loaded: programs of this build run, on host streams,
// where there is none.
#ifndef LANYARD_GPU_DEVICE_HIP_ENTRIES_H_
#define LANYARD_GPU_DEVICE_HIP_ENTRIES_H_

#include <hip/hip_runtime_api.h>

#include <type_traits>

#include "transport/base/status.h"

#define LANYARD_HIP_ENTRIES(X)          \
  X(hipGetErrorName)                    \
  X(hipGetErrorString)                  \
  X(hipRuntimeGetVersion)               \
  X(hipGetDeviceCount)                  \
  X(hipGetDevice)                       \
  X(hipSetDevice)                       \
  X(hipDeviceGetName)                   \
  X(hipDeviceGetUuid)                   \
  X(hipDeviceGetPCIBusId)               \
  X(hipDeviceGetAttribute)              \
  X(hipDeviceCanAccessPeer)             \
  X(hipDeviceGetP2PAttribute)           \
  X(hipDeviceEnablePeerAccess)          \
  X(hipDeviceGetStreamPriorityRange)    \
  X(hipThreadExchangeStreamCaptureMode) \
  X(hipStreamCreateWithPriority)        \
  X(hipStreamDestroy)                   \
  X(hipGetStreamDeviceId)               \
  X(hipStreamQuery)                     \
  X(hipStreamGetCaptureInfo)            \
  X(hipStreamGetCaptureInfo_v2)         \
  X(hipStreamWriteValue64)              \
  X(hipModuleLoadData)                  \
  X(hipModuleGetFunction)               \
  X(hipModuleLaunchKernel)              \
  X(hipMemcpyAsync)                     \
  X(hipHostRegister)                    \
  X(hipHostUnregister)                  \
  X(hipHostFree)                        \
  X(hipFree)                            \
  X(hipPointerGetAttributes)            \
  X(hipMemGetAddressRange)              \
  X(hipIpcGetMemHandle)                 \
  X(hipIpcOpenMemHandle)                \
  X(hipIpcCloseMemHandle)

// Those that the header overloads for C++, with the library's own types.
#define LANYARD_HIP_TYPED_ENTRIES(X)                        \
  X(hipMalloc, hipError_t (*)(void** memory, size_t bytes)) \
  X(hipHostMalloc, hipError_t (*)(void** memory, size_t bytes, unsigned flags))

// Those that came with HIP 5.3, whose header need not be here.
#define LANYARD_HIP_LATER_ENTRIES(X)                                                                      \
  X(hipUserObjectCreate,                                                                                  \
    hipError_t (*)(void** object, void* pointer, void (*destroy)(void*), unsigned count, unsigned flags)) \
  X(hipGraphRetainUserObject, hipError_t (*)(hipGraph_t graph, void* object, unsigned count, unsigned flags))

namespace lanyard::gpu {

// Plain pointers, all set but for the later ones, which may be null. The library stays loaded until the process ends.
struct HipEntries {
#define LANYARD_HIP_MEMBER(name) decltype(&::name) name = nullptr;
  LANYARD_HIP_ENTRIES(LANYARD_HIP_MEMBER)
#undef LANYARD_HIP_MEMBER
#define LANYARD_HIP_MEMBER(name, type) std::type_identity_t<type> name = nullptr;
  LANYARD_HIP_TYPED_ENTRIES(LANYARD_HIP_MEMBER)
  LANYARD_HIP_LATER_ENTRIES(LANYARD_HIP_MEMBER)
#undef LANYARD_HIP_MEMBER

  // kUnsupported: no library, or one of another major version, whose numbers mean other things.
  static Result<HipEntries> load();

  // What an error of `call` means.
  Status status(hipError_t result, const char* call) const;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_HIP_ENTRIES_H_
