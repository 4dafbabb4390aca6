// The layout of a request's buffer, read from the constructors of its datatype: one run of bytes,
// or bytes with gaps.
#ifndef LANYARD_API_DATATYPE_H_
#define LANYARD_API_DATATYPE_H_

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "gpu/packing.h"
#include "transport/base/status.h"

namespace lanyard::api {

struct Elements {
  uint64_t bytes = 0;                           // of the message
  int64_t offset = 0;                           // of the run, from the buffer's address
  std::shared_ptr<const gpu::Layout> layout{};  // null for a run; set for gaps or another order
};

// The layout of `count` elements. kUnsupported for an unknown combiner or too many irregular
// blocks; the message says what to do. Calls the MPI; the datatype may be freed afterwards.
Result<Elements> elements_of(MPI_Datatype datatype, uint64_t count);

// The datatype's combiner: MPI_COMBINER_NAMED, ...
int combiner_of(MPI_Datatype datatype);
// True for a predefined datatype.
inline bool is_named(MPI_Datatype datatype) { return combiner_of(datatype) == MPI_COMBINER_NAMED; }

}  // namespace lanyard::api

#endif  // LANYARD_API_DATATYPE_H_
