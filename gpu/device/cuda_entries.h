// The entry points of CUDA's driver library, looked up when it is loaded: programs of this build run, on host streams,
// where there is none.
#ifndef LANYARD_GPU_DEVICE_CUDA_ENTRIES_H_
#define LANYARD_GPU_DEVICE_CUDA_ENTRIES_H_

#include <cuda.h>
#include <cudaTypedefs.h>

#include "transport/base/status.h"

// X(name, the version of the interface that we were written for)
#define LANYARD_CUDA_ENTRIES(X)               \
  X(cuGetErrorName, 6000)                     \
  X(cuGetErrorString, 6000)                   \
  X(cuInit, 2000)                             \
  X(cuDeviceGetCount, 2000)                   \
  X(cuDeviceGet, 2000)                        \
  X(cuDeviceGetName, 2000)                    \
  X(cuDeviceGetUuid, 11040)                   \
  X(cuDeviceGetAttribute, 2000)               \
  X(cuDeviceGetPCIBusId, 4010)                \
  X(cuDeviceCanAccessPeer, 4000)              \
  X(cuDeviceGetP2PAttribute, 8000)            \
  X(cuDevicePrimaryCtxRetain, 7000)           \
  X(cuDevicePrimaryCtxRelease, 11000)         \
  X(cuCtxGetCurrent, 4000)                    \
  X(cuCtxSetCurrent, 4000)                    \
  X(cuCtxGetDevice, 2000)                     \
  X(cuCtxEnablePeerAccess, 4000)              \
  X(cuCtxGetStreamPriorityRange, 5050)        \
  X(cuThreadExchangeStreamCaptureMode, 10010) \
  X(cuStreamCreateWithPriority, 5050)         \
  X(cuStreamDestroy, 4000)                    \
  X(cuStreamGetCtx, 9020)                     \
  X(cuStreamQuery, 2000)                      \
  X(cuStreamGetCaptureInfo, 11030)            \
  X(cuUserObjectCreate, 11030)                \
  X(cuGraphRetainUserObject, 11030)           \
  X(cuStreamBatchMemOp, 11070)                \
  X(cuModuleLoadData, 2000)                   \
  X(cuModuleGetFunction, 2000)                \
  X(cuDriverGetVersion, 2020)                 \
  X(cuLaunchKernelEx, 11060)                  \
  X(cuMemcpyAsync, 4000)                      \
  X(cuMemHostRegister, 6050)                  \
  X(cuMemHostUnregister, 4000)                \
  X(cuMemHostAlloc, 2020)                     \
  X(cuMemHostGetDevicePointer, 3020)          \
  X(cuMemFreeHost, 2000)                      \
  X(cuMemAlloc, 3020)                         \
  X(cuMemFree, 3020)                          \
  X(cuPointerGetAttributes, 7000)             \
  X(cuIpcGetMemHandle, 4010)                  \
  X(cuIpcOpenMemHandle, 11000)                \
  X(cuIpcCloseMemHandle, 4010)

namespace lanyard::gpu {

// Plain pointers, all set. The library stays loaded until the process ends.
struct CudaEntries {
#define LANYARD_CUDA_MEMBER(name, version) PFN_##name##_v##version name = nullptr;
  LANYARD_CUDA_ENTRIES(LANYARD_CUDA_MEMBER)
#undef LANYARD_CUDA_MEMBER

  // kUnsupported: no driver, or one that is older than CUDA 12.
  static Result<CudaEntries> load();

  // What an error of `call` means.
  Status status(CUresult result, const char* call) const;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_CUDA_ENTRIES_H_
