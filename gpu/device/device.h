// Device: one device (one context of it) as streams and copies use it: its kernels, loaded and warm, and small slabs of
// words. Devices: those of one driver, opened when they are first asked for.
//
// Everything that the vendors load lazily is loaded here, once: a kernel's first launch may wait for all streams of the
// device, and one of them may be waiting for us.
#ifndef LANYARD_GPU_DEVICE_DEVICE_H_
#define LANYARD_GPU_DEVICE_DEVICE_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "gpu/combine.h"
#include "gpu/device/census.h"
#include "gpu/device/driver.h"
#include "gpu/device/kernel_arguments.h"
#include "gpu/lane_end.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

enum class Kernel { kRing, kStore, kStoreNext, kWait, kWaitNext, kCopy, kServe, kPack, kReduce, kLanes };
inline constexpr size_t kKernels = static_cast<size_t>(Kernel::kLanes) + 1;

// Equal places of some memory. Any thread at any time, once it has the memory.
class Slab {
 public:
  Slab(uint32_t places, uint64_t bytes, const char* what) : places_(places), bytes_(bytes), what_(what) {}
  // Once. `device`: its name, for messages.
  void begin(DeviceAddress memory, const std::string& device);
  uint64_t bytes() const { return places_ * bytes_; }
  bool has(DeviceAddress address) const { return address - memory_ < bytes(); }
  // kExhausted: all are taken.
  Result<DeviceAddress> take();
  void give(DeviceAddress place);

 private:
  const uint64_t places_;
  const uint64_t bytes_;  // of a place
  const char* const what_;
  std::string device_;
  DeviceAddress memory_ = 0;
  std::mutex mutex_;
  std::vector<DeviceAddress> free_;
};

// Two words of pinned host memory, a cache line each, that the host and the device both reach.
struct WordPair {
  uint64_t* first = nullptr;
  uint64_t* second = nullptr;
  DeviceAddress first_address = 0;
  DeviceAddress second_address = 0;
};

// A ring of commands for the kernel `serve`, in pinned host memory.
struct CommandRing {
  CopyCommands* commands = nullptr;
  DeviceAddress address = 0;
};

// Whether other processes use a device too, whose kernels then run in turns of milliseconds with this one's: a kernel
// that waits keeps the others from what it waits for.
enum class Sharing {
  kAlone,
  kShared,
  kAsk,  // whoever has asked so on this host (Census)
};

// Any thread at any time. The driver outlives it.
class Device {
 public:
  static constexpr uint32_t kPairs = 1024;
  static constexpr uint32_t kRings = 16;
  static constexpr uint32_t kCounts = 16384;
  static constexpr uint32_t kEnds = 4096;

  // Blocks until the kernels are loaded; while a stream of the device is held up, that may be for as long.
  static Result<std::unique_ptr<Device>> open(Driver& driver, ContextHandle context, Sharing sharing);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  // Requires: nothing uses its words any more.
  ~Device();

  Driver& driver() { return driver_; }
  ContextHandle context() const { return context_; }
  int ordinal() const { return ordinal_; }
  const DeviceFacts& facts() const { return facts_; }
  // At the moment.
  bool is_shared() const { return sharing_ == Sharing::kShared || (census_ != nullptr && census_->has_others()); }

  // With the context current. `kernel` is one of those on words; a thread an entry.
  Status launch(StreamHandle stream, Kernel kernel, const WordArguments& arguments);
  Status launch(StreamHandle stream, uint32_t blocks, const CopyArguments& arguments);
  Status launch(StreamHandle stream, const ServeArguments& arguments);
  Status launch(StreamHandle stream, const PackArguments& arguments);
  Status launch(StreamHandle stream, const CombineArguments& arguments);
  // For so many chunks, the longest of so many bytes.
  Status launch(StreamHandle stream, uint64_t chunks, uint64_t chunk_bytes, const LaneArguments& arguments);

  // Both words 0. kExhausted: kPairs are taken.
  Result<WordPair> take_pair();
  // Requires: nothing that was enqueued or captured names it.
  void give_pair(const WordPair& pair) { pairs_.give(pair.first_address); }
  // All zeros. kExhausted: kRings are taken.
  Result<CommandRing> take_ring();
  // Requires: no kernel reads it.
  void give_ring(const CommandRing& ring) { rings_.give(ring.address); }

