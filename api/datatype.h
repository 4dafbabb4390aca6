// Which datatypes are dense: `count` elements are one run of bytes in memory order, so that no packing is needed.
#ifndef LANYARD_API_DATATYPE_H_
#define LANYARD_API_DATATYPE_H_

#include <mpi.h>

#include <array>
#include <cstdint>

#include "transport/base/status.h"

namespace lanyard::api {

// The length of `count` elements in bytes. kUnsupported where they are not dense, with the reason and what to do.
Result<uint64_t> dense_bytes(MPI_Datatype datatype, int count);

// The same, remembering the MPI's own datatypes, whose handles never come to mean another. Threads: one at a time.
class DatatypeSizes {
 public:
  Result<uint64_t> dense_bytes(MPI_Datatype datatype, int count);

 private:
  struct Known {
    MPI_Datatype datatype = MPI_DATATYPE_NULL;
    uint64_t bytes = 0;
  };

  std::array<Known, 4> known_{};
  size_t next_ = 0;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_DATATYPE_H_
