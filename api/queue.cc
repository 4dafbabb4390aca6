#include "api/queue.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "api/match_call.h"
#include "api/patience.h"

namespace lanyard::api {

namespace {

using Clock = std::chrono::steady_clock;

// A waiting thread polls for this long before it sleeps between polls.
constexpr std::chrono::microseconds kSpin{50};
constexpr std::chrono::milliseconds kSleep{1};
constexpr uint64_t kRoundsPerYield = 128;  // some 10 us

int no_queue() { return raise(MPI_COMM_WORLD, MPIX_ERR_QUEUE, "not a queue of this process"); }

// Null where it is none. Requires the lock.
lanyard_queue* find(Context& context, MPIX_Queue queue) {
  const auto& queues = context.queues();
  const auto found = std::find_if(queues.begin(), queues.end(), [&](const auto& each) { return each.get() == queue; });
  return found == queues.end() ? nullptr : queue;
}

std::string describe_stall(lanyard_queue& queue) {
  const std::string text = queue.core->explain_stall();
  const auto blocked = queue.host_stream->stream.blocked_on();
  return blocked ? text + "\n(the stream has run " + std::to_string(blocked->executed) + " items)" : text;
}

// Waits until the queue is empty and settled, helping. MPI_SUCCESS, or an error that has been raised.
int drain(Context& context, lanyard_queue& queue) {
  gpu::HostStream& stream = queue.host_stream->stream;
  Patience patience(context.settings());
  Clock::time_point spin_until = patience.begin() + kSpin;
  uint64_t executed = stream.executed();
  std::string failure;
  std::string stall;

  context.nic().attend();
  stream.attend();
  for (uint64_t round = 0;; ++round) {
    const uint64_t seen = context.nic().activity();
    const bool empty = stream.poll();
    if (empty || round % 64 == 0) {
      context.helper().help();
      const auto lock = context.lock();
      // Before the failures: a failure is told before the done word grows that makes a queue settled.
      const bool done = queue.core->settled() && empty;
      if (const core::Request* failed = context.endpoint().take_failed(*queue.core)) {
        failure = "an operation of the request (" + failed->describe() + ") failed: " + code_name(failed->failure_code);
        break;
      }
      if (const uint64_t unrecorded = context.endpoint().take_unrecorded_failures(); unrecorded > 0) {
        failure = std::to_string(unrecorded) + " operations failed of which the network card kept no record";
        break;
      }
      if (done)
        break;
    }
    if (round % kRoundsPerYield != kRoundsPerYield - 1)
      continue;
    const Clock::time_point now = Clock::now();
    if (stream.executed() != executed) {
      executed = stream.executed();
      spin_until = now + kSpin;
    }
    sched_yield();
    if (now < spin_until)
      continue;
    // Still attending the stream: whatever ends the sleep is for this thread to go on with.
    context.nic().leave();
    {
      // The user is inside an MPI function: matching, and with it the MPI's own transfers, must go on.
      const auto lock = context.lock();
      MatchCall::advance_all(context);
      if (patience.is_over(context.rank(), [&] { return "in MPIX_Queue_wait:\n" + describe_stall(queue); }))
        stall = describe_stall(queue);
    }
    if (stall.empty())
      context.nic().wait_since(seen, kSleep);
    context.nic().attend();
    if (!stall.empty())
      break;
  }
  stream.leave();
  context.nic().leave();
  if (!failure.empty())
    return raise(MPI_COMM_WORLD, MPIX_ERR_FAILED, failure);
  if (!stall.empty())
    return raise(MPI_COMM_WORLD, MPIX_ERR_STALLED, "the deadline passed: " + stall);
  return MPI_SUCCESS;
}

// Finds the core's requests of an enqueuing call. An error names the first that is none. Sets `communicator` to that of
// the request that is in error, or of the first.
int collect(Context& context, int count, MPI_Request requests[], MPI_Comm* communicator, std::string* error) {
  std::vector<core::Request*>& out = context.scratch();
  out.clear();
  for (int i = 0; i < count; ++i) {
    RequestRecord* record =
        requests[i] == MPI_REQUEST_NULL ? nullptr : context.requests().find(requests[i]);
    if (record == nullptr) {
      *error = "request " + std::to_string(i) +
               (requests[i] == MPI_REQUEST_NULL ? " is MPI_REQUEST_NULL" : " is not a persistent point-to-point request");
      return MPI_ERR_REQUEST;
    }
    if (i == 0 || record->core == nullptr)
      *communicator = record->communicator;
    if (record->core == nullptr) {
      *error = "request " + std::to_string(i) + " is not matched (see MPIX_Match)";
      return MPI_ERR_REQUEST;
    }
    out.push_back(record->core);
  }
  return MPI_SUCCESS;
}

using EnqueueCall = Status (core::Queue::*)(std::span<core::Request* const>);

int enqueue(MPIX_Queue handle, int count, MPI_Request requests[], EnqueueCall call) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised();
  MPI_Comm communicator = MPI_COMM_WORLD;
  int error_class = MPI_SUCCESS;
  std::string error;
  std::optional<Patience> patience;  // from the first time on that there is no room
  while (true) {
    lanyard_queue* queue = nullptr;
    {
      const auto lock = context->lock();
      queue = find(*context, handle);
      if (queue == nullptr) {
        error_class = context->errors().class_of(MPIX_ERROR_QUEUE);
        error = "not a queue of this process";
        break;
      }
      error_class = check_array(count, requests, &error);
      if (error_class == MPI_SUCCESS)
        error_class = collect(*context, count, requests, &communicator, &error);
      if (error_class != MPI_SUCCESS)
        break;
      const Status status = (queue->core.get()->*call)(context->scratch());
      if (status.ok())
        return MPI_SUCCESS;
      if (status.code() != Code::kAgain) {
        error_class = error_class_for(*context, status.code());
        error = status.message();
        break;
      }
      MatchCall::advance_all(*context);  // the user is inside an MPI function
      if (!patience)
        patience.emplace(context->settings());
      if (patience->is_over(context->rank(), [&] { return "to enqueue: " + status.message(); })) {
        error_class = context->errors().class_of(MPIX_ERROR_STALLED);
        error = "the deadline passed: " + status.message() + "\n" + describe_stall(*queue);
        break;
      }
    }
    // The stream is full, or without overflow the NIC: both empty themselves as the stream goes on.
    queue->host_stream->stream.poll();
    context->helper().help();
    sched_yield();
  }
  return raise(communicator, error_class, error);
}

}  // namespace

}  // namespace lanyard::api

