// PreparedTable: the prepared operations of a NIC (nic.h, N14). T is Op, or the NIC's own form
// of it.
#ifndef LANYARD_TRANSPORT_NIC_PREPARED_TABLE_H_
#define LANYARD_TRANSPORT_NIC_PREPARED_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "transport/base/check.h"
#include "transport/nic/nic.h"

namespace lanyard::nic {

// An operation keeps its address until remove(). Memory grows in chunks, each twice as large as the
// one before, and is reused.
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
    ++count_;
    return {index, slot.generation()};
  }
  // Requires that find(id) is not null.
  void remove(PreparedId id) {
    --count_;
    at(id.index).free(free_);
    // A slot that has used all generations is never reused.
    if (id.generation != UINT32_MAX)
      free_ = id.index;
  }
  // Null if the id is not, or no longer, prepared.
  const T* find(PreparedId id) const {
    const uint32_t chunk = id.index >> kSlotBits;
    const uint32_t slot = id.index & kSlotMask;
    const Slot* slots = chunks_[chunk].get();
    if (slots == nullptr || slot >= kFirst << chunk || slots[slot].state != id.generation)
      return nullptr;
    return &slots[slot].op;
  }
  T* find(PreparedId id) { return const_cast<T*>(std::as_const(*this).find(id)); }
  size_t count() const { return count_; }

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
  size_t count_ = 0;
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_PREPARED_TABLE_H_
