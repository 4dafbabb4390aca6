// Shared by drivers: descriptor checks, records of failures, and the table of prepared operations.
#ifndef LANYARD_TRANSPORT_NIC_DRIVER_H_
#define LANYARD_TRANSPORT_NIC_DRIVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nic {

inline Status no_counter() { return {Code::kNotFound, "no such counter is open"}; }
inline Status no_region() { return {Code::kNotFound, "no such region is registered"}; }
inline Status no_prepared() { return {Code::kNotFound, "no such operation is prepared (any more)"}; }

// The memory of a registered region.
struct Extent {
  const std::byte* base = nullptr;
  uint64_t bytes = 0;
  bool open = false;  // false if there is no such region
};

// Checks an operation's descriptor. `Open` tells what is open now, for any id. It is copied and
// must have:
//   bool has_counter(CounterId) const;
//   bool has_peer(uint32_t) const;
//   bool misaligned(RemoteKey) const;       // as far as the key tells
//   Extent extent(RegionId) const;
//   uint64_t max_message_bytes() const;
// Threads: as for Open.
template <typename Open>
class DescriptorCheck {
 public:
  explicit DescriptorCheck(const Open& open) : open_(open) {}

  // For an operation that runs at once.
  Status of(const Op& op) const {
    if (op.completion.valid() && !open_.has_counter(op.completion))
      return no_counter();
    if (!open_.has_peer(op.remote.peer))
      return {Code::kNotFound, "there is no peer " + std::to_string(op.remote.peer)};
    if (op.kind == OpKind::kWrite) {
      if (op.bytes > open_.max_message_bytes())
        return invalid("a write of " + std::to_string(op.bytes) + " bytes is longer than the NIC's limit of " +
                       std::to_string(open_.max_message_bytes()));
      return of(op.local, op.bytes, 1);
    }
    if (op.remote.offset % kWord != 0 || open_.misaligned(op.remote.key))
      return invalid("the target of an atomic must be aligned to 8 bytes");
    return of(op.local, kWord, kWord);
  }
  Status of(const DeferredOp& deferred) const {
    LANYARD_RETURN_IF_ERROR(of(deferred.trigger, deferred.threshold));
    return of(deferred.op);
  }
  // For a posting. `prepared` is null if there is no such prepared operation.
  Status of(const Posting& posting, const Op* prepared) const {
    return prepared == nullptr ? no_prepared() : of(posting.trigger, posting.threshold);
  }

 private:
  static constexpr uint64_t kWord = sizeof(uint64_t);

  static Status invalid(std::string what) { return {Code::kInvalidArgument, std::move(what)}; }
  Status of(CounterId trigger, uint64_t threshold) const {
    if (!open_.has_counter(trigger))
      return no_counter();
    return threshold > kMaxSuccess ? invalid("a threshold has at most 48 bits") : Status();
  }
  Status of(LocalSpan span, uint64_t bytes, uint64_t alignment) const {
    const Extent extent = open_.extent(span.region);
    if (!extent.open)
      return no_region();
    if (span.offset > extent.bytes || bytes > extent.bytes - span.offset)
      return invalid("the local span of " + std::to_string(bytes) + " bytes at offset " + std::to_string(span.offset) +
                     " ends outside its region of " + std::to_string(extent.bytes) + " bytes");
    if (reinterpret_cast<uintptr_t>(extent.base + span.offset) % alignment != 0)
      return invalid("the operand of an atomic must be aligned to 8 bytes");
    return {};
  }

  const Open open_;
};

// The oldest failures of a NIC that take_failure() has not returned yet, and the total (N5).
// Threads: one at a time. Allocates only in the constructor.
class FailureLog {
 public:
  explicit FailureLog(uint32_t kept) : records_(kept) {}

  // If the log is full, the failure is only counted.
  void add(const FailureRecord& record) {
    ++total_;
    if (count_ < records_.size())
      records_[(first_ + count_++) % records_.size()] = record;
  }
  // Removes and returns the oldest record.
  std::optional<FailureRecord> take() {
    if (count_ == 0)
      return std::nullopt;
    const FailureRecord record = records_[first_];
    first_ = (first_ + 1) % records_.size();
    --count_;
    return record;
  }
  uint64_t total() const { return total_; }

 private:
  std::vector<FailureRecord> records_;  // a ring buffer
  size_t first_ = 0;
  size_t count_ = 0;
  uint64_t total_ = 0;
};

// The prepared operations of a NIC (nic.h, N14). T is Op, or the NIC's own form of it. An operation
// keeps its address until remove(). Memory grows in chunks, each twice as large as the one before,
// and is reused.
//
// Threads: one at a time, except find(), which may run beside calls for other operations.
template <typename T>
class PreparedTable {
 public:
  // May allocate.
  PreparedId add(const T& op) {
    if (free_ == kNone)
      grow();
    const uint32_t index = free_;
    Slot& slot = at(index);
    free_ = slot.next_free();
    slot.op = op;
    slot.state = slot.generation() + 1;
    return {index, slot.generation()};
  }
  // Requires that find(id) is not null.
  void remove(PreparedId id) {
    at(id.index).free(free_);
    // A slot that has used all generations is never reused.
    if (id.generation != UINT32_MAX)
      free_ = id.index;
  }
  // Returns null if the operation is not prepared, or not any more.
  const T* find(PreparedId id) const {
    const uint32_t chunk = id.index >> kSlotBits;
    const uint32_t slot = id.index & kSlotMask;
    const Slot* slots = chunks_[chunk].get();
    if (slots == nullptr || slot >= kFirst << chunk || slots[slot].state != id.generation)
      return nullptr;
    return &slots[slot].op;
  }
  T* find(PreparedId id) { return const_cast<T*>(std::as_const(*this).find(id)); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kFirst = 4;  // slots of the first chunk
  // An id's index holds the chunk and the slot in it, so find() needs no search.
  static constexpr uint32_t kSlotBits = 27;
  static constexpr uint32_t kSlotMask = (uint32_t{1} << kSlotBits) - 1;
  static constexpr uint32_t kChunks = uint32_t{1} << (32 - kSlotBits);
  static constexpr uint32_t kUsedChunks = 25;  // the last chunk has 2^26 slots, within kSlotBits

  struct Slot {
    T op;
    // Low half: the generation of the current or last operation. High half: 0 if in use, never 0 if
    // free. So one comparison tells whether an id names the slot's current operation.
    uint64_t state = uint64_t{kNone} << 32;

    uint32_t generation() const { return static_cast<uint32_t>(state); }
    uint32_t next_free() const { return static_cast<uint32_t>(state >> 32) - (state >> 32 == kNone ? 0 : 1); }
    void free(uint32_t next) { state = uint64_t{next == kNone ? kNone : next + 1} << 32 | generation(); }
  };

  Slot& at(uint32_t index) { return chunks_[index >> kSlotBits][index & kSlotMask]; }
  void grow() {
    uint32_t chunk = 0;
    while (chunk < kUsedChunks && chunks_[chunk] != nullptr)
      ++chunk;
    LANYARD_CHECK(chunk < kUsedChunks, "there are fewer prepared operations than memory could hold");
    chunks_[chunk] = std::make_unique<Slot[]>(kFirst << chunk);
    for (uint32_t slot = kFirst << chunk; slot-- > 0;) {
      chunks_[chunk][slot].free(free_);
      free_ = chunk << kSlotBits | slot;
    }
  }

  std::array<std::unique_ptr<Slot[]>, kChunks> chunks_;
  uint32_t free_ = kNone;
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_DRIVER_H_
