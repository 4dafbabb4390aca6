// What the buffer of a request is, by what the MPI says of how its datatype was made: one run of bytes in memory order,
// or bytes with gaps between them.
#ifndef LANYARD_API_DATATYPE_H_
#define LANYARD_API_DATATYPE_H_

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "gpu/layout.h"
#include "transport/base/status.h"

namespace lanyard::api {

struct Elements {
  uint64_t bytes = 0;                           // as a message
  int64_t offset = 0;                           // where they begin, from the buffer's address; without a layout
  std::shared_ptr<const gpu::Layout> layout{};  // where they have gaps, or another order than in memory
};

// `count` elements. kUnsupported for a combiner that is not followed, and what is made of too many irregular blocks;
// the message names it and says what to do. Calls the MPI, and needs nothing of the datatype afterwards.
Result<Elements> elements_of(MPI_Datatype datatype, uint64_t count);

// How it was made: MPI_COMBINER_NAMED, ...
int combiner_of(MPI_Datatype datatype);
// Whether it is one of the MPI's own.
inline bool is_named(MPI_Datatype datatype) { return combiner_of(datatype) == MPI_COMBINER_NAMED; }

}  // namespace lanyard::api

#endif  // LANYARD_API_DATATYPE_H_
