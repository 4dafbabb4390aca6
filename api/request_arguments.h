// RequestArguments: what a persistent request was made with, as the program gave it.
#ifndef LANYARD_API_REQUEST_ARGUMENTS_H_
#define LANYARD_API_REQUEST_ARGUMENTS_H_

#include <mpi.h>

#include "api/context_lock.h"
#include "api/followed_calls.h"

namespace lanyard::api {

struct RequestRecord;

struct RequestArguments {
  lanyard_request_kind kind;
  int peer;
  int tag;
  const void* buffer;
  MPI_Count count;
  MPI_Datatype datatype;
  MPI_Comm communicator;
};

// What they come to, in an empty record; or why the request cannot be matched. Asks the MPI, so neither the datatype
// nor the communicator may have been freed.
void resolve(Context& context, const RequestArguments& arguments, RequestRecord& record)
    LANYARD_REQUIRES(context_locked);

}  // namespace lanyard::api

#endif  // LANYARD_API_REQUEST_ARGUMENTS_H_
