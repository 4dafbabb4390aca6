// Translates a driver's error to a Status with advice.
#ifndef LANYARD_GPU_DEVICE_DRIVER_ERROR_H_
#define LANYARD_GPU_DEVICE_DRIVER_ERROR_H_

#include "transport/base/status.h"

namespace lanyard::gpu {

// Errors by the numbers of CUDA's driver, which HIP shares. Only those that the sources use.
enum class Fault : int {
  kBadArgument = 1,
  kNoMemory = 2,
  kNotReady = 600,
  kIllegalAddress = 700,
  kReachedAlready = 704,
  kAlreadyRegistered = 712,  // host memory, or a part of it
  kUnsupported = 801,
  kCapture = 900,  // not allowed while a stream is being captured
};

// The message is "CALL: NAME (TEXT); ADVICE".
Status driver_error(Fault fault, const char* call, const char* name, const char* text);

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DRIVER_ERROR_H_
