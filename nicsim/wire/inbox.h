// Inbox: the incoming frames of one NIC, in a ring of slots in memory that several processes share
// (README.md, "The inbox"). Any number of producers push frames; the NIC that owns it pops them.
//
// The consumer trusts nothing here, because another process wrote it. It copies data out first and
// checks sizes before use. A producer that writes nonsense gets its frames dropped, nothing worse.
#ifndef LANYARD_NICSIM_WIRE_INBOX_H_
#define LANYARD_NICSIM_WIRE_INBOX_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "nicsim/model/packet.h"
#include "nicsim/wire/bell.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

enum class FrameKind : uint8_t {
  kPacket = 1,  // a packet with its payload, at most kInlineBytes
  kOffer = 2,   // a write whose payload is in the sender's memory, at address `value`
  kPull = 3,    // answer to an offer: send the payload in chunks
  kChunk = 4,   // part of an offered payload, from byte `value` on
  kInvite = 5,  // answer to an offer: the source may copy a part of it to address `value` (see Claims)
  kHelped = 6,  // answer to an invitation: the last `value` bytes are copied, no more follow
  kHello = 7,   // a sender's first frame: its payload is the sender's address
};

// The part of a slot beside the packet. `payload` is borrowed from the sender's memory or the slot.
struct Frame {
  FrameKind kind = FrameKind::kPacket;
  uint32_t payload_bytes = 0;
  uint64_t value = 0;
  const std::byte* payload = nullptr;
};

// Claims: shares out a long write that both sides copy at once. The receiver takes portions from
// its front, the sender from its back, each as fast as it can, until none is left.
//
// Claims lie in the receiver's memory, shared with the sender. One word holds the number of free
// portions and whether the sender is copying one. Each side counts its own portions, so it knows
// its next one. Its operations order no other memory: frames order the data.
class Claims {
 public:
  static constexpr uint64_t kMinPortion = 64 * 1024;
  static constexpr uint64_t kMaxPortion = 256 * 1024;

  // Portion length for a write of `bytes`; the last portion may be shorter. Long portions need few
  // system calls; short ones let both sides end at nearly the same time. Whole pages, because the
  // kernel pins pages.
  static uint64_t portion(uint64_t bytes) {
    constexpr uint64_t kPage = 4096;
    return std::clamp((bytes / 2 + kPage - 1) / kPage * kPage, kMinPortion, kMaxPortion);
  }
  static uint64_t portions(uint64_t bytes) { return (bytes + portion(bytes) - 1) / portion(bytes); }

  // The receiver calls this before it tells the sender.
  void open(uint64_t portions) { word_.store(portions, std::memory_order_relaxed); }
  // The receiver takes one portion. False if none is left.
  bool take() { return take(0); }
  // The receiver takes all remaining portions and returns their number.
  uint64_t take_all() { return word_.fetch_and(kPushing, std::memory_order_acq_rel) & ~kPushing; }

  // The sender takes one portion, copies it, then calls pushed().
  bool push() { return take(kPushing); }
  void pushed() { word_.fetch_and(~kPushing, std::memory_order_release); }
  // Whether the sender is copying now. Stays false once no portion is left.
  bool pushing() const { return (word_.load(std::memory_order_acquire) & kPushing) != 0; }

 private:
  static constexpr uint64_t kPushing = uint64_t{1} << 63;

  bool take(uint64_t mark) {
    uint64_t seen = word_.load(std::memory_order_relaxed);
    while ((seen & ~kPushing) > 0) {
      if (word_.compare_exchange_weak(seen, (seen - 1) | mark, std::memory_order_acq_rel))
        return true;
    }
    return false;
  }

  alignas(64) std::atomic<uint64_t> word_{0};
};

struct InboxHeader {
  static constexpr uint32_t kMagic = 0x4c4e5942;  // "LNYB"
  static constexpr uint32_t kVersion = 5;
  static constexpr uint32_t kMaxProducers = 4096;
  static constexpr uint32_t kMaxShared = 64;

  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t slots = 0;
  uint32_t slot_bytes = 0;
  uint64_t nonce = 0;               // of the owner's address
  std::atomic<uint32_t> closed{0};  // the NIC has been closed, though its process may live
  alignas(64) Bell bell;
  alignas(64) std::atomic<uint64_t> tail{0};  // where a producer begins to look
  alignas(64) std::atomic<uint32_t> any_stuck{0};
  std::atomic<uint32_t> nudged{0};                       // set if another inbox that was full for this owner has room
  std::atomic<uint64_t> stuck[kMaxProducers / 64] = {};  // by rank: producers that found this inbox full
  Claims claims[kMaxShared];                             // for long writes to the owner that both sides copy
};

struct Slot {
  // For position p: p if free. While a producer fills it, p with kTaken and the producer's rank in
  // the upper bits. Once filled, p + 1 with the frame's kind in the upper bits, and kBare if it
  // holds only the packet.
  alignas(128) std::atomic<uint64_t> state;
  Packet packet;
  alignas(64) uint64_t value;
  std::atomic<uint32_t> payload_bytes;
  std::byte payload[4096];
};
static_assert(offsetof(Slot, packet) + sizeof(Packet) <= 64 && sizeof(Slot) == 4096 + 128);

// A producer's view of an inbox. The memory must outlive it. Copyable; any threads of any process
// may use views of one inbox at once. No function blocks or allocates.
class InboxPort {
 public:
  InboxPort() = default;
  // kInvalidArgument if the memory holds no inbox of this version; kNotFound if its nonce differs.
  static Result<InboxPort> attach(void* memory, size_t bytes, uint64_t nonce);

