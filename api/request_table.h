// RequestTable: what Lanyard knows of each persistent request, found by the MPI's own handle in constant time.
//
// Most persistent requests of a program that has Lanyard linked are never given to it. So MPI's own call only notes its
// arguments; what they come to is made out when somebody looks for the request, or before what they name is freed. Of a
// collective, whose record has a part for each message, what is noted is how to make that.
#ifndef LANYARD_API_REQUEST_TABLE_H_
#define LANYARD_API_REQUEST_TABLE_H_

#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/communicators.h"
#include "api/request_arguments.h"
#include "gpu/layout.h"
#include "transport/core/request.h"

namespace lanyard::api {

struct Collective;

// A request as its MPI_*_init made it, and the core's request from the first matching on.
struct RequestRecord {
  CommunicatorRef communicator;  // for its error handler
  core::Transfer transfer;
  std::shared_ptr<const gpu::Layout> layout;  // of the buffer, where it has gaps
  int unusable_class = MPI_SUCCESS;           // why it cannot be matched, if so
  std::string unusable;
  std::string exchange;           // the hint: with which others it is to be merged; empty: with none
  std::string exchange_obstacle;  // why a matching call could not
  std::string exchange_set;       // likewise: to which of two sets it belongs, "0" or "1"; empty: there is one
  std::string set_obstacle;       // why a matching call could not

  core::Request* core = nullptr;
  std::shared_ptr<Collective> collective;  // of a persistent collective, in place of `transfer` and `core`
  bool gave_up = false;                    // a blocking call stopped waiting for its match, and may be repeated
  bool in_imatch = false;                  // a match request is out for it, or a blocking call matches it
  bool is_watched = false;                 // among the WatchedHandles
  bool in_call = false;                    // scratch: seen in the call being checked

  bool matched() const {
    return collective == nullptr ? core != nullptr && core->matched() : is_each_member(&RequestRecord::matched);
  }
  bool matching() const {
    return collective == nullptr ? core != nullptr && core->state == core::Request::State::kMatching
                                 : is_any_member(&RequestRecord::matching);
  }
  // Enqueued and not known to have completed: host calls on it are refused.
  bool busy() const {
    return collective == nullptr ? matched() && (core->needs_wait() || !core->complete())
                                 : is_any_member(&RequestRecord::busy);
  }

 private:
  bool is_each_member(bool (RequestRecord::*is)() const) const;
  bool is_any_member(bool (RequestRecord::*is)() const) const;
};

// An open-addressing hash table: lookups on the enqueue path cost the same however many requests live. Its memory is
// used again, so that a request that comes and goes allocates nothing.
class RequestTable {
 public:
  explicit RequestTable(Context& context) : context_(context), slots_(kFirstSlots) {}

  // Null for a request that is neither noted nor has a record. The record is valid until it is erased.
  RequestRecord* find(MPI_Request handle) LANYARD_REQUIRES(context_locked) {
    Slot* slot = slot_of(handle);
    if (slot == nullptr)
      return nullptr;
    return slot->record != nullptr ? slot->record : &settle(*slot);
  }
  // Remembers this handle, in place of one that the MPI has used before, for a find() that asks for its record: until
  // settle(), neither datatype nor communicator may be freed.
  void note(MPI_Request handle, const RequestArguments& arguments);
  // The same of a collective: `making` fills in its empty record.
  using Making = std::function<void(RequestRecord&)>;
  void note(MPI_Request handle, MPI_Comm communicator, Making making);
  // Forgets it where it is noted and no more; returns whether it was.
  bool forget_noted(MPI_Request handle) {
    const Slot* slot = slot_of(handle);
    if (slot == nullptr || slot->record != nullptr)
      return false;
    erase(handle);
    return true;
  }
  // Before a communicator is freed: makes the records that ask the MPI about it. Of collectives those of this one
  // alone, as a record has a part for each process; of all others all, as to tell them apart would take as long.
  void settle(MPI_Comm communicator) LANYARD_REQUIRES(context_locked);
  // An empty record for this handle, in place of one that the MPI has used before.
  RequestRecord& insert(MPI_Request handle);
  void erase(MPI_Request handle);
  // From now on MPI's own calls on it are looked at. Requires a record.
  void watch(MPI_Request handle) LANYARD_REQUIRES(context_locked);

 private:
  static constexpr size_t kFirstSlots = 64;  // a power of two, as every later size

  enum class State : uint8_t {
    kFree,
    kErased,  // searches go on past it
    kUsed,    // has a record, or is noted
  };
  struct Slot {
    MPI_Request handle = MPI_REQUEST_NULL;
    State state = State::kFree;
    uint32_t noted_at = 0;  // where it is noted: its place among these, and one of the following
    RequestRecord* record = nullptr;
    RequestArguments arguments;
    Making making;
  };

  // Where the search begins. The top bits of a product with the golden ratio spread handles that lie at equal
  // distances, as they do (Knuth, volume 3, section 6.4).
  size_t hash(MPI_Request handle) const {
    uint64_t bits = 0;  // the handle is an int or a pointer, as the MPI likes
    std::memcpy(&bits, &handle, sizeof handle);
    return (bits * 0x9e3779b97f4a7c15u) >> shift_;
  }
  Slot* slot_of(MPI_Request handle) {
    for (size_t i = hash(handle);; ++i) {
      Slot& slot = slots_[i & mask_];
      if (slot.state == State::kUsed && slot.handle == handle)
        return &slot;
      if (slot.state == State::kFree)
        return nullptr;
    }
  }
  // That of the handle, with neither a record nor arguments.
  Slot& take(MPI_Request handle);
  std::vector<MPI_Request>& notes_like(const Slot& slot) {
    return slot.making != nullptr ? noted_collectives_ : noted_;
  }
  void add_note(Slot& slot);
  void unnote(Slot& slot);
  void give(Slot& slot);
  RequestRecord& record_for(Slot& slot);
  RequestRecord& settle(Slot& slot) LANYARD_REQUIRES(context_locked);
  void rehash(size_t size);

  Context& context_;
  std::vector<Slot> slots_;
  size_t mask_ = kFirstSlots - 1;                   // slots_.size() - 1
  int shift_ = 64 - std::countr_zero(kFirstSlots);  // leaves as many bits of a hash as the mask has
  size_t count_ = 0;                                // of slots that are used
  size_t dirty_ = 0;                                // that are or were
  std::vector<MPI_Request> noted_;                  // without a record
  std::vector<MPI_Request> noted_collectives_;      // likewise
  std::deque<RequestRecord> records_;
  std::vector<RequestRecord*> spare_;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_REQUEST_TABLE_H_
