// WatchedHandles: which request handles MPI's own calls must look at: match requests, and requests that were given to a
// matching function. Every MPI_Test of a program comes by here, so the answer for all others takes a few instructions,
// no lock, and no call.
#ifndef LANYARD_API_WATCHED_HANDLES_H_
#define LANYARD_API_WATCHED_HANDLES_H_

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace lanyard::api {

// A multiset of handles that may say yes where the answer is no, never the other way round. Handles are added and
// removed under the context's lock; any thread asks.
class WatchedHandles {
 public:
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  bool may_have(MPI_Request handle) const { return marks_[place(handle)].load(std::memory_order_relaxed) != 0; }
  bool may_have_any(int count, const MPI_Request handles[]) const {
    unsigned seen = 0;
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i)
      seen |= marks_[place(handles[i])].load(std::memory_order_relaxed);
    return seen != 0;
  }
  void add(MPI_Request handle) {
    change(handle, 1);
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // Requires that it was added.
  void remove(MPI_Request handle) {
    change(handle, -1);
    count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }

 private:
  static constexpr uint16_t kFull = UINT16_MAX;

  // 16 bits of the handle. MPICH's is a number whose low and high bits both tell requests apart: they are spread by a
  // product. Open MPI's is an address, and its requests are longer than 256 bytes: the bits above those are read where
  // they stand.
  static size_t place(const MPI_Request& handle) {
    if constexpr (sizeof handle == sizeof(uint32_t)) {
      uint32_t bits;
      std::memcpy(&bits, &handle, sizeof bits);
      return bits * 0x9e3779b1u >> 16;
    } else {
      uint16_t bits;
      std::memcpy(&bits, reinterpret_cast<const char*>(&handle) + 1, sizeof bits);
      return bits;
    }
  }
  void change(MPI_Request handle, int by) {
    std::atomic<uint16_t>& mark = marks_[place(handle)];
    const uint16_t old = mark.load(std::memory_order_relaxed);
    if (old != kFull)  // so many that nobody knows any more: yes for ever
      mark.store(static_cast<uint16_t>(old + by), std::memory_order_relaxed);
  }

  std::array<std::atomic<uint16_t>, UINT16_MAX + 1> marks_{};
  std::atomic<uint64_t> count_{0};
};

// Of the process, and not in its Context, so that they are found without looking for that: what the calls that start
// and complete requests must look at, and what MPI_Request_free must, which are all persistent requests beside.
[[gnu::visibility("hidden")]] extern constinit WatchedHandles watched;
[[gnu::visibility("hidden")]] extern constinit WatchedHandles watched_by_free;

}  // namespace lanyard::api

#endif  // LANYARD_API_WATCHED_HANDLES_H_
