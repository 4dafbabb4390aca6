// Driver: the part of CUDA's and HIP's drivers that gpu/device needs, under neutral names.
//
// Everything above this interface is written once and tested over a driver on host threads
// (tests/gpu/fake_driver.h). Streams, contexts and kernels are the vendor's own handles. Words
// and buffers are named by their address on the device (DeviceAddress), which may differ from
// the host's.
//
// Threads: any. Unless it says otherwise, a call requires a current context (Inside) and does not
// wait for any stream. Errors carry the vendor's name of the error and advice (driver_error()).
// kFailed means that the device, or this process's use of it, is lost.
#ifndef LANYARD_GPU_DEVICE_DRIVER_H_
#define LANYARD_GPU_DEVICE_DRIVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "transport/base/status.h"

namespace lanyard::gpu {

using StreamHandle = void*;   // CUstream, hipStream_t; null is the default stream
using ContextHandle = void*;  // CUcontext; with HIP it stands for a device
using KernelHandle = void*;
using DeviceAddress = uint64_t;

// Facts about a device.
struct DeviceFacts {
  std::string name;                  // with its place on the bus, for messages
  std::array<std::byte, 16> uuid{};  // the same in every process of the host
  int multiprocessors = 1;
  // Stream-ordered 64-bit writes and waits, on any registered host memory.
  bool has_memory_ops = false;
  // Running kernels see stores by other devices to this device's memory.
  bool shares_words = false;
};

// Facts about an address.
struct PointerFacts {
  enum class Kind {
    kPageable,  // unknown to the driver
    kPinned,    // host memory that devices reach
    kDevice,
    kManaged,  // migrates between host and device
  };
  Kind kind = Kind::kPageable;
  int device = -1;            // kDevice
  DeviceAddress base = 0;     // kDevice: the start of its allocation
  uint64_t bytes = 0;         // kDevice: the size of the allocation
  DeviceAddress address = 0;  // not kPageable: the address on the current context's device
};

// One stream-ordered operation on a word, without a kernel.
struct MemoryOp {
  enum class Kind : uint8_t { kWrite, kWait };  // kWait: until *word >= value
  Kind kind = Kind::kWrite;
  DeviceAddress word = 0;
  uint64_t value = 0;
};

class Driver {
 public:
  static constexpr size_t kMemoryOpsAtOnce = 255;

  using IpcHandle = std::array<std::byte, 64>;
  // The state that leave() restores.
  struct Place {
    ContextHandle context = nullptr;
    int capture_mode = 0;
  };

  virtual ~Driver() = default;

  virtual const char* kind() const = 0;  // "cuda", "hip"

  // ---- Devices and contexts: no context need be current

  virtual int device_count() const = 0;
  virtual Result<DeviceFacts> facts(int device) = 0;
  // The context that the vendor's runtime library uses. Lives as long as the driver.
  virtual Result<ContextHandle> context_of_device(int device) = 0;
  // kInvalidArgument: not a stream, as far as the vendor can tell.
  virtual Result<ContextHandle> context_of_stream(StreamHandle stream) = 0;
  virtual Result<int> device_of_context(ContextHandle context) = 0;
  // The calling thread's current device, or 0.
  virtual int current_device() = 0;
  // Makes a context current on the calling thread. Allows calls there that a capture elsewhere
  // would forbid.
  virtual Result<Place> enter(ContextHandle context) = 0;
  virtual void leave(const Place& place) = 0;
  // Lets the current context reach memory of `device`. Does nothing if it already can.
  // kUnsupported: no path between them.
  virtual Status reach_device(int device) = 0;

  // Whether the current context's device adds atomically to words of `device`, also with respect to
  // that device's own adds.
  virtual Result<bool> adds_indivisibly(int device) = 0;

  // ---- Streams

  // A stream of the highest priority, not ordered with the default stream.
  virtual Result<StreamHandle> make_stream() = 0;
  virtual void destroy_stream(StreamHandle stream) = 0;
  // Whether all its work has run. Never call it for a stream in a capture: the vendors invalidate
  // the capture.
  virtual Result<bool> is_empty(StreamHandle stream) = 0;
  // The number of the capture in progress; 0: none.
  virtual Result<uint64_t> capture_of(StreamHandle stream) = 0;

  // ---- Work. All may block while the stream's launch queue (some 1000 entries) is full.

  // Runs them in order. Requires: at most kMemoryOpsAtOnce, and DeviceFacts::has_memory_ops.
  virtual Status run_memory_ops(StreamHandle stream, std::span<const MemoryOp> ops) = 0;
  // Loads kernels.cu into the current context, for good, and finds the kernel `name`.
  virtual Result<KernelHandle> load_kernel(const char* name) = 0;
  // How a launch is ordered with earlier work of its stream.
  enum class Order {
    kAfter,
    // Its kernel may begin before that work ends, and waits for it by itself.
    kOverlapping,
  };
  // `argument` is the kernel's only parameter. It is copied.
  virtual Status launch(StreamHandle stream, KernelHandle kernel, uint32_t blocks, uint32_t threads,
                        std::span<const std::byte> argument, Order order) = 0;
  // By a copy engine.
  virtual Status copy(StreamHandle stream, DeviceAddress to, DeviceAddress from, uint64_t bytes) = 0;

  // ---- Memory

  // Makes host memory (whole pages) reachable by every device. kInvalidState: some of it is
  // registered already.
  virtual Status register_host(void* memory, uint64_t bytes) = 0;
  virtual void unregister_host(void* memory) = 0;
  // Host memory that every device reaches. free_host() may wait for devices.
  virtual Result<void*> allocate_host(uint64_t bytes) = 0;
  virtual void free_host(void* memory) = 0;
  // Both may wait for devices.
  virtual Result<DeviceAddress> allocate(uint64_t bytes) = 0;
  virtual void free(DeviceAddress memory) = 0;
  // No context need be current.
  virtual Result<PointerFacts> facts_of(const void* address) = 0;

  // A handle by which other processes reach the allocation that begins at `base`. kUnsupported:
  // such memory cannot be shared.
  virtual Result<IpcHandle> lend(DeviceAddress base) = 0;
  // Maps memory that another process has lent, for the current context. kUnsupported: it cannot.
  virtual Result<DeviceAddress> borrow(const IpcHandle& handle) = 0;
  virtual void give_back(DeviceAddress base) = 0;
};

// Makes a context current on the calling thread for its own lifetime, if status() is ok.
class Inside {
 public:
  Inside(Driver& driver, ContextHandle context) : driver_(driver), place_(driver.enter(context)) {}
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() {
    if (place_.ok())
      driver_.leave(place_.value());
  }
  const Status& status() const { return place_.status(); }

 private:
  Driver& driver_;
  Result<Driver::Place> place_;
};

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

// Translates a driver's error to a Status with advice. The message is "CALL: NAME (TEXT); ADVICE".
Status driver_error(Fault fault, const char* call, const char* name, const char* text);

// The driver that this build is for (--config=cuda, --config=hip, or none). kUnsupported: the build
// is for neither vendor, or this machine has no such driver or device. The message says which.
Result<std::unique_ptr<Driver>> open_driver();

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DRIVER_H_
