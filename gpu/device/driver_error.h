// What a driver's error means to Lanyard, and what a person can do about it.
#ifndef LANYARD_GPU_DEVICE_DRIVER_ERROR_H_
#define LANYARD_GPU_DEVICE_DRIVER_ERROR_H_

#include "transport/base/status.h"

namespace lanyard::gpu {

// The vendors' errors, as far as they differ in what follows from them.
enum class Fault {
  kNoMemory,
  kBadArgument,        // a handle or address that is not, or no longer, what it should be
  kUnsupported,        // the device or the driver cannot do it, or may not
  kAlreadyRegistered,  // host memory, or a part of it
  kCapture,            // not allowed while a stream is being captured
  kIllegalAddress,
  kLaunchFailed,
  kGone,  // the driver has shut down, or the device has fallen off
  kOther,
};

// "CALL: NAME (TEXT)", and the advice.
Status driver_error(Fault fault, const char* call, const char* name, const char* text);

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DRIVER_ERROR_H_
