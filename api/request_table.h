// RequestTable: Lanyard's record of each persistent request, by the MPI's handle.
#ifndef LANYARD_API_REQUEST_TABLE_H_
#define LANYARD_API_REQUEST_TABLE_H_

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/communicators.h"
#include "api/followed_calls.h"
#include "gpu/packing.h"
#include "transport/core/request.h"

namespace lanyard::api {

struct Collective;

// The arguments of a persistent request's MPI_*_init.
struct RequestArguments {
  lanyard_request_kind kind;
  int peer;
  int tag;
  const void* buffer;
  MPI_Count count;
  MPI_Datatype datatype;
  MPI_Comm communicator;
};

// A request as its MPI_*_init made it. From its first match on, with the core's request.
struct RequestRecord {
  CommunicatorRef communicator;  // for its error handler
  core::Transfer transfer;
  std::shared_ptr<const gpu::Layout> layout;  // of a buffer with gaps, else null
  int unusable_class = MPI_SUCCESS;           // else it cannot be matched; see `unusable`
  std::string unusable;
  std::string exchange;           // hint: the name of its exchange, or empty
  std::string exchange_obstacle;  // why a matching call did not apply the hint
  std::string exchange_set;       // hint: "0" or "1", or empty
  std::string set_obstacle;       // why a matching call did not apply the hint

  core::Request* core = nullptr;
  std::shared_ptr<Collective> collective;  // for a collective: replaces `transfer` and `core`
  // Fills `collective`, at the first find(). Many programs never pass their collectives to Lanyard,
  // and the members take memory.
  std::function<void(RequestRecord&)> make_collective;
  MPI_Comm collective_over = MPI_COMM_NULL;  // needed by make_collective

  bool gave_up = false;     // a blocking call stopped waiting for its match, and may be repeated
  bool in_imatch = false;   // it has a match request, or a blocking call is matching it
  bool is_watched = false;  // its handle is in `watched`
  bool in_call = false;     // scratch: seen in the call that is being checked

  bool matched() const {
    return collective == nullptr ? core != nullptr && core->matched() : is_each_member(&RequestRecord::matched);
  }
  bool matching() const {
    return collective == nullptr ? core != nullptr && core->state == core::Request::State::kMatching
                                 : is_any_member(&RequestRecord::matching);
  }
  // A start has no wait, or has not completed: host calls on the request fail.
  bool busy() const {
    return collective == nullptr ? matched() && (core->needs_wait() || !core->complete())
                                 : is_any_member(&RequestRecord::busy);
  }

  void refuse(int error_class, const std::string& why) {
    unusable_class = error_class;
    unusable = why;
  }

 private:
  bool is_each_member(bool (RequestRecord::*is)() const) const;
  bool is_any_member(bool (RequestRecord::*is)() const) const;
};

// Fills an empty record from the arguments, or stores why the request cannot be matched. Calls the
// MPI: datatype and communicator must not be freed yet.
void resolve(Context& context, const RequestArguments& arguments, RequestRecord& record)
    LANYARD_REQUIRES(context_locked);

class RequestTable {
 public:
  // Null for a request without a record. The record is valid until it is erased, and then empty.
  RequestRecord* find(MPI_Request handle);
  // An empty record for this handle. Replaces the record of a freed request with the same handle.
  RequestRecord& insert(MPI_Request handle);
  void erase(MPI_Request handle);
  // Erases the record and returns true, unless the request was passed to a matching function.
  bool erase_unwatched(MPI_Request handle);
  // Call it before a communicator is freed: fills records of collectives that need it.
  void make_collectives_of(MPI_Comm communicator);
  // From now on MPI's own calls on the request are checked. Requires a record.
  void watch(MPI_Request handle);

 private:
  using Records = std::unordered_map<MPI_Request, RequestRecord>;
  Records records_;
  std::vector<Records::node_type> erased_;  // empty, but other threads may still read them
};

// The request handles that MPI's own calls must check: match requests, and requests that were
// passed to a matching function. Every MPI_Test of a program asks it, so the answer for other
// handles takes a few instructions, without a lock or a call.
//
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
  void add(MPI_Request handle) { change(handle, 1); }
  // Requires that it was added.
  void remove(MPI_Request handle) { change(handle, -1); }

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
    count_.store(count_.load(std::memory_order_relaxed) + static_cast<uint64_t>(by), std::memory_order_relaxed);
  }

  std::array<std::atomic<uint16_t>, UINT16_MAX + 1> marks_{};
  std::atomic<uint64_t> count_{0};
};

// Globals rather than members of Context, for speed. `watched` is for calls that start and complete
// requests. `watched_by_free` is for MPI_Request_free, and also has all persistent requests.
[[gnu::visibility("hidden")]] extern constinit WatchedHandles watched;
[[gnu::visibility("hidden")]] extern constinit WatchedHandles watched_by_free;

}  // namespace lanyard::api

#endif  // LANYARD_API_REQUEST_TABLE_H_
