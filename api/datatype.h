// Which datatypes are dense: `count` elements are one run of bytes in memory order, so that no packing is needed.
#ifndef LANYARD_API_DATATYPE_H_
#define LANYARD_API_DATATYPE_H_

#include <mpi.h>

#include <cstdint>

#include "transport/base/status.h"

namespace lanyard::api {

// The length of `count` elements in bytes. kUnsupported where they are not dense, with the reason.
Result<uint64_t> dense_bytes(MPI_Datatype datatype, int count);

}  // namespace lanyard::api

#endif  // LANYARD_API_DATATYPE_H_
