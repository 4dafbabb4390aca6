// Device: one device (one context of it) for streams and copies: its loaded kernels, and small
// slabs of words. Devices: the devices of one driver, opened when first used. HostPages: host
// memory that they reach. Census: which of them other processes use.
//
// Everything that the vendors load lazily is loaded here, once. A kernel's first launch may wait
// for all streams of the device, and one of them may be waiting for us.
#ifndef LANYARD_GPU_DEVICE_DEVICE_H_
#define LANYARD_GPU_DEVICE_DEVICE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "gpu/combine.h"
#include "gpu/device/driver.h"
#include "gpu/device/kernel_arguments.h"
#include "gpu/lane_protocol.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

enum class Kernel { kRing, kStore, kStoreNext, kWait, kWaitNext, kCopy, kServe, kPack, kReduce, kLanes };
inline constexpr size_t kKernels = static_cast<size_t>(Kernel::kLanes) + 1;

// Places of equal size in some memory. Any thread may use it at any time after begin().
class Slab {
 public:
  Slab(uint32_t places, uint64_t bytes, const char* what) : places_(places), bytes_(bytes), what_(what) {}
  // Call it once. `device`: the device's name, for messages. `memory` has bytes() bytes.
  void begin(DeviceAddress memory, const std::string& device);
  uint64_t bytes() const { return places_ * bytes_; }
  bool has(DeviceAddress address) const { return address - memory_ < bytes(); }
  // kExhausted: all places are taken.
  Result<DeviceAddress> take();
  void give(DeviceAddress place);

 private:
  const uint64_t places_;
  const uint64_t bytes_;  // of one place
  const char* const what_;
  std::string device_;
  DeviceAddress memory_ = 0;
  std::mutex mutex_;
  std::vector<DeviceAddress> free_;
};

// Two words of pinned host memory, one cache line each, that the host and the device both reach.
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

// Tells whether other processes of this user on this host use the same thing. Any thread may use it
// at any time.
//
// Each user of the thing holds a lock on a file named after it; the system releases the lock when a
// process dies. A word in the file changes when a process joins or leaves; while it stays the same,
// asking costs one load. Source: fcntl(2), "Open file description locks".
class Census {
 public:
  // Joins the users of `thing` (letters, digits, '-'). The file is in `folder`, and stays there.
  // kUnsupported: the file cannot be made or locked.
  static Result<std::unique_ptr<Census>> join(const std::string& folder, const std::string& thing);
  Census(const Census&) = delete;
  Census& operator=(const Census&) = delete;
  ~Census();

  // Whether other processes have joined. One that has died counts until another joins or leaves.
  bool has_others();

 private:
  explicit Census(int file);

  const int file_;
  const int process_;            // that joined
  uint64_t* changes_ = nullptr;  // in the file
  std::mutex mutex_;
  std::atomic<uint64_t> seen_{0};
  std::atomic<bool> others_{false};
};

// Whether other processes use a device too. Kernels of such processes take turns of milliseconds.
// So a kernel that waits may hold up the process that it waits for.
enum class Sharing {
  kAlone,
  kShared,
  kAsk,  // shared while another process of this host that has kAsk uses the device (Census)
};

// Any thread may use it at any time. The driver must outlive it.
class Device {
 public:
  static constexpr uint32_t kPairs = 1024;
  static constexpr uint32_t kRings = 16;
  static constexpr uint32_t kCounts = 16384;
  static constexpr uint32_t kEnds = 4096;

  // Blocks until the kernels are loaded, which may take as long as a stream of the device
  // is held up.
  static Result<std::unique_ptr<Device>> open(Driver& driver, ContextHandle context, Sharing sharing);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  // Requires: nothing uses its words any more.
  ~Device();

  Driver& driver() { return driver_; }
  ContextHandle context() const { return context_; }
  int ordinal() const { return ordinal_; }
  const DeviceFacts& facts() const { return facts_; }
  // Whether other processes use the device now.
  bool is_shared() const { return sharing_ == Sharing::kShared || (census_ != nullptr && census_->has_others()); }

  // Launch kernels. Require: the context is current. `kernel` must take WordArguments; one thread
  // per entry.
  Status launch(StreamHandle stream, Kernel kernel, const WordArguments& arguments);
  Status launch(StreamHandle stream, uint32_t blocks, const CopyArguments& arguments);
  Status launch(StreamHandle stream, const ServeArguments& arguments);
  Status launch(StreamHandle stream, const PackArguments& arguments);
  Status launch(StreamHandle stream, const CombineArguments& arguments);
  // For `chunks` chunks, the longest of `chunk_bytes` bytes.
  Status launch(StreamHandle stream, uint64_t chunks, uint64_t chunk_bytes, const LaneArguments& arguments);

  // Both words 0. kExhausted: kPairs are taken.
  Result<WordPair> take_pair();
  // Requires: nothing enqueued or captured names it.
  void give_pair(const WordPair& pair) { pairs_.give(pair.first_address); }
  // All zeros. kExhausted: kRings are taken.
  Result<CommandRing> take_ring();
  // Requires: no kernel reads it.
  void give_ring(const CommandRing& ring) { rings_.give(ring.address); }

