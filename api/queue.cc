#include "api/queue.h"

#include <sched.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "api/blocking_call.h"
#include "api/collective.h"

namespace lanyard::api {

namespace {

MPI_Comm communicator_of(Context& context, MPI_Request request) LANYARD_REQUIRES(context_locked) {
  const RequestRecord* record = context.requests().find(request);
  return record == nullptr ? MPI_COMM_WORLD : record->communicator;
}

Refusal refuse_request(Context& context, int index, MPI_Request request) LANYARD_REQUIRES(context_locked) {
  const std::string name = "request " + std::to_string(index);
  if (request == MPI_REQUEST_NULL)
    return {MPI_ERR_REQUEST, name + " is MPI_REQUEST_NULL"};
  const RequestRecord* record = context.requests().find(request);
  if (record == nullptr)
    return {MPI_ERR_REQUEST,
            name + " is not a persistent point-to-point request, nor a collective that can be matched"};
  return {MPI_ERR_REQUEST, name + " (" + describe(*record) + ") is not matched (see MPIX_Match)", record->communicator};
}

// Appends the core requests of a record. False if it has none yet.
bool append(const RequestRecord* record, std::vector<core::Request*>& out) {
  if (record == nullptr)
    return false;
  if (record->core != nullptr)
    out.push_back(record->core);
  else if (record->collective == nullptr || record->collective->members.front()->core == nullptr)
    return false;
  else
    for (const auto& member : record->collective->next())
      out.push_back(member->core);
  return true;
}

}  // namespace

int raise_no_queue(const char* call) {
  return raise(call, MPI_COMM_WORLD, LANYARD_ERR_QUEUE, "not a queue of this process");
}

std::optional<Refusal> collect_requests(Context& context, int count, MPI_Request requests[]) {
  Refusal refusal;
  refusal.error_class = check_array(count, requests, &refusal.text);
  if (refusal.error_class != MPI_SUCCESS)
    return refusal;
  context.scratch().clear();
  for (int i = 0; i < count; ++i) {
    RequestRecord* record = context.requests().find(requests[i]);
    if (!append(record, context.scratch()))
      return refuse_request(context, i, requests[i]);
  }
  return std::nullopt;
}

namespace {

using EnqueueCall = Status (core::Queue::*)(std::span<core::Request* const>);

// Makes `call`. While there is no room it blocks, until there is room or an error.
int enqueue(const char* name, Lanyard_Queue handle, int count, MPI_Request requests[], EnqueueCall call) {
  Context* const found = Context::get();
  if (found == nullptr)
    return raise_not_initialised(name);
  Context& context = *found;
  std::string obstacle;
  std::optional<BlockingCall> blocking;
  while (true) {
    std::optional<Refusal> refusal;
    lanyard_queue* queue = nullptr;
    {
      const ContextLock lock(context);
      queue = find_queue(context, handle);
      if (queue != nullptr && !(refusal = collect_requests(context, count, requests))) {
        const Status status = (queue->core.get()->*call)(context.scratch());
        if (status.ok())
          return MPI_SUCCESS;
        const MPI_Comm communicator = count > 0 ? communicator_of(context, requests[0]) : MPI_COMM_WORLD;
        obstacle = status.message();
        if (status.code() != Code::kAgain) {
          refusal = {error_class_for(context, status.code()), obstacle, communicator};
        } else {
          context.plane().progress();
          if (blocking && blocking->overdue() && blocking->report_ready())
            refusal = {context.errors().class_of(LANYARD_ERROR_STALLED), "the deadline passed: " + blocking->report(),
                       communicator};
        }
      }
    }
    if (queue == nullptr || refusal) {
      blocking.reset();
      return queue == nullptr ? raise_no_queue(name)
                              : raise(name, refusal->communicator, refusal->error_class, refusal->text);
    }
    if (!blocking)
      blocking.emplace(context, BlockingCall::Subject{.name = name, .queue = queue, .extra = [&obstacle] {
                                                        return "it cannot enqueue: " + obstacle + "\n";
                                                      }});
    // The stream is full; or the NIC is, and overflow is off. Both drain as the stream runs.
    // With a deadline a host stream runs on its own thread, as a kernel that never returns would
    // block this one.
    if (queue->device_stream != nullptr || context.settings().deadline.count() == 0)
      queue->stream().poll();
    context.helper().help();
    sched_yield();
  }
}

// Attaches the user's stream to a queue. error_class is MPI_SUCCESS on success.
Refusal take_host_stream(Context& context, lanyard_queue& queue, void* address) {
  const Lanyard_Host_stream stream = *static_cast<Lanyard_Host_stream*>(address);
  if (!lanyard_host_stream::valid(stream))
    return {MPI_ERR_ARG, "not a host stream"};
  if (!context.nic_status().ok())
    return {LANYARD_ERR_NIC, context.nic_status().message()};
  if (stream->has_queue.exchange(true))
    return {LANYARD_ERR_BUSY, "the stream has a queue already"};
  stream->stream.set_helper(&context.helper());
  queue.host_stream = stream;
  return {};
}

Refusal take_device_stream(Context& context, lanyard_queue& queue, Lanyard_Queue_type type, void* address) {
  const char* kind = type == LANYARD_QUEUE_CUDA ? "cuda" : "hip";
  if (context.gpus() == nullptr)
    return {MPI_ERR_UNSUPPORTED_OPERATION,
            "no GPU streams: " + context.gpu_status().message() + "; host streams (MPIX_QUEUE_HOST) work everywhere"};
  if (std::string_view(context.gpus()->kind()) != kind)
    return {MPI_ERR_UNSUPPORTED_OPERATION,
            std::string("this build is for ") + context.gpus()->kind() + " streams, not for " + kind};
  if (!context.nic_status().ok())
    return {LANYARD_ERR_NIC, context.nic_status().message()};
  queue.device_handle = *static_cast<void**>(address);
  {
    const ContextLock lock(context);
    for (const auto& other : context.queues())
      if (other->device_stream != nullptr && other->device_handle == queue.device_handle)
        return {LANYARD_ERR_BUSY, "the stream has a queue already"};
  }
  Result<std::unique_ptr<gpu::Stream>> stream = context.gpus()->make_stream(queue.device_handle);
  if (!stream.ok())
    return {error_class_for(context, stream.status().code()), stream.status().message()};
  queue.device_stream = std::move(stream.value());
  return {};
}

}  // namespace

}  // namespace lanyard::api

