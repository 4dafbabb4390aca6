#include "gpu/device/driver_error.h"

#include <string>

namespace lanyard::gpu {
namespace {

struct Meaning {
  Code code;
  const char* advice;
};

Meaning meaning_of(Fault fault) {
  switch (fault) {
    case Fault::kNoMemory:
      return {Code::kExhausted, "the device or the host's pinned memory is used up: see ulimit -l and other processes"};
    case Fault::kBadArgument:
      return {Code::kInvalidArgument, "a stream, context or address is not valid, or has been freed"};
    case Fault::kUnsupported: return {Code::kUnsupported, "this device or driver cannot do it, or may not"};
    case Fault::kAlreadyRegistered: return {Code::kInvalidState, "the memory is registered with the driver already"};
    case Fault::kCapture: return {Code::kInvalidState, "a stream is being captured into a graph"};
    case Fault::kIllegalAddress:
      return {Code::kFailed,
              "the device reported an illegal address: a kernel of the program, or memory that was freed while streams "
              "or graphs still use it; compute-sanitizer finds it. The device is lost to this process"};
    case Fault::kLaunchFailed: return {Code::kFailed, "a kernel failed on the device, which is lost to this process"};
    case Fault::kGone: return {Code::kFailed, "the driver has shut down or the device is gone: see the kernel's log"};
    case Fault::kOther: break;
  }
  return {Code::kFailed, "the device is taken for lost"};
}

}  // namespace

Status driver_error(Fault fault, const char* call, const char* name, const char* text) {
  const Meaning meaning = meaning_of(fault);
  return Status(meaning.code, std::string(call) + ": " + name + " (" + text + "); " + meaning.advice);
}

}  // namespace lanyard::gpu
