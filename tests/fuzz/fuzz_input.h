// Takes values from the front of a fuzzer's bytes. Past the end it returns zeros.
#ifndef LANYARD_TESTS_FUZZ_FUZZ_INPUT_H_
#define LANYARD_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace lanyard::fuzz {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t bytes) : rest_(reinterpret_cast<const std::byte*>(data), bytes) {}
  bool empty() const { return rest_.empty(); }

  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::span<const std::byte> bytes = take_bytes(sizeof value);
    if (!bytes.empty())
      std::memcpy(static_cast<void*>(&value), bytes.data(), bytes.size());
    return value;
  }
  std::span<const std::byte> take_bytes(size_t most) {
    const std::span<const std::byte> taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace lanyard::fuzz

#endif  // LANYARD_TESTS_FUZZ_FUZZ_INPUT_H_