  // A word of device memory for operations that count. Blocks for a kernel on Lanyard's own stream.
  // kExhausted: kCounts are taken.
  Result<uint64_t*> take_count(uint64_t value);
  void give_count(uint64_t* count) { counts_.give(reinterpret_cast<DeviceAddress>(count)); }
  bool has_count(const uint64_t* count) const { return counts_.has(reinterpret_cast<DeviceAddress>(count)); }
  // Device memory with the given content. Blocks as take_count(). May also wait for the device, if
  // no memory of this size was given back before. Given back, it is kept until the end, since
  // freeing it would wait for the device. kExhausted.
  Result<std::byte*> take_memory(std::span<const uint64_t> content);
  // The same, with undefined content.
  Result<std::byte*> take_memory(size_t words);
  void give_memory(std::byte* memory);

  // A LaneEnd, all zeros. Blocks as take_count(). kExhausted: kEnds are taken.
  Result<DeviceAddress> take_end();
  // Writes the fields of a LaneEnd that come before `started`. Blocks likewise.
  Status write_end(DeviceAddress end, const LaneEnd& content);
  // Requires: no kernel of any device writes it any more.
  void give_end(DeviceAddress end) { ends_.give(end); }

 private:
  static constexpr uint64_t kLine = 64;
  static constexpr uint64_t kPairBytes = 2 * kLine;

  // How many blocks to launch for `units` units of work: a unit a thread, but at most 8 blocks
  // a multiprocessor.
  uint32_t blocks_for(uint64_t units, uint32_t threads) const;
  Device(Driver& driver, ContextHandle context, Sharing sharing)
      : driver_(driver), context_(context), sharing_(sharing) {}
  Status set_up();
  template <typename Arguments>
  Status launch(StreamHandle stream, Kernel kernel, uint32_t blocks, uint32_t threads, const Arguments& arguments,
                Driver::Order order = Driver::Order::kAfter);
  // Launches on the side stream and waits for it. Requires: side_ is held, the context is current.
  Status run_aside(Kernel kernel, const WordArguments& arguments);
  Status wait_aside();
  // A place of device memory with the given content. Blocks as take_count().
  Result<DeviceAddress> take(Slab& slab, std::span<const uint64_t> content);
  // Stores words to device memory. Blocks likewise.
  Status store(DeviceAddress to, std::span<const uint64_t> words);

  Driver& driver_;
  const ContextHandle context_;
  const Sharing sharing_;
  std::unique_ptr<Census> census_;  // null if not asked for, or not available
  int ordinal_ = 0;
  DeviceFacts facts_;
  std::array<KernelHandle, kKernels> kernels_{};

  std::mutex side_;
  StreamHandle side_stream_ = nullptr;

  std::byte* host_memory_ = nullptr;  // the pairs, then the rings
  DeviceAddress host_address_ = 0;
  Slab pairs_{kPairs, kPairBytes, "pairs of words (one a stream, up to two a copy queue)"};
  Slab rings_{kRings, sizeof(CopyCommands), "rings of commands (one a copy queue)"};
  DeviceAddress device_memory_ = 0;  // the ends, then the counts
  Slab ends_{kEnds, sizeof(LaneEnd), "ends of lanes"};
  Slab counts_{kCounts, sizeof(uint64_t), "counters"};
  std::map<DeviceAddress, size_t> memory_;       // all of take_memory(): its size in words
  std::multimap<size_t, DeviceAddress> unused_;  // given back, by size in words
};

// How a process uses its devices.
struct DeviceOptions {
  Sharing sharing = Sharing::kAlone;
  std::chrono::nanoseconds copy_linger{0};  // for CopyQueue::make()
  // Enqueue a batch that waits for a host word only once the wait is met; until then kAgain.
  // Captures are exempt. For tools under which no kernel starts while a stream waits.
  bool only_met_waits = false;
  // A NIC, not only devices, writes device memory: waits flush its writes, if the vendor's
  // waits can.
  bool foreign_writes = false;
};

// Any thread may use it at any time. The driver must outlive it. Devices live as long as it does;
// opening one blocks as Device::open() does.
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

// Lets devices reach ordinary host memory, page by page. Any thread may use it at any time. The
// driver must outlive it.
//
// Streams write and wait for words in host memory that others own. A page is registered with the
// driver, for all devices, when a device first asks for one of its words. It stays registered until
// forget() or the end.
class HostPages {
 public:
  struct Place {
    DeviceAddress address = 0;
    bool on_device = false;  // device memory, which the host must not touch
  };

  explicit HostPages(Driver& driver);
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  // Unregisters all pages. Requires: no device reaches them any more.
  ~HostPages();

  // The address at which the device reaches a word (8-aligned). Registers the word's page if it is
  // not registered. Requires: the device's context is current. kUnsupported: managed memory, memory
  // that the driver does not register, or memory of a device out of reach.
  Result<Place> reach(const Device& device, const uint64_t* word);

  // Unregisters all pages. Call it before memory with words is unmapped or freed. Requires: nothing
  // enqueued names a word of these pages. May wait for devices.
  void forget();

 private:
  // A page that this object has registered.
  struct Page {
    ContextHandle context;                   // where it was registered
    std::map<int, DeviceAddress> addresses;  // by the device's ordinal
  };
  uint64_t page_of(const void* address) const { return reinterpret_cast<uint64_t>(address) & ~(page_bytes_ - 1); }
  Result<Place> look_up(const Device& device, const uint64_t* word);
  Status register_page(const Device& device, uint64_t page);

  Driver& driver_;
  const uint64_t page_bytes_;
  std::shared_mutex mutex_;
  std::map<uint64_t, Page> registered_;  // by address
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DEVICE_H_
