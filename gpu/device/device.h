// Device: one device (one context of it) as streams and copies use it: its kernels, loaded and warm, and small slabs of
// words.
//
// Everything that the vendors load lazily is loaded here, once: a kernel's first launch may wait for all streams of the
// device, and one of them may be waiting for us.
#ifndef LANYARD_GPU_DEVICE_DEVICE_H_
#define LANYARD_GPU_DEVICE_DEVICE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "gpu/combine.h"
#include "gpu/device/captures.h"
#include "gpu/device/census.h"
#include "gpu/device/driver.h"
#include "gpu/device/kernel_arguments.h"
#include "gpu/device/slots.h"
#include "lanyard/detail/lane_end.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

enum class Kernel { kRing, kStore, kStoreNext, kWait, kWaitNext, kCopy, kServe, kPack, kReduce, kLanes, kSmallLanes };
inline constexpr size_t kKernels = static_cast<size_t>(Kernel::kSmallLanes) + 1;

// Two words of pinned host memory, a cache line each, that the host and the device both reach.
struct WordPair {
  uint64_t* first = nullptr;
  uint64_t* second = nullptr;
  DeviceAddress first_address = 0;
  DeviceAddress second_address = 0;
  uint32_t slot = 0;
};

// A ring of commands for the kernel `serve`, in pinned host memory.
struct CommandRing {
  CopyCommands* commands = nullptr;
  DeviceAddress address = 0;
  uint32_t slot = 0;
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
  // `kernel` is kLanes, for so many chunks, the longest of so many bytes, or kSmallLanes.
  Status launch(StreamHandle stream, Kernel kernel, uint64_t chunks, uint64_t chunk_bytes,
                const LaneArguments& arguments);

  // Both words 0. kExhausted: kPairs are taken.
  Result<WordPair> take_pair();
  // Requires: nothing that was enqueued names it, nor any capture but `named`, which it is kept for.
  void give_pair(const WordPair& pair, Captures named = {});
  // All zeros. kExhausted: kRings are taken.
  Result<CommandRing> take_ring();
  // Requires: no kernel reads it.
  void give_ring(const CommandRing& ring) { rings_.give(ring.slot); }

  // A word of device memory for what counts on. Blocks for a kernel on a stream of our own. kExhausted: kCounts are
  // taken.
  Result<uint64_t*> take_count(uint64_t value);
  void give_count(uint64_t* count);
  bool has_count(const uint64_t* count) const {
    return reinterpret_cast<DeviceAddress>(count) - count_memory_ < kCounts * sizeof(uint64_t);
  }
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
  // Copies the ends, which are in the order of their addresses, to `content`. Blocks for copies on a stream of our own,
  // which no other stream holds up.
  Status read_ends(std::span<const DeviceAddress> ends, std::span<LaneEnd> content);
  // Requires: no kernel of any device writes it any more.
  void give_end(DeviceAddress end);

  // All zeros, for what another device writes (LaneEnd::slots): pieces of few allocations, as who borrows one maps all
  // of it. At most kSlab bytes. Blocks as take_memory().
  Result<DeviceAddress> take_slots(uint64_t bytes);
  // Requires: no kernel of any device touches it any more.
  void give_slots(DeviceAddress slots, uint64_t bytes);

 private:
  static constexpr uint64_t kSlab = uint64_t{2} << 20;

  // Gives back the pairs of graphs that are gone.
  void collect_pairs();
  // Blocks for so many units of work: a few a thread, and no more than run at a time.
  uint32_t blocks_for(uint64_t units, uint32_t threads) const;
  Device(Driver& driver, ContextHandle context, Sharing sharing)
      : driver_(driver),
        context_(context),
        sharing_(sharing),
        pairs_(kPairs),
        rings_(kRings),
        counts_(kCounts),
        ends_(kEnds) {}
  Status set_up();
  // Holding side_, with the context current.
  Result<DeviceAddress> find_memory(size_t words);
  // Launches on the side stream and waits for it. Holding side_, with the context current.
  Status run_aside(Kernel kernel, const WordArguments& arguments);
  Status wait_aside();
  // The first `bytes` of an end. Blocks as take_count().
  Status copy_to_end(DeviceAddress end, const LaneEnd& content, size_t bytes);
  // Holding side_, with the context current.
  Result<DeviceAddress> find_slots(uint64_t bytes);
  Status copy_aside(DeviceAddress to, DeviceAddress from, uint64_t bytes);

  Driver& driver_;
  const ContextHandle context_;
  const Sharing sharing_;
  std::unique_ptr<Census> census_;  // may be null
  int ordinal_ = 0;
  DeviceFacts facts_;
  std::array<KernelHandle, kKernels> kernels_{};

  std::mutex side_;
  StreamHandle side_stream_ = nullptr;

  std::byte* host_memory_ = nullptr;  // the pairs, then the rings, then what is copied aside
  DeviceAddress host_address_ = 0;
  Slots pairs_;
  std::mutex named_mutex_;
  std::vector<std::pair<uint32_t, Captures>> named_;  // pairs that were given back, by slot, and graphs name
  Slots rings_;
  Slots counts_;
  DeviceAddress count_memory_ = 0;
  Slots ends_;
  DeviceAddress end_memory_ = 0;
  std::map<DeviceAddress, size_t> memory_;       // of take_memory(): words
  std::multimap<size_t, DeviceAddress> unused_;  // given back, by words
  std::vector<DeviceAddress> slabs_;
  uint64_t slab_used_ = kSlab;                           // of the last one
  std::multimap<uint64_t, DeviceAddress> unused_slots_;  // given back, by bytes
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DEVICE_H_
