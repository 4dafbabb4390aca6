// PreparedTable: the operations that a NIC has been handed to be posted again and again (nic.h, N14).
#ifndef LANYARD_TRANSPORT_NIC_PREPARED_TABLE_H_
#define LANYARD_TRANSPORT_NIC_PREPARED_TABLE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/base/check.h"
#include "transport/nic/nic.h"

namespace lanyard::nic {

// The deferred operation that a posting of `op` stands for.
inline DeferredOp deferred(const Op& op, const Posting& posting) {
  DeferredOp deferred{.op = op, .trigger = posting.trigger, .threshold = posting.threshold};
  deferred.op.start = posting.start;
  return deferred;
}

// Operations stay where they are until they are removed. Memory comes in chunks, each twice as large as the one before,
// and is used again.
//
// Threads: one at a time, but for find(), which may run beside calls for other operations.
class PreparedTable {
 public:
  // May allocate.
  PreparedId add(const Op& op) {
    if (free_ == kNone)
      grow();
    const uint32_t index = free_;
    Slot& slot = at(index);
    free_ = slot.next_free;
    slot.op = op;
    ++slot.generation;  // odd: in use
    ++count_;
    return {index, slot.generation};
  }
  // Requires find().
  void remove(PreparedId id) {
    Slot& slot = at(id.index);
    --count_;
    // One whose names are used up rests for good.
    if (++slot.generation == 0)
      return;
    slot.next_free = free_;
    free_ = id.index;
  }
  // Null for what is not prepared, or not any more.
  const Op* find(PreparedId id) const {
    if (id.index >= kMost)
      return nullptr;
    const Place place(id.index);
    const Slot* chunk = chunks_[place.chunk].get();
    if (chunk == nullptr || chunk[place.slot].generation != id.generation || id.generation % 2 == 0)
      return nullptr;
    return &chunk[place.slot].op;
  }
  size_t count() const { return count_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kFirst = 4;  // slots of the first chunk, a power of two
  static constexpr uint32_t kChunks = 24;
  static constexpr uint32_t kMost = kFirst * ((uint32_t{1} << kChunks) - 1);

  struct Slot {
    Op op;
    uint32_t generation = 0;
    uint32_t next_free = kNone;
  };
  struct Place {
    explicit Place(uint32_t index)
        : chunk(static_cast<uint32_t>(std::bit_width(index + kFirst)) - std::bit_width(kFirst)),
          slot(index + kFirst - (kFirst << chunk)) {}
    uint32_t chunk;
    uint32_t slot;
  };

  Slot& at(uint32_t index) {
    const Place place(index);
    return chunks_[place.chunk][place.slot];
  }
  void grow() {
    uint32_t chunk = 0;
    while (chunk < kChunks && chunks_[chunk] != nullptr)
      ++chunk;
    LANYARD_CHECK(chunk < kChunks, "there are fewer prepared operations than memory could hold");
    const uint32_t slots = kFirst << chunk;
    chunks_[chunk] = std::make_unique<Slot[]>(slots);
    const uint32_t first = slots - kFirst;  // so many come before
    for (uint32_t slot = slots; slot-- > 0;) {
      chunks_[chunk][slot].next_free = free_;
      free_ = first + slot;
    }
  }

  std::array<std::unique_ptr<Slot[]>, kChunks> chunks_;
  uint32_t free_ = kNone;
  size_t count_ = 0;
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_PREPARED_TABLE_H_
