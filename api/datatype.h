// What the buffer of a request is: one run of bytes in memory order, or bytes with gaps between them.
#ifndef LANYARD_API_DATATYPE_H_
#define LANYARD_API_DATATYPE_H_

#include <mpi.h>

#include <array>
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

// `count` elements. kUnsupported where the datatype cannot be followed (type_map.h).
Result<Elements> elements_of(MPI_Datatype datatype, uint64_t count);

// The same, remembering the MPI's own datatypes, whose handles never come to mean another. Threads: one at a time.
class Datatypes {
 public:
  Result<Elements> elements_of(MPI_Datatype datatype, uint64_t count);
  // Whether it is one of those that are remembered.
  bool knows(MPI_Datatype datatype) const {
    for (const Known& known : known_)
      if (known.datatype == datatype)
        return true;
    return false;
  }

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
