// Reduction: one of MPI's own operations on one of MPI's own datatypes, as a function that calls no MPI: it runs on a
// stream, by whichever thread runs that.
#ifndef LANYARD_API_REDUCTION_H_
#define LANYARD_API_REDUCTION_H_

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string>

namespace lanyard::api {

struct Reduction {
  // out[i] = ((parts[0][i] op parts[1][i]) op parts[2][i]) ..., of `count` elements, in this order always. `out` may be
  // one of the parts.
  using Function = void (*)(void* out, std::span<const void* const> parts, size_t count);
  Function run = nullptr;
  size_t size = 0;  // of an element in memory, in bytes

  int error_class = MPI_SUCCESS;  // MPI_ERR_OP, MPI_ERR_TYPE: why there is none
  std::string error;
};

// By MPI 4.0 section 6.9.2: predefined operations on the datatypes that they are defined for; also MINLOC and MAXLOC
// (section 6.9.4), of which equal values give the lower index.
Reduction reduction_of(MPI_Op operation, MPI_Datatype datatype);

}  // namespace lanyard::api

#endif  // LANYARD_API_REDUCTION_H_
