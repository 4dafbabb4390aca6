// The point-to-point requests of MPI 4 that are started again and again and cannot be matched: remembered, so that a
// matching call which is given one says what it is.

#include <mpi.h>

#include <string>

#include "api/context.h"

#if MPI_VERSION >= 4

namespace {

using lanyard::api::Context;
using lanyard::api::ContextLock;
using lanyard::api::RequestRecord;

int remember(int code, MPI_Comm communicator, const MPI_Request* request, const char* name, const char* why) {
  Context* context = Context::get();
  if (code != MPI_SUCCESS || context == nullptr)
    return code;
  const ContextLock lock(*context);
  RequestRecord& record = context->requests().insert(*request);
  record.communicator = *context->communicators().of_request(communicator).ref;
  record.unusable_class = MPI_ERR_UNSUPPORTED_OPERATION;
  record.unusable = std::string("a request of ") + name + " cannot be matched: " + why;
  return code;
}

constexpr const char* kPartitioned = "partitioned communication is the MPI's alone";

}  // namespace

extern "C" {

int MPI_Psend_init(const void* buffer, int partitions, MPI_Count count, MPI_Datatype datatype, int peer, int tag,
                   MPI_Comm communicator, MPI_Info info, MPI_Request* request) {
  return remember(PMPI_Psend_init(buffer, partitions, count, datatype, peer, tag, communicator, info, request),
                  communicator, request, "MPI_Psend_init", kPartitioned);
}

int MPI_Precv_init(void* buffer, int partitions, MPI_Count count, MPI_Datatype datatype, int peer, int tag,
                   MPI_Comm communicator, MPI_Info info, MPI_Request* request) {
  return remember(PMPI_Precv_init(buffer, partitions, count, datatype, peer, tag, communicator, info, request),
                  communicator, request, "MPI_Precv_init", kPartitioned);
}

}  // extern "C"

#endif  // MPI_VERSION >= 4
