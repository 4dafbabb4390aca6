// FakeTeam: one thread that is a block of a FakeDriver's device. What a device cannot reach reads as nothing, and is
// not written.
#ifndef LANYARD_TESTS_FAKE_TEAM_H_
#define LANYARD_TESTS_FAKE_TEAM_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>

namespace lanyard {

struct FakeTeam {
  static constexpr uint32_t kEagerLooks = 64;

  const std::function<std::byte*(uint64_t, uint64_t)>& reach;
  const std::function<void(uint64_t, uint64_t, uint64_t)>& move;

  template <typename Do>
  uint64_t with(uint64_t address, Do what) const {
    std::byte* const word = reach(address, sizeof(uint64_t));
    return word == nullptr ? 0 : what(std::atomic_ref(*reinterpret_cast<uint64_t*>(word)));
  }
  uint64_t load(uint64_t address) const {
    return with(address, [](auto word) { return word.load(std::memory_order_relaxed); });
  }
  uint64_t acquire(uint64_t address) const {
    return with(address, [](auto word) { return word.load(std::memory_order_acquire); });
  }
  // What a fence before it orders: a thread analyser does not know fences.
  void store(uint64_t address, uint64_t value) const {
    (void)with(address, [value](auto word) {
      word.store(value, std::memory_order_release);
      return value;
    });
  }
  void fence() const {}
  uint64_t exchange(uint64_t address, uint64_t expected, uint64_t value) const {
    return with(address, [=](auto word) {
      uint64_t there = expected;
      word.compare_exchange_strong(there, value);
      return there;
    });
  }
  bool claim(uint64_t address, uint64_t expected, uint64_t value) const {
    return exchange(address, expected, value) == expected;
  }
  uint64_t add(uint64_t address, uint64_t value) const {
    return with(address, [value](auto word) { return word.fetch_add(value); });
  }
  uint32_t members() const { return 1; }
  uint32_t member() const { return 0; }
  bool leads() const { return true; }
  uint64_t share(uint64_t value) const { return value; }
  bool all(bool whether) const { return whether; }
  void barrier() const {}
  void pause() const { std::this_thread::sleep_for(std::chrono::microseconds(20)); }
  void copy(uint64_t to, uint64_t from, uint64_t bytes) const { move(to, from, bytes); }
  uint64_t load_bytes(uint64_t from, uint64_t bytes) const {
    uint64_t value = 0;
    if (const std::byte* const source = reach(from, bytes); source != nullptr)
      std::memcpy(&value, source, bytes);
    return value;
  }
  void store_bytes(uint64_t to, uint64_t value, uint64_t bytes) const {
    if (std::byte* const target = reach(to, bytes); target != nullptr)
      std::memcpy(target, &value, bytes);
  }
  void load_unit(uint64_t address, uint64_t& first, uint64_t& second) const {
    first = acquire(address);
    second = acquire(address + sizeof first);
  }
  // The second first: whoever takes one for both is found out.
  void store_unit(uint64_t address, uint64_t first, uint64_t second) const {
    store(address + sizeof first, second);
    store(address, first);
  }
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_FAKE_TEAM_H_
