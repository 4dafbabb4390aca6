// Fifo: a queue that keeps its memory. Once at its greatest length it allocates no more, whereas
// std::deque keeps freeing and allocating blocks.
#ifndef LANYARD_NICSIM_WIRE_FIFO_H_
#define LANYARD_NICSIM_WIRE_FIFO_H_

#include <algorithm>
#include <boost/circular_buffer.hpp>
#include <utility>

#include "transport/base/check.h"

namespace lanyard::nicsim {

// Not thread-safe.
template <typename T>
class Fifo : public boost::circular_buffer<T> {
 public:
  void push_back(T item) {
    if (this->full())
      this->set_capacity(this->empty() ? 16 : 2 * this->size());
    boost::circular_buffer<T>::push_back(std::move(item));
  }

  T& front() {
    LANYARD_CHECK(!this->empty(), "an empty queue has no front");
    return boost::circular_buffer<T>::front();
  }
  void pop_front() {
    LANYARD_CHECK(!this->empty(), "an empty queue has no front");
    boost::circular_buffer<T>::pop_front();
  }

  // Removes the items for which gone(item) is true, called from the oldest to the youngest.
  template <typename Gone>
  void erase_if(Gone gone) {
    this->erase(std::remove_if(this->begin(), this->end(), gone), this->end());
  }
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_FIFO_H_
