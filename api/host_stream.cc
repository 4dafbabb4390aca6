#include <new>
#include <optional>
#include <string>

#include "api/blocking_call.h"
#include "api/context.h"
#include "api/errors.h"
#include "api/queue.h"

using namespace lanyard;
using namespace lanyard::api;

namespace {

// The state of the stream, if it has a queue.
std::string describe_stream(Context& context, const lanyard_host_stream& stream) LANYARD_REQUIRES(context_locked) {
  for (const auto& queue : context.queues())
    if (queue->host_stream == &stream && queue->core != nullptr)
      return describe_queue(*queue).text;
  return "the stream has no queue";
}

int invalid(const char* call) { return raise(call, MPI_COMM_WORLD, MPI_ERR_ARG, "not a host stream"); }

}  // namespace

extern "C" {

int Lanyard_Host_stream_create(Lanyard_Host_stream* stream) {
  if (stream == nullptr)
    return raise("MPIX_Host_stream_create", MPI_COMM_WORLD, MPI_ERR_ARG, "null pointer");
  lanyard_host_stream* made = new (std::nothrow) lanyard_host_stream;
  if (made == nullptr)
    return raise("MPIX_Host_stream_create", MPI_COMM_WORLD, MPI_ERR_NO_MEM, "no memory");
  *stream = made;
  return MPI_SUCCESS;
}

int Lanyard_Host_stream_launch(Lanyard_Host_stream stream, void (*kernel)(void*), void* argument) {
  if (!lanyard_host_stream::valid(stream))
    return invalid("MPIX_Host_stream_launch");
  const Status status = stream->stream.launch(kernel, argument);
  if (status.ok())
    return MPI_SUCCESS;
  const bool argument_wrong = status.code() == Code::kInvalidArgument;
  return raise("MPIX_Host_stream_launch", MPI_COMM_WORLD, argument_wrong ? MPI_ERR_ARG : MPI_ERR_NO_MEM,
               status.message());
}

int Lanyard_Host_stream_synchronize(Lanyard_Host_stream stream) {
  if (!lanyard_host_stream::valid(stream))
    return invalid("MPIX_Host_stream_synchronize");
  if (gpu::HostStream::inside_kernel())
    return raise("MPIX_Host_stream_synchronize", MPI_COMM_WORLD, LANYARD_ERR_BUSY,
                 "called by a kernel of a host stream, which must not wait for a stream");
  std::optional<BlockingCall> call;  // for warnings, while MPI is initialised
  if (Context* context = Context::get(); context != nullptr && context->nic_status().ok())
    call.emplace(*context, BlockingCall::Subject{.name = "MPIX_Host_stream_synchronize",
                                                 .extra = [=]() LANYARD_REQUIRES(context_locked) {
                                                   return describe_stream(*context, *stream);
                                                 }});
  const Status status = stream->stream.synchronize();
  call.reset();
  return status.ok() ? MPI_SUCCESS
                     : raise("MPIX_Host_stream_synchronize", MPI_COMM_WORLD, MPI_ERR_OTHER, status.message());
}

int Lanyard_Host_stream_free(Lanyard_Host_stream* stream) {
  if (stream == nullptr || !lanyard_host_stream::valid(*stream))
    return invalid("MPIX_Host_stream_free");
  if ((*stream)->has_queue.load())
    return raise("MPIX_Host_stream_free", MPI_COMM_WORLD, LANYARD_ERR_BUSY,
                 "the host stream has a queue: free the queue first");
  const int code = Lanyard_Host_stream_synchronize(*stream);
  if (code != MPI_SUCCESS)
    return code;
  (*stream)->alive = 0;
  delete *stream;
  *stream = LANYARD_HOST_STREAM_NULL;
  return MPI_SUCCESS;
}

}  // extern "C"
