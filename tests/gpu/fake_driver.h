// FakeDriver: a GPU vendor's driver on host threads, for tests without a GPU.
//
// A stream is a thread that runs its queue in order; a full queue blocks the caller. Device memory
// is a memfd, mapped twice: without access at its device address, so that a host access faults, and
// readable elsewhere for the "device". Host memory gets a device address, which differs from its
// host address, only by registration.
//
// Kernels are host functions with the names of kernels.cu. A running `serve` kernel cannot reach
// memory mapped after its launch, as under a memory checker. A query of a stream under capture
// voids the capture, as in the vendors' drivers.
#ifndef LANYARD_TESTS_FAKE_DRIVER_H_
#define LANYARD_TESTS_FAKE_DRIVER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "gpu/device/driver.h"
#include "gpu/device/kernel_arguments.h"
#include "gpu/packing.h"

namespace lanyard {

// All functions may be called by any thread at any time.
class FakeDriver final : public gpu::Driver {
 public:
  using Item = std::function<void()>;
  using Graph = std::vector<Item>;

  struct Options {
    int devices = 1;
    bool has_memory_ops = true;
    bool shares_words = true;
    bool peers = true;  // devices reach each other's memory
    int confined = -1;  // except this device, which reaches no other
    bool adds_indivisibly = true;
    size_t queue = 1024;
  };

  FakeDriver() : FakeDriver(Options{}) {}
  explicit FakeDriver(const Options& options) : options_(options), contexts_(static_cast<size_t>(options.devices)) {}
  ~FakeDriver() override;

  // ---- For the test's program. Streams and memory live as long as the driver.

  gpu::StreamHandle make_program_stream(int device = 0);
  void call_host(gpu::StreamHandle stream, Item body);
  void begin_capture(gpu::StreamHandle stream);
  // Null if the capture was voided.
  std::optional<Graph> end_capture(gpu::StreamHandle stream);
  void replay(const Graph& graph, gpu::StreamHandle stream);
  // Allocates device memory. The caller may touch it only through at().
  std::byte* make_memory(uint64_t bytes, int device = 0);
  std::byte* at(const void* device_memory) { return reach(reinterpret_cast<uint64_t>(device_memory), 1); }

  // ---- For tests: faults and counts

  // From now on every call fails and streams stop, as after a kernel's illegal access.
  void lose_device() { lost_ = true; }
  void refuse_registration(bool refuse) { refuse_registration_ = refuse; }
  // Lets the next `launches` launches succeed and refuses all later ones.
  void refuse_launches_after(int launches) { launches_left_ = launches; }
  // While held, the kernel `serve` sees no command and does not end.
  void hold_server(bool hold) { server_held_ = hold; }
  // Counts submitted work. `what` is a kernel's name, "memory ops" (per batch) or "copy engine".
  uint64_t submissions(const std::string& what);
  uint64_t registered_ranges();
  uint64_t mapped_loans();

  // ---- Driver

  const char* kind() const override { return "fake"; }
  int device_count() const override { return options_.devices; }
  Result<gpu::DeviceFacts> facts(int device) override;
  Result<gpu::ContextHandle> context_of_device(int device) override;
  Result<gpu::ContextHandle> context_of_stream(gpu::StreamHandle stream) override;
  Result<int> device_of_context(gpu::ContextHandle context) override;
  int current_device() override;
  Result<Place> enter(gpu::ContextHandle context) override;
  void leave(const Place& place) override;
  Status reach_device(int device) override;
  Result<bool> adds_indivisibly(int) override { return options_.adds_indivisibly; }
  Result<gpu::StreamHandle> make_stream() override;
  void destroy_stream(gpu::StreamHandle stream) override;
  Result<bool> is_empty(gpu::StreamHandle stream) override;
  Result<uint64_t> capture_of(gpu::StreamHandle stream) override;
  Status run_memory_ops(gpu::StreamHandle stream, std::span<const gpu::MemoryOp> ops) override;
  Result<gpu::KernelHandle> load_kernel(const char* name) override;
  Status launch(gpu::StreamHandle stream, gpu::KernelHandle kernel, uint32_t blocks, uint32_t threads,
                std::span<const std::byte> argument, Order order) override;
  Status copy(gpu::StreamHandle stream, gpu::DeviceAddress to, gpu::DeviceAddress from, uint64_t bytes) override;
  Status register_host(void* memory, uint64_t bytes) override;
  void unregister_host(void* memory) override;
  Result<void*> allocate_host(uint64_t bytes) override;
  void free_host(void* memory) override;
  Result<gpu::DeviceAddress> allocate(uint64_t bytes) override;
  void free(gpu::DeviceAddress memory) override;
  Result<gpu::PointerFacts> facts_of(const void* address) override;
  Result<IpcHandle> lend(gpu::DeviceAddress base) override;
  Result<gpu::DeviceAddress> borrow(const IpcHandle& handle) override;
  void give_back(gpu::DeviceAddress base) override;

