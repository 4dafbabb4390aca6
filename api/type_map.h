// The type map of an MPI datatype as a shape (gpu/layout.h), by what the MPI says of how the datatype was made.
#ifndef LANYARD_API_TYPE_MAP_H_
#define LANYARD_API_TYPE_MAP_H_

#include <mpi.h>

#include <cstdint>

#include "gpu/layout.h"
#include "transport/base/status.h"

namespace lanyard::api {

// Of `count` elements. Empty where they have no bytes. kUnsupported for a combiner that is not followed, and what is
// made of too many irregular blocks; the message names it and says what to do. Calls the MPI, and needs nothing of the
// datatype afterwards.
Result<gpu::Shape> shape_of(MPI_Datatype datatype, uint64_t count);

// Whether it is one of the MPI's own.
bool is_named(MPI_Datatype datatype);

}  // namespace lanyard::api

#endif  // LANYARD_API_TYPE_MAP_H_