using namespace lanyard;
using namespace lanyard::api;

extern "C" {

int Lanyard_Queue_init(Lanyard_Queue* queue, Lanyard_Queue_type type, void* stream_address) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised("MPIX_Queue_init");
  if (queue == nullptr || stream_address == nullptr)
    return raise("MPIX_Queue_init", MPI_COMM_WORLD, MPI_ERR_ARG, "null pointer");
  if (type != LANYARD_QUEUE_HOST && type != LANYARD_QUEUE_CUDA && type != LANYARD_QUEUE_HIP)
    return raise("MPIX_Queue_init", MPI_COMM_WORLD, MPI_ERR_ARG, "unknown queue type " + std::to_string(type));
  auto made = std::make_unique<lanyard_queue>();
  Refusal refusal = type == LANYARD_QUEUE_HOST ? take_host_stream(*context, *made, stream_address)
                                               : take_device_stream(*context, *made, type, stream_address);
  if (refusal.error_class == MPI_SUCCESS) {
    const ContextLock lock(*context);
    Result<std::unique_ptr<core::Queue>> made_core = core::Queue::create(context->endpoint(), made->stream());
    if (made_core.ok()) {
      made->core = std::move(made_core.value());
      *queue = made.get();
      context->queues().push_back(std::move(made));
      return MPI_SUCCESS;
    }
    refusal = {LANYARD_ERR_NIC, made_core.status().message(), MPI_COMM_WORLD};
  }
  made->abandon();
  return raise("MPIX_Queue_init", MPI_COMM_WORLD, refusal.error_class, refusal.text);
}

int Lanyard_Queue_free(Lanyard_Queue* handle) {
  Context* context = Context::get();
  lanyard_queue* queue = nullptr;
  std::string outstanding;
  if (context != nullptr && handle != nullptr) {
    const ContextLock lock(*context);
    queue = find_queue(*context, *handle);
    if (queue != nullptr && queue->core->unwaited() > 0)
      outstanding = std::to_string(queue->core->unwaited()) +
                    " requests were started on the queue and have no wait (enqueue it first), one of them: " +
                    context->endpoint().find_unwaited(*queue->core)->describe();
  }
  if (queue == nullptr)
    return raise_no_queue("MPIX_Queue_free");
  if (!outstanding.empty())
    return raise("MPIX_Queue_free", MPI_COMM_WORLD, LANYARD_ERR_BUSY, outstanding);
  if (const std::optional<Refusal> failure = wait_until_empty(*context, *queue, "MPIX_Queue_free"))
    return raise("MPIX_Queue_free", MPI_COMM_WORLD, failure->error_class, failure->text);
  std::string standing;
  {
    const ContextLock lock(*context);
    if (!queue->sets.empty())
      standing =
          "the queue has " + std::to_string(queue->sets.size()) + " sets of requests for kernels: free them first";
    else if (const Status status = queue->core->dismiss(); !status.ok())
      standing = status.message();
  }
  if (!standing.empty())
    return raise("MPIX_Queue_free", MPI_COMM_WORLD, LANYARD_ERR_BUSY, standing);
  queue->abandon();
  const ContextLock lock(*context);
  std::erase_if(context->queues(), [&](const auto& each) { return each.get() == queue; });
  *handle = LANYARD_QUEUE_NULL;
  return MPI_SUCCESS;
}