 private:
  struct Stream {
    int device = 0;
    bool stop = false;
    bool busy = false;
    std::deque<Item> items;
    uint64_t capture = 0;
    bool capture_void = false;
    Graph captured;
    std::condition_variable changed;
    std::thread thread;
  };
  struct HostRange {
    uint64_t bytes = 0;
    uint64_t number = 0;  // position in the order of all mappings
  };
  struct Memory {
    uint64_t bytes = 0;
    uint64_t number = 0;
    int device = 0;
    std::shared_ptr<void> file;  // the memfd behind the mapping
    std::byte* window = nullptr;
    bool borrowed = false;
  };

  static Status fault(gpu::Fault fault, const char* call);
  Status alive(const char* call) const;
  // The device of the calling thread's context, or an error.
  Result<int> inside(const char* call);
  void serve(Stream& stream);
  Status push(gpu::StreamHandle stream, std::string what, Item item);
  gpu::StreamHandle start_stream(int device);
  gpu::DeviceAddress map(uint64_t bytes, int device, std::shared_ptr<void> file, bool borrowed);
  void free_all();
  static void unmap(gpu::DeviceAddress base, const Memory& memory);
  // The host's address of the device address `address`. Null if the device cannot reach it, or if
  // it is not among the first `mappings` mappings.
  std::byte* reach(gpu::DeviceAddress address, uint64_t bytes, uint64_t mappings = UINT64_MAX);
  uint64_t mappings();
  // Maps the device's memory for another device too.
  void map_anew(int device);
  uint64_t* word_at(gpu::DeviceAddress address);
  void await(gpu::DeviceAddress word, uint64_t value, gpu::DeviceAddress released);
  void write(gpu::DeviceAddress word, uint64_t value);
  void run_on_words(size_t kernel, const gpu::WordArguments& arguments);
  void pack(const gpu::PackArguments& arguments);
  void reduce(const gpu::CombineArguments& arguments);
  void run_lanes(const gpu::LaneArguments& arguments);
  void serve_copies(const gpu::ServeArguments& arguments, uint64_t mappings);
  void move(gpu::DeviceAddress to, gpu::DeviceAddress from, uint64_t bytes, uint64_t mappings = UINT64_MAX);

  const Options options_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> refuse_registration_{false};
  std::atomic<int> launches_left_{1 << 30};
  std::atomic<bool> server_held_{false};

  std::mutex mutex_;           // guards the streams, threads' contexts and counts
  std::vector<int> contexts_;  // a context is the address of its device's element
  std::map<std::thread::id, gpu::ContextHandle> current_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::map<std::string, uint64_t> submissions_;
  uint64_t captures_ = 0;

  std::mutex memory_mutex_;
  uint64_t mappings_ = 0;
  std::map<uint64_t, HostRange> registered_;  // by host address
  std::set<void*> pinned_;
  std::map<gpu::DeviceAddress, Memory> memory_;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_FAKE_DRIVER_H_
