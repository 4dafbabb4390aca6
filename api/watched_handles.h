// WatchedHandles: the request handles that MPI's own calls must check: match requests, and requests
// that were passed to a matching function. Every MPI_Test of a program asks it, so the answer for
// other handles takes a few instructions, without a lock or a call.
#ifndef LANYARD_API_WATCHED_HANDLES_H_
#define LANYARD_API_WATCHED_HANDLES_H_

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace lanyard::api {

// A multiset of handles. may_have() may be true for a handle that is not in it, but is never false
// for one that is. Add and remove handles under the context's lock; any thread may ask.
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

  // Hashes a handle to 16 bits. MPICH's handle is a number that differs in low and high bits:
  // multiply. Open MPI's is the address of an object longer than 256 bytes: take the 16 bits
  // above the low 8.
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
    if (old != kFull)  // a full mark no longer counts, and stays
      mark.store(static_cast<uint16_t>(old + by), std::memory_order_relaxed);
  }

  std::array<std::atomic<uint16_t>, UINT16_MAX + 1> marks_{};
  std::atomic<uint64_t> count_{0};
};

// Globals rather than members of Context, for speed. `watched` is for calls that start and complete
// requests. `watched_by_free` is for MPI_Request_free, and also has all persistent requests.
[[gnu::visibility("hidden")]] extern constinit WatchedHandles watched;
[[gnu::visibility("hidden")]] extern constinit WatchedHandles watched_by_free;

}  // namespace lanyard::api

#endif  // LANYARD_API_WATCHED_HANDLES_H_
