// A bounded queue of trivially copyable items (D. Vyukov's sequence-numbered ring). Many producers,
// one consumer. No lock; allocates only in the constructor.
#ifndef LANYARD_TRANSPORT_BASE_MPSC_RING_H_
#define LANYARD_TRANSPORT_BASE_MPSC_RING_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace lanyard {

template <typename T>
class MpscRing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Holds at least `capacity` items, and at least two.
  explicit MpscRing(size_t capacity)  // with one cell, full would look like empty
      : mask_(std::bit_ceil(std::max<size_t>(capacity, 2)) - 1), cells_(std::make_unique<Cell[]>(mask_ + 1)) {
    for (size_t i = 0; i <= mask_; ++i)
      cells_[i].sequence.store(i, std::memory_order_relaxed);
  }

  // Any thread. Returns false when the queue is full. Sequentially consistent: if one thread pushes
  // and then reads a flag, and another writes the flag and then calls empty(), at least one of them
  // sees the other.
  bool push(const T& item) {
    return push_filled([&](T& cell) { cell = item; });
  }
  // Like push(), but fill(item) writes the item in place. Its old contents are undefined. fill must
  // not throw.
  template <typename Fill>
  bool push_filled(Fill&& fill) {
    uint64_t position = tail_.load(std::memory_order_relaxed);
    while (true) {
      Cell& cell = cells_[position & mask_];
      const uint64_t sequence = cell.sequence.load(std::memory_order_acquire);
      if (sequence == position) {
        if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
          fill(cell.item);
          cell.sequence.store(position + 1, std::memory_order_seq_cst);
          return true;
        }
      } else if (sequence < position) {
        return false;
      } else {
        position = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  // Consumer only: the oldest item, or null. Valid until pop().
  const T* front() const {
    const Cell& cell = cells_[head_ & mask_];
    return cell.sequence.load(std::memory_order_acquire) == head_ + 1 ? &cell.item : nullptr;
  }

  // Consumer only. Requires that front() is not null.
  void pop() {
    cells_[head_ & mask_].sequence.store(head_ + mask_ + 1, std::memory_order_release);
    ++head_;
    published_head_.store(head_, std::memory_order_relaxed);
  }

  // Consumer only. next() is the position of the next push, oldest() the position of the oldest
  // item not yet popped. Every item pushed before a call of next() lies before that position.
  // front() may not show it yet, while another producer still fills an earlier cell.
  uint64_t next() const { return tail_.load(std::memory_order_relaxed); }
  uint64_t oldest() const { return head_; }

  // Any thread. Order: see push().
  bool empty() const {
    const uint64_t head = published_head_.load(std::memory_order_relaxed);
    return cells_[head & mask_].sequence.load(std::memory_order_seq_cst) != head + 1;
  }

 private:
  struct Cell {
    std::atomic<uint64_t> sequence;
    T item;
  };

  const size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) uint64_t head_ = 0;
  std::atomic<uint64_t> published_head_{0};
};

}  // namespace lanyard

#endif  // LANYARD_TRANSPORT_BASE_MPSC_RING_H_
