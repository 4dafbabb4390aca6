// Fifo: a queue that keeps its memory. Once at its greatest length it allocates no more, whereas
// std::deque keeps freeing and allocating blocks.
#ifndef LANYARD_NICSIM_WIRE_FIFO_H_
#define LANYARD_NICSIM_WIRE_FIFO_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "transport/base/check.h"

namespace lanyard::nicsim {

// Not thread-safe. T must be default-constructible. Removed items live until overwritten.
template <typename T>
class Fifo {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  T& front() { return (*this)[0]; }

  // The i-th oldest item.
  T& operator[](size_t i) {
    LANYARD_CHECK(i < count_, "the index is less than the queue's length");
    return items_[(first_ + i) & (items_.size() - 1)];
  }

  void push_back(T item) {
    if (count_ == items_.size())
      grow();
    items_[(first_ + count_) & (items_.size() - 1)] = std::move(item);
    ++count_;
  }

  void pop_front() {
    LANYARD_CHECK(count_ > 0, "an empty queue has no front");
    first_ = (first_ + 1) & (items_.size() - 1);
    --count_;
  }

  // Removes the items for which gone(item) is true, called from the oldest to the youngest.
  template <typename Gone>
  void erase_if(Gone&& gone) {
    for (size_t left = count_; left > 0; --left) {
      T item = std::move(front());
      pop_front();
      if (!gone(item))
        push_back(std::move(item));
    }
  }

  void clear() { first_ = count_ = 0; }

 private:
  void grow() {
    std::vector<T> larger(items_.empty() ? 16 : items_.size() * 2);  // a power of two
    for (size_t i = 0; i < count_; ++i)
      larger[i] = std::move((*this)[i]);
    items_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> items_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_FIFO_H_
