// Which of libfabric's atomics the simulated NIC has: those on one 64-bit integer that Lanyard's
// interface names.
#ifndef LANYARD_NICSIM_FI_ATOMIC_KIND_H_
#define LANYARD_NICSIM_FI_ATOMIC_KIND_H_

#include <rdma/fi_domain.h>

#include <optional>

#include "transport/nic/nic.h"

namespace lanyard::nicsim::fi {

enum class AtomicForm { kPlain, kFetch, kCompare };

// cxip_atomic.c: _cxip_atomic_opcode(): what is not even that is an invalid argument.
inline bool is_known_atomic(enum fi_datatype type, enum fi_op op) {
  return static_cast<unsigned>(type) < static_cast<unsigned>(FI_DATATYPE_LAST) &&
         static_cast<unsigned>(op) < static_cast<unsigned>(FI_ATOMIC_OP_LAST);
}

inline std::optional<nic::AtomicKind> atomic_kind(AtomicForm form, enum fi_datatype type, enum fi_op op) {
  if (type != FI_UINT64 && type != FI_INT64)
    return std::nullopt;
  if (form == AtomicForm::kPlain && op == FI_SUM)
    return nic::AtomicKind::kSum;
  if (form == AtomicForm::kPlain && op == FI_ATOMIC_WRITE)
    return nic::AtomicKind::kReplace;
  if (form == AtomicForm::kFetch && op == FI_SUM)
    return nic::AtomicKind::kFetchSum;
  if (form == AtomicForm::kCompare && op == FI_CSWAP)
    return nic::AtomicKind::kCompareSwap;
  return std::nullopt;
}

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_ATOMIC_KIND_H_
