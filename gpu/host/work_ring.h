// WorkRing: the queue of a host stream, for one writer and one reader at a time. It grows and
// never shrinks.
#ifndef LANYARD_GPU_HOST_WORK_RING_H_
#define LANYARD_GPU_HOST_WORK_RING_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "gpu/stream.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// One cache line each: the writer fills one while the reader runs another.
struct alignas(64) WorkItem {
  StreamOp op;
  // If not null, the item is kernel(op.object), and the rest of op is unused.
  void (*kernel)(void* argument) = nullptr;
};

// The caller ensures that at most one thread writes and at most one reads at any time, and that
// each sees its predecessor's effects (one lock a side). The two sides need no lock between them.
// The writer fills slots and publishes them; a slot belongs to the reader until pop().
class WorkRing {
 public:
  // Holds at most max_items (> 0). Keeps the memory of its largest load: at most 256 bytes an item.
  explicit WorkRing(size_t max_items) : max_items_(max_items) {
    LANYARD_CHECK(max_items > 0, "max_items must be more than 0");
    const size_t capacity = std::min(kFirstCapacity, std::bit_ceil(max_items));
    newest_ = std::make_unique<Buffer>(capacity);
    LANYARD_CHECK(newest_->items != nullptr, "no memory for a new host stream's queue");
    limit_ = std::min(capacity, max_items);
    buffer_.store(newest_.get(), std::memory_order_release);
  }

  // Writer: makes room for `count` more items. Allocates only beyond the largest load so far. An
  // error changes nothing. kAgain: the ring would hold more than max_items. kExhausted: count >
  // max_items, or no memory.
  Status reserve(size_t count) { return written_ - executed_seen_ + count <= limit_ ? Status() : make_room(count); }

  // Writer: the next free slot, to be filled. The reader sees it after publish().
  WorkItem& next_slot() { return newest_->at(written_++); }

  // Writer. Sequentially consistent, so the writer may publish and then check whether the
  // reader sleeps.
  void publish() { enqueued_.store(written_); }

  // Writer: a copy of the published item `number`. The item must not be older than executed() was
  // when this thread became the writer.
  WorkItem peek(uint64_t number) const { return newest_->at(number); }

  // Reader: the oldest item, or null. Valid and in place until pop().
  const WorkItem* front() {
    const uint64_t number = executed_.load(std::memory_order_relaxed);
    if (number == enqueued_seen_) {
      enqueued_seen_ = enqueued_.load(std::memory_order_acquire);
      if (number == enqueued_seen_)
        return nullptr;
      // After enqueued_: this buffer, or a newer one, has every item counted above.
      readable_ = buffer_.load(std::memory_order_acquire);
    }
    return &readable_->at(number);
  }

  // Reader. Release: a thread that reads executed() sees the item's effects, and the writer may
  // overwrite the slot.
  void pop() { executed_.store(executed_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  // Any thread: the number of items ever published, the number popped, and whether they are equal.
  uint64_t enqueued() const { return enqueued_.load(); }
  uint64_t executed() const { return executed_.load(std::memory_order_acquire); }
  bool empty() const {
    const uint64_t executed_before = executed();  // read first: both only grow
    return executed_before == enqueued();
  }

 private:
  static constexpr size_t kFirstCapacity = 64;

  struct Buffer {
    // `capacity` is a power of two. `items` is null if there was no memory.
    explicit Buffer(size_t capacity) : mask(capacity - 1), items(new (std::nothrow) WorkItem[capacity]) {}
    WorkItem& at(uint64_t number) const { return items[number & mask]; }
    const size_t mask;
    const std::unique_ptr<WorkItem[]> items;
    std::unique_ptr<Buffer> older;
  };

  [[gnu::noinline]] Status make_room(size_t count) {
    if (count > max_items_)
      return Status(Code::kExhausted, "a batch of " + std::to_string(count) + " operations: the stream holds at most " +
                                          std::to_string(max_items_));
    executed_seen_ = executed_.load(std::memory_order_acquire);
    const size_t needed = written_ - executed_seen_ + count;
    if (needed > max_items_)
      return Status(Code::kAgain, "the stream's queue is full (" + std::to_string(max_items_) + " operations)");
    return needed <= limit_ ? Status() : grow(std::bit_ceil(needed));
  }

  // The old buffer stays unchanged for a reader that still uses it, even one whose item enqueues.
  // All old buffers together are smaller than the new one.
  Status grow(size_t capacity) {
    std::unique_ptr<Buffer> grown(new (std::nothrow) Buffer(capacity));
    if (grown == nullptr || grown->items == nullptr)
      return Status(Code::kExhausted, "no memory for " + std::to_string(capacity) + " queued operations");
    for (uint64_t number = executed_seen_; number != written_; ++number)
      grown->at(number) = newest_->at(number);
    grown->older = std::move(newest_);
    newest_ = std::move(grown);
    limit_ = std::min(capacity, max_items_);
    buffer_.store(newest_.get(), std::memory_order_release);
    return {};
  }

  const size_t max_items_;
  // Used by the writer.
  std::unique_ptr<Buffer> newest_;
  size_t limit_ = 0;            // how many items newest_ may hold
  uint64_t written_ = 0;        // == enqueued_ once published
  uint64_t executed_seen_ = 0;  // <= executed_; spares reads of the reader's cache line
  // Published by the writer.
  alignas(64) std::atomic<uint64_t> enqueued_{0};
  std::atomic<Buffer*> buffer_{nullptr};
  // Used by the reader.
  alignas(64) std::atomic<uint64_t> executed_{0};
  uint64_t enqueued_seen_ = 0;
  Buffer* readable_ = nullptr;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_HOST_WORK_RING_H_
