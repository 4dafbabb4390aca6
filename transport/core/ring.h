// Rings: what a stream does to a NIC's doorbell.
#ifndef LANYARD_TRANSPORT_CORE_RING_H_
#define LANYARD_TRANSPORT_CORE_RING_H_

#include <cstdint>

#include "gpu/stream.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

// The operation that adds `value` to the doorbell's counter.
inline gpu::StreamOp ring_of(const nic::Doorbell& bell, uint64_t value) {
  using Kind = gpu::StreamOp::Kind;
  gpu::StreamOp op;
  op.value = value;
  op.word = bell.word;
  if (bell.kind == nic::DoorbellKind::kHostCall) {
    op.kind = Kind::kCall;
    op.call = bell.call;
    op.object = bell.object;
    op.argument = bell.counter;
  } else {
    op.kind = bell.kind == nic::DoorbellKind::kMmioAdd ? Kind::kWrite64 : Kind::kAdd64;
  }
  return op;
}

// The same of a bell that one queue alone rings, and not from a capture; `total`: of all rings of its word, this one
// included.
inline gpu::StreamOp ring_of(nic::Nic& nic, const nic::Doorbell& bell, uint64_t total, uint64_t value) {
  gpu::StreamOp op = ring_of(bell, value);
  if (bell.kind != nic::DoorbellKind::kAtomicAdd || !nic::takes_totals(nic.caps(), bell))
    return op;
  // Devices store sooner than they add, and without a kernel where it is few.
  op.kind = gpu::StreamOp::Kind::kWrite64;
  op.value = total;
  return op;
}

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_RING_H_
