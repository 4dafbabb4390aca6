#include "nicsim/wire/inbox.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "transport/base/check.h"

// ThreadSanitizer takes two mappings of one memory for two memories. If producer and consumer are
// threads of one process, these calls tell it the order that the slots' states make. The nonce
// stands for the memory, because it is the same in every mapping.
#if defined(__SANITIZE_THREAD__)
#define LANYARD_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LANYARD_TSAN 1
#endif
#endif
#ifdef LANYARD_TSAN
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace lanyard::nicsim {

namespace {

#ifdef LANYARD_TSAN
void* name_of(const InboxHeader* header) {
  static char names[1024];
  return &names[header->nonce % sizeof names];
}
void order_after(const InboxHeader* header) { __tsan_acquire(name_of(header)); }
void order_before(const InboxHeader* header) { __tsan_release(name_of(header)); }
#else
void order_after(const InboxHeader*) {}
void order_before(const InboxHeader*) {}
#endif

}  // namespace

Result<InboxPort> InboxPort::attach(void* memory, size_t bytes, uint64_t nonce) {
  auto* header = static_cast<InboxHeader*>(memory);
  if (bytes < Inbox::kHeaderBytes || header->magic != InboxHeader::kMagic)
    return Status(Code::kInvalidArgument, "the shared memory holds no inbox of a NIC");
  if (header->version != InboxHeader::kVersion || header->slot_bytes != sizeof(Slot))
    return Status(Code::kInvalidArgument, "the inbox is of another version of Lanyard");
  if (header->nonce != nonce)
    return Status(Code::kNotFound, "the inbox belongs to a later NIC");
  const uint32_t slots = header->slots;
  if (slots < 2 || slots > Inbox::kMaxSlots || !std::has_single_bit(slots) || bytes < Inbox::bytes_for(slots))
    return Status(Code::kInvalidArgument, "the inbox has impossible sizes");
  auto* first = reinterpret_cast<Slot*>(static_cast<std::byte*>(memory) + Inbox::kHeaderBytes);
  return InboxPort(header, first, slots);
}

// Bounded attempts, because a faulty process may write anything into the ring.
std::optional<uint64_t> InboxPort::take(uint32_t rank) {
  const uint64_t taken = Inbox::kTaken | uint64_t{rank % InboxHeader::kMaxProducers} << Inbox::kKindShift;
  const uint64_t first = header_->tail.load(std::memory_order_relaxed) & Inbox::kPositionMask;
  uint64_t position = first;
  for (uint64_t attempts = 4 * (mask_ + 1); attempts > 0; --attempts) {
    std::atomic<uint64_t>& state = slots_[position & mask_].state;
    uint64_t seen = state.load(std::memory_order_acquire);
    if (seen == position) [[likely]] {
      if (state.compare_exchange_strong(seen, position | taken, std::memory_order_acquire)) [[likely]] {
        if (header_->tail.load(std::memory_order_relaxed) <= position) [[likely]]
          header_->tail.store(position + 1, std::memory_order_relaxed);
        return position;
      }
    }
    const uint64_t reached = seen & Inbox::kPositionMask;
    const bool filled = seen != reached && (seen & Inbox::kTaken) == 0;
    if (((reached - (filled ? 1 : 0) - position) & mask_) != 0)
      return std::nullopt;  // this slot can never have such a position
    if (reached + mask_ == position || reached + mask_ + 1 == position) {
      // Full: the slot holds a frame of the round before. await_room() reads the tail.
      if (position != first)
        header_->tail.store(position, std::memory_order_relaxed);
      return std::nullopt;
    }
    // Another producer took or filled it. Or the tail lags by a round: then it is free for
    // a later position.
    position = reached > position + mask_ ? reached - mask_ : position + 1;
  }
  return std::nullopt;
}

void InboxPort::fill(uint64_t position, const Packet& packet, const Frame& frame) {
  Slot* slot = &slots_[position & mask_];
  order_after(header_);
  auto kind = static_cast<uint64_t>(frame.kind);
  slot->packet = packet;
  if (frame.kind == FrameKind::kPacket && frame.payload_bytes == 0) {
    kind |= Inbox::kBare;  // one cache line holds the whole frame
  } else {
    slot->value = frame.value;
    slot->payload_bytes.store(frame.payload_bytes, std::memory_order_relaxed);
    if (frame.payload_bytes > 0)
      std::memcpy(slot->payload, frame.payload, frame.payload_bytes);
  }
  order_before(header_);
  // Sequentially consistent: the bell must read the sleepers after this store (README.md, 1).
  slot->state.store((position + 1) | kind << Inbox::kKindShift, std::memory_order_seq_cst);
  header_->bell.ring();
  // The consumer wrote the next slot's lines last; fetch them while no one waits.
  const Slot* next = &slots_[(position + 1) & mask_];
  __builtin_prefetch(next, 1);
  __builtin_prefetch(&next->value, 1);
}

bool InboxPort::await_room(uint32_t rank) {
  header_->stuck[rank / 64].fetch_or(uint64_t{1} << (rank % 64), std::memory_order_relaxed);
  // Pairs with the consumer's exchange in return_slots(): either the consumer sees this rank, or
  // this thread sees the slots returned before it.
  header_->any_stuck.exchange(1, std::memory_order_acq_rel);
  const uint64_t position = header_->tail.load(std::memory_order_relaxed);
  const uint64_t state = slots_[position & mask_].state.load(std::memory_order_acquire);
  return (state & Inbox::kPositionMask) >= position;
}

void InboxPort::nudge() {
  header_->nudged.store(1, std::memory_order_seq_cst);
  header_->bell.ring();
}

Inbox::Inbox(void* memory, uint32_t slots, uint64_t nonce)
    : header_(new (memory) InboxHeader),
      slots_(reinterpret_cast<Slot*>(static_cast<std::byte*>(memory) + kHeaderBytes)),
      mask_(slots - 1),
      batch_(slots >= 64 ? slots / 8 : 1) {
  LANYARD_CHECK(slots >= 2 && slots <= kMaxSlots && std::has_single_bit(slots),
                "the number of slots of an inbox is a power of two");
  header_->slots = slots;
  header_->slot_bytes = sizeof(Slot);
  header_->nonce = nonce;
  for (uint32_t i = 0; i < slots; ++i) {
    new (&slots_[i]) Slot;
    slots_[i].state.store(i, std::memory_order_release);
  }
}

void Inbox::read(const Slot& slot, uint64_t state, Packet& packet, Frame& frame) const {
  order_after(header_);
  const uint64_t kind = state >> kKindShift;
  packet = slot.packet;
  frame = {.kind = static_cast<FrameKind>(kind & ~kBare)};
  if ((kind & kBare) != 0)
    return;
  frame.value = slot.value;
  frame.payload_bytes = std::min(slot.payload_bytes.load(std::memory_order_relaxed), kInlineBytes);
  frame.payload = slot.payload;
}

bool Inbox::return_slots() {
  const uint64_t head = head_.load(std::memory_order_relaxed);
  order_before(header_);
  for (; returned_ != head; ++returned_)
    slots_[returned_ & mask_].state.store(returned_ + mask_ + 1, std::memory_order_release);
  return header_->any_stuck.exchange(0, std::memory_order_acq_rel) != 0;
}

bool Inbox::waiting() const {
  if (header_->nudged.load(std::memory_order_seq_cst) != 0)
    return true;
  // Another thread may pop meanwhile. A returned slot was popped before, so head_ has moved by now.
  // "Waiting" is then the safe answer.
  const uint64_t head = head_.load(std::memory_order_acquire);
  const uint64_t state = slots_[head & mask_].state.load(std::memory_order_seq_cst);
  return (state & kPositionMask) == head + 1 || head_.load(std::memory_order_acquire) != head;
}

}  // namespace lanyard::nicsim