  // Copies packet and frame in and rings. False if full. Requires payload_bytes <= kInlineBytes.
  // packet.source is the producer's rank.
  bool push(const Packet& packet, const Frame& frame) {
    const std::optional<uint64_t> position = take(packet.source);
    if (!position)
      return false;
    fill(*position, packet, frame);
    return true;
  }
  // The first half of push(): takes a slot for this producer and returns its position.
  // None if full.
  std::optional<uint64_t> take(uint32_t rank);
  void fill(uint64_t position, const Packet& packet, const Frame& frame);
  // Asks the owner to nudge `rank` (below kMaxProducers) when there is room. True if there is room
  // already: then try push() again, as a nudge may never come.
  bool await_room(uint32_t rank);
  // Tells the owner that another inbox, which was full for it, has room.
  void nudge();
  // Requires index < kMaxShared.
  Claims& claims(uint32_t index) const { return header_->claims[index]; }
  // The owner is closed and reads no more.
  bool closed() const { return header_->closed.load(std::memory_order_acquire) != 0; }

 private:
  InboxPort(InboxHeader* header, Slot* slots, uint32_t count) : header_(header), slots_(slots), mask_(count - 1) {}

  InboxHeader* header_ = nullptr;
  Slot* slots_ = nullptr;
  uint64_t mask_ = 0;  // never read again from the header, which others can write
};

// The owner's view of an inbox. The memory must outlive it. Unless stated otherwise, only the
// thread that drives the NIC calls it.
class Inbox {
 public:
  static constexpr uint32_t kInlineBytes = sizeof(Slot::payload);
  static constexpr uint32_t kMaxSlots = 65536;

  static size_t bytes_for(uint32_t slots) { return kHeaderBytes + slots * sizeof(Slot); }
  // Makes an empty inbox in bytes_for(slots) bytes, aligned to 128. `slots` is a power of two from
  // 2 to kMaxSlots.
  Inbox(void* memory, uint32_t slots, uint64_t nonce);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Gets the oldest packet and frame; false if there is none. The payload is valid until pop().
  // payload_bytes is at most kInlineBytes; trust nothing else.
  bool front(Packet& packet, Frame& frame) const {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    const Slot& slot = slots_[head & mask_];
    const uint64_t state = slot.state.load(std::memory_order_acquire);
    if ((state & kPositionMask) != head + 1) [[likely]]
      return false;
    read(slot, state, packet, frame);
    return true;
  }
  // Requires front(), or an unfinished() slot whose producer will never fill it. The producers get
  // the slot only at give_back().
  void pop() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  // Returns popped slots to the producers and calls nudge_rank(rank) for each producer that found
  // the inbox full. Unless `all`, does nothing while few slots wait. Pass `all` when idle:
  // returning a slot takes its cache lines from other cores.
  template <typename NudgeRank>
  void give_back(bool all, NudgeRank&& nudge_rank) {
    const uint64_t popped = head_.load(std::memory_order_relaxed) - returned_;
    if (popped == 0 || (!all && popped < batch_) || !return_slots())
      return;
    for (uint32_t i = 0; i < std::size(header_->stuck); ++i) {
      uint64_t ranks = header_->stuck[i].exchange(0, std::memory_order_acq_rel);
      for (; ranks != 0; ranks &= ranks - 1)
        nudge_rank(i * 64 + static_cast<uint32_t>(std::countr_zero(ranks)));
    }
  }

  // The rank of the producer that has taken the front slot and not filled it, if any.
  std::optional<uint32_t> unfinished() const {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    const uint64_t state = slots_[head & mask_].state.load(std::memory_order_acquire);
    if ((state & (kTaken | kPositionMask)) != (kTaken | head))
      return std::nullopt;
    return static_cast<uint32_t>((state & ~kTaken) >> kKindShift);
  }

  // Whether a frame or a nudge waits. Sequentially consistent, as the bell requires. Any thread.
  bool waiting() const;
  // Whether there was a nudge since the last call.
  bool take_nudge() {
    return header_->nudged.load(std::memory_order_relaxed) != 0 &&
           header_->nudged.exchange(0, std::memory_order_acq_rel) != 0;
  }
  void close() { header_->closed.store(1, std::memory_order_release); }
  Bell& bell() const { return header_->bell; }
  // Requires index < kMaxShared. Any thread.
  Claims& claims(uint32_t index) const { return header_->claims[index]; }

 private:
  static constexpr uint64_t kPositionMask = (uint64_t{1} << 51) - 1;  // enough for years of frames
  static constexpr int kKindShift = 51;
  static constexpr uint64_t kBare = 0x80;
  static constexpr uint64_t kTaken = uint64_t{1} << 63;
  static_assert(InboxHeader::kMaxProducers <= kTaken >> kKindShift);
  static constexpr size_t kHeaderBytes = (sizeof(InboxHeader) + 127) / 128 * 128;
  friend class InboxPort;

  void read(const Slot& slot, uint64_t state, Packet& packet, Frame& frame) const;
  // Whether a producer has found the inbox full since the last call.
  bool return_slots();

  InboxHeader* header_;
  Slot* slots_;
  uint64_t mask_;
  uint64_t batch_;
  uint64_t returned_ = 0;          // positions below it are free again
  std::atomic<uint64_t> head_{0};  // written by the driver, read by sleepers
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_INBOX_H_