using namespace lanyard;
using namespace lanyard::api;

extern "C" {

int MPIX_Queue_init(MPIX_Queue* queue, MPIX_Queue_type type, void* stream_address) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised();
  if (queue == nullptr || stream_address == nullptr)
    return raise(MPI_COMM_WORLD, MPI_ERR_ARG, "MPIX_Queue_init: null pointer");
  if (type == MPIX_QUEUE_CUDA || type == MPIX_QUEUE_HIP)
    return raise(MPI_COMM_WORLD, MPI_ERR_UNSUPPORTED_OPERATION, "this build has host streams only (MPIX_QUEUE_HOST)");
  if (type != MPIX_QUEUE_HOST)
    return raise(MPI_COMM_WORLD, MPI_ERR_ARG, "MPIX_Queue_init: unknown queue type " + std::to_string(type));
  const MPIX_Host_stream stream = *static_cast<MPIX_Host_stream*>(stream_address);
  if (!lanyard_host_stream::valid(stream))
    return raise(MPI_COMM_WORLD, MPI_ERR_ARG, "MPIX_Queue_init: not a host stream");
  if (!context->nic_status().ok())
    return raise(MPI_COMM_WORLD, MPIX_ERR_NIC, context->nic_status().message());
  if (stream->has_queue.exchange(true))
    return raise(MPI_COMM_WORLD, MPIX_ERR_BUSY, "the stream has a queue already");
  stream->stream.set_helper(&context->helper());
  auto made = std::make_unique<lanyard_queue>();
  made->host_stream = stream;
  Status status;
  {
    const auto lock = context->lock();
    Result<std::unique_ptr<core::Queue>> made_core = core::Queue::create(context->endpoint(), stream->stream);
    status = made_core.status();
    if (made_core.ok()) {
      made->core = std::move(made_core.value());
      *queue = made.get();
      context->queues().push_back(std::move(made));
      return MPI_SUCCESS;
    }
  }
  made->abandon();
  return raise(MPI_COMM_WORLD, MPIX_ERR_NIC, status.message());
}

