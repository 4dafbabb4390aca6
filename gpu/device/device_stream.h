// DeviceStream: Stream over a CUDA or HIP stream that the program made. How operations run:
//
//   kAdd64       A kernel. Adjacent adds of a batch share one, for up to 16 words.
//   kWrite64     Memory operations for one or two adjacent writes, one kernel for up to 16 words.
//                Memory operations always if other processes share the device: a kernel would have
//                to wait for them. A kernel always in a capture, or if the vendor has nothing else.
//   kWait64      A kernel: the next operation follows it sooner. A memory operation instead if
//                other processes share the device (a kernel would hold them up) or a NIC writes the
// device's memory (a kernel does not flush that). This needs vendor support and a host word.
//                Never captured.
//   kWriteNext64, kWaitNext64    Kernels.
//   kPack, kUnpack               A kernel, for memory of this device only.
//   kStartLane, kWaitLane        One kernel for adjacent ones, for lanes of this device only.
//   kCall                        Not supported.
//
// Words are host memory of this process (registered page by page, HostPages) or device memory.
//
// Rules (tests/gpu/device_stream_test.cc cites the numbers):
//  D1  A full launch queue blocks the host, which may be about to let the stream go on. So the
//      stream counts its own outstanding work (the device sets a word after each batch) and returns
//      kAgain in time. It cannot count the program's launches: a program that fills the queue
//      behind a wait blocks itself.
//  D2  A wait by memory operation cannot be withdrawn. So halt() raises its word. Waits by kernels
//      also check a word of the stream.
//  D3  A capture may be replayed after the DeviceStream is gone. So words of the stream that its
//      kernels name stay for as long as the Device.
#ifndef LANYARD_GPU_DEVICE_DEVICE_STREAM_H_
#define LANYARD_GPU_DEVICE_DEVICE_STREAM_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <variant>
#include <vector>

#include "gpu/combine.h"
#include "gpu/device/device.h"
#include "gpu/device/driver.h"
#include "gpu/device/kernel_arguments.h"
#include "gpu/lane.h"
#include "gpu/stream.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// A batch of stream operations as the driver gets it: kernels and runs of memory operations. One
// thread at a time. Once warm it allocates nothing.
class StreamPlan {
 public:
  // Empties the plan. With `few_stores_by_memory` one or two adjacent stores become memory
  // operations: the first takes effect sooner than a kernel's. But each takes as long again, while
  // a kernel makes all at once.
  void begin(bool few_stores_by_memory);

  // Appends an operation. Adjacent adds become one kernel, and adds to one word one entry. Adjacent
  // stores to different words become one kernel; so do adjacent waits.
  void put(Kernel kernel, DeviceAddress word, uint64_t value, uint64_t extra = 0);
  void put(const MemoryOp& op);
  void put(const PackArguments& packing) { steps_.emplace_back(packing); }
  void put(const CombineArguments& combination) { steps_.emplace_back(combination); }
  // Adjacent starts become one kernel; so do adjacent waits.
  void put(const Lane& lane, bool wait);

  // How many entries of the stream's launch queue the plan takes.
  uint64_t steps() const { return steps_.size() + (ends_unmarked() ? 1 : 0); }

  // Submits the plan. Requires: the context is current. When the last step has run, the word at
  // `marker` becomes `number`; with `marker` 0 no word changes. `released`: see WordArguments.
  // After an error a part may have been submitted.
  Status submit(Device& device, StreamHandle stream, DeviceAddress released, DeviceAddress marker, uint64_t number);

 private:
  // One less than the driver takes: the marker needs one.
  static constexpr size_t kMemoryOps = Driver::kMemoryOpsAtOnce - 1;
  static constexpr size_t kFewStores = 2;

  struct Words {
    Kernel kernel;
    WordArguments arguments;
  };
  struct MemoryOps {
    size_t first;  // in memory_ops_
    size_t count;
  };
  struct LaneSteps {
    LaneArguments arguments;
    uint64_t chunks;       // of all lanes
    uint64_t chunk_bytes;  // the longest
  };
  using Step = std::variant<Words, MemoryOps, PackArguments, CombineArguments, LaneSteps>;

