#include "gpu/host/work_ring.h"

#include <algorithm>
#include <bit>
#include <new>
#include <string>
#include <utility>

namespace lanyard::gpu {
namespace {

constexpr size_t kFirstCapacity = 64;

}  // namespace

WorkRing::Buffer::Buffer(size_t capacity) : mask(capacity - 1), items(new (std::nothrow) WorkItem[capacity]) {}

WorkRing::WorkRing(size_t max_items) : max_items_(max_items) {
  LANYARD_CHECK(max_items > 0, "max_items must be more than 0");
  const size_t capacity = std::min(kFirstCapacity, std::bit_ceil(max_items));
  newest_ = std::make_unique<Buffer>(capacity);
  LANYARD_CHECK(newest_->items != nullptr, "no memory for a new host stream's queue");
  limit_ = std::min(capacity, max_items);
  buffer_.store(newest_.get(), std::memory_order_release);
}

Status WorkRing::make_room(size_t count) {
  if (count > max_items_)
    return Status(Code::kExhausted, "a batch of " + std::to_string(count) + " operations: the stream holds at most " +
                                        std::to_string(max_items_));
  executed_seen_ = executed_.load(std::memory_order_acquire);
  const size_t needed = written_ - executed_seen_ + count;
  if (needed > max_items_)
    return Status(Code::kAgain, "the stream's queue is full (" + std::to_string(max_items_) + " operations)");
  return needed <= limit_ ? Status() : grow(std::bit_ceil(needed));
}

// The old buffer stays unchanged for a reader that still uses it, even one whose item enqueues. All
// old buffers together are smaller than the new one.
Status WorkRing::grow(size_t capacity) {
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

}  // namespace lanyard::gpu
