#include "gpu/device/driver.h"

#include <algorithm>
#include <initializer_list>
#include <string>

namespace lanyard::gpu {
namespace {

struct Meaning {
  std::initializer_list<int> numbers;
  Code code;
  const char* advice;
};

constexpr Meaning kMeanings[] = {
    {{2}, Code::kExhausted, "out of memory on the device, or of pinned host memory: see ulimit -l and other processes"},
    // Invalid value, device pointer (HIP), device, context, handle; not found; context destroyed.
    {{1, 17, 101, 201, 400, 500, 709},
     Code::kInvalidArgument,
     "a stream, context or address is not valid, or has been freed"},
    // No device, already mapped, no binary for this GPU, peer access unsupported, unsupported PTX
    // version, too many peers, not permitted, not supported, system driver mismatch, compatibility
    // not supported on the device.
    {{100, 208, 209, 217, 222, 711, 800, 801, 803, 804},
     Code::kUnsupported,
     "this device or driver does not support it, or does not permit it"},
    {{712}, Code::kInvalidState, "the memory is already registered with the driver"},
    // Not allowed in a stream capture; 907 (a captured event) cannot occur here.
    {{900, 901, 902, 903, 904, 905, 906, 908},
     Code::kInvalidState,
     "the call is not allowed while a stream is captured into a graph"},
    // Illegal or misaligned address, invalid address space.
    {{700, 716, 717},
     Code::kFailed,
     "the device reported an illegal address, and this process cannot use it any more. A kernel of the program "
     "did it, or memory was freed while streams or graphs still use it: run compute-sanitizer"},
    // Launch timeout, assertion, illegal instruction, launch failure.
    {{702, 710, 715, 719},
     Code::kFailed,
     "a kernel failed on the device, and this process cannot use the device any more"},
    // Deinitialised, device unavailable, uncorrectable ECC error.
    {{4, 46, 214}, Code::kFailed, "the driver has shut down or the device is gone: see the system's kernel log"},
};

}  // namespace

Status driver_error(Fault fault, const char* call, const char* name, const char* text) {
  const auto knows = [&](const Meaning& meaning) {
    return std::ranges::find(meaning.numbers, static_cast<int>(fault)) != meaning.numbers.end();
  };
  const auto* const meaning = std::ranges::find_if(kMeanings, knows);
  const bool known = meaning != std::end(kMeanings);
  return Status(known ? meaning->code : Code::kFailed,
                std::string(call) + ": " + name + " (" + text + "); " +
                    (known ? meaning->advice : "an unknown error: Lanyard no longer uses the device"));
}

}  // namespace lanyard::gpu
