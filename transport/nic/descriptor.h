// What can be wrong with an operation's descriptor, whatever card it is for: one check for all drivers.
#ifndef LANYARD_TRANSPORT_NIC_DESCRIPTOR_H_
#define LANYARD_TRANSPORT_NIC_DESCRIPTOR_H_

#include <cstddef>
#include <cstdint>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nic {

enum class DescriptorFault : uint8_t {
  kNone,
  kNoCounter,
  kNoRegion,
  kNoPeer,
  kNotPrepared,
  kOutside,
  kMisalignedOperand,
  kMisalignedTarget,
  kTooLong,
  kCompletes,
  kValue,
  kThreshold,
};

// What the caller is told. kOk for kNone.
Status status_of(DescriptorFault fault, uint64_t max_message_bytes);

inline bool fetches(const Op& op) {
  return op.kind == OpKind::kAtomic && (op.atomic == AtomicKind::kFetchSum || op.atomic == AtomicKind::kCompareSwap);
}

// Memory of a registered region.
struct Extent {
  const std::byte* base = nullptr;
  uint64_t bytes = 0;
  bool open = false;  // else there is no such region
};

// `Open`, which is copied, says what is open now, for any id:
//   bool has_counter(CounterId) const;
//   bool has_peer(uint32_t) const;
//   bool misaligned(RemoteKey) const;       // as far as a key tells
//   Extent extent(RegionId) const;
//   uint64_t max_message_bytes() const;
// Threads: those of Open. In line: calls for each entry would cost more than what they look at.
template <typename Open>
class DescriptorCheck {
 public:
  explicit DescriptorCheck(const Open& open) : open_(open) {}

  // Of an operation that is to run at once.
  DescriptorFault of(const Op& op) const {
    if (op.completion.valid() && !open_.has_counter(op.completion))
      return DescriptorFault::kNoCounter;
    if (!op.moves_data()) {
      if (op.completion.valid())
        return DescriptorFault::kCompletes;
      if (!open_.has_counter(op.counter))
        return DescriptorFault::kNoCounter;
      return op.value > kMaxSuccess ? DescriptorFault::kValue : DescriptorFault::kNone;
    }
    if (!open_.has_peer(op.remote.peer))
      return DescriptorFault::kNoPeer;
    if (op.kind == OpKind::kWrite)
      return op.bytes > open_.max_message_bytes() ? DescriptorFault::kTooLong : of(op.local, op.bytes, 1);
    if (op.remote.offset % kWord != 0 || open_.misaligned(op.remote.key))
      return DescriptorFault::kMisalignedTarget;
    if (fetches(op)) {
      if (const DescriptorFault fault = of(op.fetch, kWord, kWord); fault != DescriptorFault::kNone)
        return fault;
    }
    return of(op.local, kWord, kWord);
  }
  DescriptorFault of(const DeferredOp& deferred) const {
    if (!open_.has_counter(deferred.trigger))
      return DescriptorFault::kNoCounter;
    if (deferred.threshold > kMaxSuccess)
      return DescriptorFault::kThreshold;
    return of(deferred.op);
  }
  // Of a posting of `prepared`, which is null where there is no such operation.
  DescriptorFault of(const Posting& posting, const Op* prepared) const {
    if (prepared == nullptr)
      return DescriptorFault::kNotPrepared;
    if (!open_.has_counter(posting.trigger))
      return DescriptorFault::kNoCounter;
    if (posting.threshold > kMaxSuccess)
      return DescriptorFault::kThreshold;
    return DescriptorFault::kNone;
  }

 private:
  static constexpr uint64_t kWord = sizeof(uint64_t);

  DescriptorFault of(LocalSpan span, uint64_t bytes, uint64_t alignment) const {
    const Extent extent = open_.extent(span.region);
    if (!extent.open)
      return DescriptorFault::kNoRegion;
    if (span.offset > extent.bytes || bytes > extent.bytes - span.offset)
      return DescriptorFault::kOutside;
    if (reinterpret_cast<uintptr_t>(extent.base + span.offset) % alignment != 0)
      return DescriptorFault::kMisalignedOperand;
    return DescriptorFault::kNone;
  }

  const Open open_;
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_DESCRIPTOR_H_
