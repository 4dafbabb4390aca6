// Scratch: a list that is filled anew in every call and keeps its memory. Unlike a vector it looks once whether there
// is room for several items, and leaves them to be written by the caller.
#ifndef LANYARD_TRANSPORT_CORE_SCRATCH_H_
#define LANYARD_TRANSPORT_CORE_SCRATCH_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace lanyard::core {

template <typename T>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  void clear() { size_ = 0; }
  // So many items more, to be assigned before they are read. Valid until the next call of extend().
  T* extend(size_t items) {
    if (capacity_ - size_ < items) [[unlikely]]
      grow(items);
    size_ += items;
    return items_.get() + size_ - items;
  }
  T& emplace_back() { return *extend(1) = T{}; }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() const { return items_.get(); }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  T& operator[](size_t index) const { return items_[index]; }
  T& front() const { return items_[0]; }
  T& back() const { return items_[size_ - 1]; }

 private:
  [[gnu::noinline, gnu::cold]] void grow(size_t items) {
    const size_t capacity = std::max<size_t>({size_ + items, 2 * capacity_, 8});
    auto grown = std::make_unique<T[]>(capacity);
    std::copy_n(items_.get(), size_, grown.get());
    items_ = std::move(grown);
    capacity_ = capacity;
  }

  std::unique_ptr<T[]> items_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_SCRATCH_H_