  // A word of device memory for what counts on. Blocks for a kernel on a stream of our own. kExhausted: kCounts are
  // taken.
  Result<uint64_t*> take_count(uint64_t value);
  void give_count(uint64_t* count) { counts_.give(reinterpret_cast<DeviceAddress>(count)); }
  bool has_count(const uint64_t* count) const { return counts_.has(reinterpret_cast<DeviceAddress>(count)); }
  // Device memory with that content. Blocks as take_count(), and may wait for the device where none of that size was
  // given back before: it is kept until the end, since freeing it would wait for the device. kExhausted.
  Result<std::byte*> take_memory(std::span<const uint64_t> content);
  // The same with any content.
  Result<std::byte*> take_memory(size_t words);
  void give_memory(std::byte* memory);

  // A side of a lane, all zeros. Blocks as take_count(). kExhausted: kEnds are taken.
  Result<DeviceAddress> take_end();
  // Writes what stands in an end before `started`. Blocks likewise.
  Status write_end(DeviceAddress end, const LaneEnd& content);
  // Requires: no kernel of any device writes it any more.
  void give_end(DeviceAddress end) { ends_.give(end); }

 private:
  static constexpr uint64_t kLine = 64;
  static constexpr uint64_t kPairBytes = 2 * kLine;

  // Blocks for so many units of work: a few a thread, and no more than run at a time.
  uint32_t blocks_for(uint64_t units, uint32_t threads) const;
  Device(Driver& driver, ContextHandle context, Sharing sharing)
      : driver_(driver), context_(context), sharing_(sharing) {}
  Status set_up();
  template <typename Arguments>
  Status launch(StreamHandle stream, Kernel kernel, uint32_t blocks, uint32_t threads, const Arguments& arguments,
                Driver::Order order = Driver::Order::kBehind);
  // Launches on the side stream and waits for it. Holding side_, with the context current.
  Status run_aside(Kernel kernel, const WordArguments& arguments);
  Status wait_aside();
  // Stores words of device memory. Blocks as take_count().
  Status store(DeviceAddress to, std::span<const uint64_t> words);

  Driver& driver_;
  const ContextHandle context_;
  const Sharing sharing_;
  std::unique_ptr<Census> census_;  // may be null
  int ordinal_ = 0;
  DeviceFacts facts_;
  std::array<KernelHandle, kKernels> kernels_{};

  std::mutex side_;
  StreamHandle side_stream_ = nullptr;

  std::byte* host_memory_ = nullptr;  // the pairs, then the rings
  DeviceAddress host_address_ = 0;
  Slab pairs_{kPairs, kPairBytes, "streams and copy queues exist on"};
  Slab rings_{kRings, sizeof(CopyCommands), "copy queues exist on"};
  DeviceAddress device_memory_ = 0;  // the ends, then the counts
  Slab ends_{kEnds, sizeof(LaneEnd), "lanes end on"};
  Slab counts_{kCounts, sizeof(uint64_t), "counts are in use on"};
  std::map<DeviceAddress, size_t> memory_;       // of take_memory(): words
  std::multimap<size_t, DeviceAddress> unused_;  // given back, by words
};

// How a process uses its devices.
struct DeviceOptions {
  Sharing sharing = Sharing::kAlone;
  std::chrono::nanoseconds copy_linger{0};  // of CopyQueue::make()
  // A batch with a wait, not captured, for a word of the host's is kAgain until the wait is met. For tools under which
  // no kernel starts while a stream waits.
  bool only_met_waits = false;
  // Others than devices write device memory, a card: waits flush what they wrote, where the vendor's can.
  bool foreign_writes = false;
};

// Any thread at any time. The driver outlives it. The devices live as long as it does; opening one blocks as
// Device::open() does.
class Devices {
 public:
  Devices(Driver& driver, const DeviceOptions& options) : driver_(driver), options_(options) {}

  Result<Device*> of_context(ContextHandle context);
  // In the context that the vendor's run-time library uses.
  Result<Device*> of_ordinal(int ordinal);

  Driver& driver() { return driver_; }
  const DeviceOptions& options() const { return options_; }

 private:
  Driver& driver_;
  const DeviceOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DEVICE_H_