  // Whether the last kernel sets no marker. A kernel without entries then follows and sets it.
  bool ends_unmarked() const {
    return !steps_.empty() && (std::holds_alternative<PackArguments>(steps_.back()) ||
                               std::holds_alternative<CombineArguments>(steps_.back()));
  }
  // The last step, if it is of this kind.
  template <typename Kind>
  Kind* last() {
    return steps_.empty() ? nullptr : std::get_if<Kind>(&steps_.back());
  }

  bool few_stores_by_memory_ = false;
  std::vector<Step> steps_;
  std::vector<MemoryOp> memory_ops_;
};

// Any thread may call any member function at any time. Only halt() waits for the stream.
class DeviceStream final : public Stream {
 public:
  // Our kernels and runs of memory operations in the launch queue at a time. The vendors' queues
  // hold 1024, and the program needs some.
  static constexpr uint64_t kMaxOutstanding = 900;
  // Waits by memory operation at a time (D2).
  static constexpr size_t kMaxWaits = 4096;

  // Over the program's stream `handle` on the device. The stream stays the program's and must
  // outlive this object; so must device and pages. kInvalidArgument: not a stream, or one that was
  // destroyed, as far as the driver can tell.
  static Result<std::unique_ptr<DeviceStream>> make(Device& device, HostPages& pages, StreamHandle handle,
                                                    const DeviceOptions& options);
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  ~DeviceStream() override;

  const char* kind() const override { return device_.driver().kind(); }
  bool can_call() const override { return false; }
  Status can_pack(const Packing& packing) const override;
  // As Stream::enqueue(). Besides: kExhausted: the batch alone is more than kMaxOutstanding.
  // kInvalidState: halted, or the capture in progress is invalid. kUnsupported: a word that the
  // device cannot reach. The first use of a page of words enters the kernel. If the driver refuses
  // a batch half-way, the stream has failed for good (health()).
  Status enqueue(std::span<const StreamOp> ops) override;
  // Covers the program's work too. During a capture, and once halted, it covers only ours: the
  // driver cannot be asked then, or the program may have destroyed the stream.
  bool poll() override;
  // As far as enqueue() and poll() have learnt from the driver.
  Status health() const override;
  uint64_t executed() const override { return std::atomic_ref(*words_.second).load(std::memory_order_acquire); }
  // Blocks until the stream is empty or has failed, at most 1 s. Does not call the driver if none
  // of our work is left. No enqueue() succeeds from then on.
  bool halt(std::chrono::nanoseconds limit = std::chrono::nanoseconds::max()) override;
  uint64_t capturing() const override;
  Result<uint64_t*> take_count(uint64_t value) override { return device_.take_count(value); }
  void give_count(uint64_t* count) override { device_.give_count(count); }
  Result<uint64_t*> reach(uint64_t* word) override;
  Result<std::byte*> take_memory(std::span<const uint64_t> content) override { return device_.take_memory(content); }
  void give_memory(std::byte* memory) override { device_.give_memory(memory); }

 private:
  struct Wait {
    uint64_t* word;
    uint64_t value;
    uint64_t number;  // has passed once executed() >= number
  };

  DeviceStream(Device& device, HostPages& pages, StreamHandle handle, const DeviceOptions& options,
               const WordPair& words);
  // Whether the operation would not wait.
  Result<bool> is_met(const StreamOp& op);
  // Asks the driver whether the stream is empty. Requires: mutex_ is held.
  bool ask_driver();
  // Require: mutex_ is held, the context is current.
  Status put(const StreamOp& op, bool captured);
  void put_packing(const StreamOp& op);
  Status make_room();
  Status submit();
  void forget_met_waits();
  void raise_words();
  // Records an error after which nothing works any more. Returns the status.
  Status note(Status status);

  Device& device_;
  HostPages& pages_;
  const StreamHandle handle_;
  const DeviceOptions options_;
  const WordPair words_;  // the released word; the marker: steps that have run

  mutable std::mutex mutex_;  // guards the rest
  Status failure_;
  bool halted_ = false;
  bool captured_ = false;   // something, ever
  uint64_t submitted_ = 0;  // steps so far
  StreamPlan plan_;
  std::vector<Wait> planned_waits_;
  std::vector<Wait> waits_;  // a ring
  uint64_t oldest_wait_ = 0;
  uint64_t wait_count_ = 0;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DEVICE_STREAM_H_
