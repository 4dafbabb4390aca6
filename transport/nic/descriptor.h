// What can be wrong with an operation's descriptor, whatever card it is for: one check for all drivers.
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
  bool open = false;  // else there is no such region
};

// `Open`, which is copied, says what is open now, for any id:
//   bool has_counter(CounterId) const;
//   bool has_peer(uint32_t) const;
//   bool misaligned(RemoteKey) const;       // as far as a key tells
//   Extent extent(RegionId) const;
//   uint64_t max_message_bytes() const;
// Threads: those of Open.
template <typename Open>
class DescriptorCheck {
 public:
  explicit DescriptorCheck(const Open& open) : open_(open) {}

  // Of an operation that is to run at once.
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
      return {Code::kNotFound, "no such peer"};
    if (op.kind == OpKind::kWrite) {
      if (op.bytes > open_.max_message_bytes())
        return invalid("a message has at most " + std::to_string(open_.max_message_bytes()) + " bytes");
      return of(op.local, op.bytes, 1);
    }
    if (op.remote.offset % kWord != 0 || open_.misaligned(op.remote.key))
      return invalid("the targets of atomics are aligned to 8 bytes");
    return of(op.local, kWord, kWord);
  }
  Status of(const DeferredOp& deferred) const {
    LANYARD_RETURN_IF_ERROR(of(deferred.trigger, deferred.threshold));
    return of(deferred.op);
  }
  // Of a posting of `prepared`, which is null where there is no such operation.
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
      return invalid("the local span ends outside its region");
    if (reinterpret_cast<uintptr_t>(extent.base + span.offset) % alignment != 0)
      return invalid("the operands of atomics are aligned to 8 bytes");
    return {};
  }

  const Open open_;
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_DESCRIPTOR_H_
