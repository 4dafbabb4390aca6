#include "transport/nic/descriptor.h"

#include <string>

#include "transport/base/check.h"

namespace lanyard::nic {

Status status_of(DescriptorFault fault, uint64_t max_message_bytes) {
  const auto invalid = [](std::string what) { return Status(Code::kInvalidArgument, std::move(what)); };
  switch (fault) {
    case DescriptorFault::kNone: return {};
    case DescriptorFault::kNoCounter: return {Code::kNotFound, "no such counter is open"};
    case DescriptorFault::kNoRegion: return {Code::kNotFound, "no such region is registered"};
    case DescriptorFault::kNoPeer: return {Code::kNotFound, "no such peer"};
    case DescriptorFault::kNotPrepared: return {Code::kNotFound, "no such operation is prepared (any more)"};
    case DescriptorFault::kOutside: return invalid("the local span ends outside its region");
    case DescriptorFault::kMisalignedOperand: return invalid("the operands of atomics are aligned to 8 bytes");
    case DescriptorFault::kMisalignedTarget: return invalid("the targets of atomics are aligned to 8 bytes");
    case DescriptorFault::kTooLong:
      return invalid("a message has at most " + std::to_string(max_message_bytes) + " bytes");
    case DescriptorFault::kCompletes: return invalid("counter operations have no completion counter");
    case DescriptorFault::kValue: return invalid("a counter holds 48 bits of success");
    case DescriptorFault::kThreshold: return invalid("a threshold has at most 48 bits");
  }
  LANYARD_CHECK(false, "a fault of no kind");
}

}  // namespace lanyard::nic