int MPIX_Queue_free(MPIX_Queue* handle) {
  Context* context = Context::get();
  lanyard_queue* queue = nullptr;
  std::string outstanding;
  if (context != nullptr && handle != nullptr) {
    const auto lock = context->lock();
    queue = find(*context, *handle);
    if (queue != nullptr && queue->core->unwaited() > 0)
      outstanding = std::to_string(queue->core->unwaited()) +
                    " requests were started on the queue and have no wait enqueued, one of them: " +
                    context->endpoint().find_unwaited(*queue->core)->describe();
  }
  if (queue == nullptr)
    return no_queue();
  if (!outstanding.empty())
    return raise(MPI_COMM_WORLD, MPIX_ERR_BUSY, outstanding);
  const int code = drain(*context, *queue);
  if (code != MPI_SUCCESS)
    return code;
  queue->abandon();
  const auto lock = context->lock();
  std::erase_if(context->queues(), [&](const auto& each) { return each.get() == queue; });
  *handle = MPIX_QUEUE_NULL;
  return MPI_SUCCESS;
}

int MPIX_Queue_wait(MPIX_Queue handle) {
  Context* context = Context::get();
  lanyard_queue* queue = nullptr;
  if (context != nullptr) {
    const auto lock = context->lock();
    queue = find(*context, handle);
  }
  return queue == nullptr ? no_queue() : drain(*context, *queue);
}

int MPIX_Queue_get_info(MPIX_Queue handle, MPI_Info* info) {
  Context* context = Context::get();
  lanyard_queue* queue = nullptr;
  if (context == nullptr)
    return no_queue();
  if (info == nullptr)
    return raise(MPI_COMM_WORLD, MPI_ERR_ARG, "MPIX_Queue_get_info: null pointer");
  std::vector<std::pair<const char*, std::string>> figures;
  {
    const auto lock = context->lock();
    queue = find(*context, handle);
    if (queue != nullptr) {
      const core::Queue::Figures& own = queue->core->figures();
      core::Endpoint& endpoint = context->endpoint();
      const nic::Caps& caps = context->nic().caps();
      const nic::Usage usage = context->nic().usage();
      figures = {
          {"nic", caps.name},
          {"strategy", "target-counter"},
          {"starts", std::to_string(own.starts)},
          {"waits", std::to_string(own.waits)},
          {"triggers", std::to_string(own.triggers)},
          {"bytes", std::to_string(own.bytes)},
          {"entries_posted", std::to_string(endpoint.entries_posted())},
          {"entries_overflowed", std::to_string(endpoint.overflow().overflowed())},
          {"entries_by_software", std::to_string(endpoint.overflow().by_software())},
          {"entries_in_use", std::to_string(caps.deferred_depth - context->nic().free_entries())},
          {"entries_depth", std::to_string(caps.deferred_depth)},
          {"counters", std::to_string(usage.counters)},
          {"regions", std::to_string(usage.regions)},
          {"failures", std::to_string(context->nic().failures())},
      };
    }
  }
  if (queue == nullptr)
    return no_queue();
  if (const int code = PMPI_Info_create(info); code != MPI_SUCCESS)
    return code;
  for (const auto& [key, value] : figures)
    PMPI_Info_set(*info, key, value.c_str());
  return MPI_SUCCESS;
}

int MPIX_Enqueue_startall(MPIX_Queue queue, int count, MPI_Request requests[]) {
  return enqueue(queue, count, requests, &core::Queue::start);
}

int MPIX_Enqueue_start(MPIX_Queue queue, MPI_Request* request) {
  return enqueue(queue, 1, request, &core::Queue::start);
}

int MPIX_Enqueue_waitall(MPIX_Queue queue, int count, MPI_Request requests[]) {
  return enqueue(queue, count, requests, &core::Queue::wait);
}

int MPIX_Enqueue_wait(MPIX_Queue queue, MPI_Request* request) {
  return enqueue(queue, 1, request, &core::Queue::wait);
}

}  // extern "C"
