// Checks an operation's descriptor. All drivers share these checks.
#ifndef LANYARD_TRANSPORT_NIC_DESCRIPTOR_H_
#define LANYARD_TRANSPORT_NIC_DESCRIPTOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nic {

inline Status no_counter() { return {Code::kNotFound, "no such counter is open"}; }
inline Status no_region() { return {Code::kNotFound, "no such region is registered"}; }
inline Status no_prepared() { return {Code::kNotFound, "no such operation is prepared (any more)"}; }

// Memory of a registered region.
struct Extent {
  const std::byte* base = nullptr;
  uint64_t bytes = 0;
  bool open = false;  // false if there is no such region
};

// `Open` tells what is open now, for any id. It is copied and must have:
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
    if (!op.moves_data()) {
      if (op.completion.valid())
        return invalid("counter operations have no completion counter");
      if (!open_.has_counter(op.counter))
        return no_counter();
      return op.value > kMaxSuccess ? invalid("a counter holds 48 bits of success") : Status();
    }
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

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_DESCRIPTOR_H_
