// Reduction: one of MPI's own operations on one of MPI's own datatypes, as a stream combines contributions: it calls no
// MPI, and runs by whichever thread or device runs the stream.
#ifndef LANYARD_API_REDUCTION_H_
#define LANYARD_API_REDUCTION_H_

#include <mpi.h>

#include <cstddef>
#include <string>

#include "gpu/combination.h"

namespace lanyard::api {

struct Reduction {
  gpu::Operation operation = gpu::Operation::kSum;
  gpu::Element element = gpu::Element::kInt8;
  size_t size = 0;  // of an element in memory, in bytes

  int error_class = MPI_SUCCESS;  // MPI_ERR_OP, MPI_ERR_TYPE: why there is none
  std::string error;
};

// By MPI 4.0 section 6.9.2: predefined operations on the datatypes that they are defined for; also MINLOC and MAXLOC
// (section 6.9.4), of which equal values give the lower index.
Reduction reduction_of(MPI_Op operation, MPI_Datatype datatype);

}  // namespace lanyard::api

#endif  // LANYARD_API_REDUCTION_H_
