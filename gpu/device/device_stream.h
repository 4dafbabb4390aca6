// DeviceStream: Stream over a stream of CUDA's or HIP's that the program made.
//
//   kAdd64      a kernel; adds that follow one another in a batch are one kernel, for up to 16 words
//   kWrite64    memory operations for one or two that follow one another, a kernel for up to 16 words that do. Always
//               memory operations where other processes share the device: a kernel would have to wait for them. Always
//               a kernel while the stream is being captured, or where the vendor has no other
//   kWait64     a kernel, which the next one follows sooner than a memory operation; but a memory operation where the
//               device is shared with other processes, which a kernel would keep from going on, or a card writes its
//               memory, which a kernel does not flush, and the vendor has one, unless the word is in device memory;
//               never captured
//   kWriteNext64, kWaitNext64  kernels
//   kPack, kUnpack  a kernel, for memory of this device only
//   kStartLane, kWaitLane  a kernel for those that follow one another, for lanes of this device only
//   kCall       never
//
// Words are host memory of this process (registered page by page, HostPages) or device memory.
//
// Rules (tests/gpu/device_stream_test.cc cites the numbers):
//  D1  A launch queue that is full blocks the host, which might have been about to let the stream pass. So the stream
//      counts what of its own is outstanding (a word that the device sets after each batch) and says kAgain in time.
//      The program's own launches it cannot count: a program that fills the queue behind a wait blocks itself.
//  D2  A wait by memory operation cannot be taken back. halt() raises the word instead; waits of kernels look at a word
//      of the stream's as well.
//  D3  What was captured may be replayed after the DeviceStream has gone: the words of its own that kernels name then
//      stay for as long as the Device.
#ifndef LANYARD_GPU_DEVICE_DEVICE_STREAM_H_
#define LANYARD_GPU_DEVICE_DEVICE_STREAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/device/driver.h"
#include "gpu/device/host_pages.h"
#include "gpu/device/stream_plan.h"
#include "gpu/stream.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// Every member function may be called from any thread at any time. Never waits for the stream, but in halt().
class DeviceStream final : public Stream {
 public:
  // Kernels and runs of memory operations of ours in the launch queue at a time. The vendors' queues hold 1024, and the
  // program wants some.
  static constexpr uint64_t kMaxOutstanding = 900;
  // Waits by memory operation at a time (D2).
  static constexpr size_t kMaxWaits = 4096;

  // Over the program's stream `handle` of the device, which stays the program's and outlives this. Device and pages are
  // borrowed. kInvalidArgument: not a stream, or one that has been destroyed, as far as the driver can tell.
  static Result<std::unique_ptr<DeviceStream>> make(Device& device, HostPages& pages, StreamHandle handle,
                                                    const DeviceOptions& options);
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  ~DeviceStream() override;

  const char* kind() const override { return device_.driver().kind(); }
  bool can_call() const override { return false; }
  Status can_pack(const Packing& packing) const override;
  // As Stream::enqueue. Besides: kExhausted: the batch alone is more than kMaxOutstanding; kInvalidState: halted, or
  // the capture under way is invalid; kUnsupported: a word that the device cannot reach. The first use of a page of
  // words enters the kernel. Should the driver refuse a batch half-way, the stream has failed for good (health()).
  Status enqueue(std::span<const StreamOp> ops) override;
  // Everything of the program's too. While the stream is being captured, where nothing can be asked, and once it is
  // halted, as the program may have destroyed it: what is ours.
  bool poll() override;
  // As the driver has told enqueue() and poll().
  Status health() const override;
  uint64_t executed() const override { return std::atomic_ref(*words_.second).load(std::memory_order_acquire); }
  // Blocks until the stream is empty or has failed, at most 1 s; asks nothing of the driver where nothing of ours is
  // left to run. Nothing is enqueued from then on.
  void halt() override;
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
    uint64_t number;  // has passed once executed() is at least this
  };

  DeviceStream(Device& device, HostPages& pages, StreamHandle handle, const DeviceOptions& options,
               const WordPair& words);
  // Whether nothing would be waited for.
  Result<bool> is_met(const StreamOp& op);
  // Whether the driver says so. Holding mutex_.
  bool look();
  // Holding mutex_, with the context current.
  Status put(const StreamOp& op, bool captured);
  void put_packing(const StreamOp& op);
  Status make_room();
  Status submit();
  void forget_met_waits();
  void raise_words();
  // Remembers an error after which nothing works any more; returns it.
  Status note(Status status);

  Device& device_;
  HostPages& pages_;
  const StreamHandle handle_;
  const DeviceOptions options_;
  const WordPair words_;  // released, marker: steps that have run

  mutable std::mutex mutex_;  // guards the rest
  Status failure_;
  bool halted_ = false;
  bool captured_ = false;   // ever
  uint64_t submitted_ = 0;  // steps, ever
  StreamPlan plan_;
  std::vector<Wait> planned_waits_;
  std::vector<Wait> waits_;  // a ring
  uint64_t oldest_wait_ = 0;
  uint64_t wait_count_ = 0;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_DEVICE_STREAM_H_