int Lanyard_Queue_wait(Lanyard_Queue handle) {
  Context* context = Context::get();
  lanyard_queue* queue = nullptr;
  if (context != nullptr) {
    const ContextLock lock(*context);
    queue = find_queue(*context, handle);
  }
  if (queue == nullptr)
    return raise_no_queue("MPIX_Queue_wait");
  const std::optional<Refusal> failure = wait_until_empty(*context, *queue, "MPIX_Queue_wait");
  return failure ? raise("MPIX_Queue_wait", MPI_COMM_WORLD, failure->error_class, failure->text) : MPI_SUCCESS;
}

int Lanyard_Queue_get_info(Lanyard_Queue handle, MPI_Info* info) {
  Context* context = Context::get();
  lanyard_queue* queue = nullptr;
  if (context == nullptr)
    return raise_no_queue("MPIX_Queue_get_info");
  if (info == nullptr)
    return raise("MPIX_Queue_get_info", MPI_COMM_WORLD, MPI_ERR_ARG, "null pointer");
  std::vector<std::pair<const char*, std::string>> figures;
  {
    const ContextLock lock(*context);
    queue = find_queue(*context, handle);
    if (queue != nullptr) {
      const core::Queue::Figures& own = queue->core->figures();
      const core::Endpoint& endpoint = context->endpoint();
      nic::Nic& nic = context->nic();
      const nic::Caps& caps = nic.caps();
      const nic::Usage usage = nic.usage();
      figures = {
          {"nic", caps.name},
          {"strategy", core::strategy_name(endpoint.options().strategy)},
          {"starts", std::to_string(own.starts)},
          {"waits", std::to_string(own.waits)},
          {"triggers", std::to_string(own.triggers)},
          {"bytes", std::to_string(own.bytes)},
          {"stream", queue->stream().kind()},
          {"device_memory", caps.device_memory ? "yes" : "no"},
          {"entries_posted", std::to_string(endpoint.entries_posted())},
          {"entries_overflowed", std::to_string(endpoint.overflow().overflowed())},
          {"entries_by_software", std::to_string(endpoint.overflow().by_software())},
          {"entries_in_use", std::to_string(caps.deferred_depth - nic.free_entries())},
          {"entries_depth", std::to_string(caps.deferred_depth)},
          {"counters", std::to_string(usage.counters)},
          {"regions", std::to_string(usage.regions)},
          {"failures", std::to_string(nic.failures())},
      };
    }
  }
  if (queue == nullptr)
    return raise_no_queue("MPIX_Queue_get_info");
  if (const int code = PMPI_Info_create(info); code != MPI_SUCCESS)
    return code;
  for (const auto& [key, value] : figures)
    PMPI_Info_set(*info, key, value.c_str());
  return MPI_SUCCESS;
}

int Lanyard_Enqueue_startall(Lanyard_Queue queue, int count, MPI_Request requests[]) {
  return enqueue("MPIX_Enqueue_startall", queue, count, requests, &core::Queue::start);
}

int Lanyard_Enqueue_start(Lanyard_Queue queue, MPI_Request* request) {
  return enqueue("MPIX_Enqueue_start", queue, 1, request, &core::Queue::start);
}

int Lanyard_Enqueue_waitall(Lanyard_Queue queue, int count, MPI_Request requests[]) {
  return enqueue("MPIX_Enqueue_waitall", queue, count, requests, &core::Queue::wait);
}

int Lanyard_Enqueue_wait(Lanyard_Queue queue, MPI_Request* request) {
  return enqueue("MPIX_Enqueue_wait", queue, 1, request, &core::Queue::wait);
}

}  // extern "C"
