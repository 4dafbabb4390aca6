// Envelope: by what MPI matches: communicator, source and tag. A receive's may have wildcards.
#ifndef LANYARD_TRANSPORT_CORE_ENVELOPE_H_
#define LANYARD_TRANSPORT_CORE_ENVELOPE_H_

#include <cstdint>

#include "transport/core/transfer.h"

namespace lanyard::core {

struct Envelope {
  uint64_t communicator = 0;
  int source = 0;  // or kAnySource
  int tag = 0;     // or kAnyTag

  bool operator==(const Envelope&) const = default;

  // Which of the two are wildcards, as a number below kKinds.
  static constexpr unsigned kKinds = 4, kNoSource = 1, kNoTag = 2;
  unsigned kind() const { return (source == kAnySource ? kNoSource : 0) | (tag == kAnyTag ? kNoTag : 0); }
  // What a receive of that kind that fits it has.
  Envelope as(unsigned kind) const {
    return {communicator, kind & kNoSource ? kAnySource : source, kind & kNoTag ? kAnyTag : tag};
  }
  uint64_t hash() const {
    const uint64_t both = uint64_t{static_cast<uint32_t>(source)} << 32 | static_cast<uint32_t>(tag);
    return both + communicator * 0xff51afd7ed558ccdu;
  }
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_ENVELOPE_H_
