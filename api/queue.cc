#include "api/queue.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "api/blocking_call.h"
#include "api/collective.h"
#include "gpu/host/host_stream.h"

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
  if (Refusal refusal = check_array(count, requests); refusal.error_class != MPI_SUCCESS)
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
      return queue == nullptr ? raise_no_queue(name) : raise(name, *refusal);
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

// The queue with this handle. Null for another handle, and while MPI is not initialised.
lanyard_queue* look_up(Context* context, Lanyard_Queue handle) {
  if (context == nullptr)
    return nullptr;
  const ContextLock lock(*context);
  return find_queue(*context, handle);
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

// ---- Waiting until a queue is empty

using Clock = std::chrono::steady_clock;

// A waiting thread polls for this long before it sleeps between polls.
constexpr std::chrono::microseconds kSpin{50};
constexpr std::chrono::milliseconds kSleep{1};
// Rounds between two yields: some 10 us if this thread has the processor core to itself, else less
// than 1 us.
constexpr uint64_t kRoundsAlone = 128;
constexpr uint64_t kRoundsAmongOthers = 8;
// A longer yield has run another thread.
constexpr std::chrono::microseconds kShortYield{3};
// Time between two queries of a device's driver.
constexpr std::chrono::microseconds kBetweenQuestions{4};

void pause_for(std::chrono::nanoseconds time) {
  const Clock::time_point end = Clock::now() + time;
  while (Clock::now() < end) {
  }
}

// One wait, used by one thread.
class QueueWait {
 public:
  QueueWait(Context& context, lanyard_queue& queue, const char* caller)
      : context_(context),
        queue_(queue),
        stream_(queue.stream()),
        // A host stream runs on this thread, which also drives the card. With a deadline the stream
        // runs on its own thread, so that this one can report a kernel that never returns. With a
        // device stream the card's own thread drives; it shares the driver, so poll that rarely.
        is_host_(queue.device_stream == nullptr),
        runs_here_(is_host_ && context.settings().deadline.count() == 0),
        call_(context, {.name = caller, .queue = &queue}),
        spin_until_(call_.begin() + kSpin),
        executed_(stream_.executed()),
        moved_(context.nic().activity()) {
    if (is_host_)
      context_.nic().attend();
    if (runs_here_)
      stream_.attend();
  }
  ~QueueWait() {
    if (runs_here_)
      stream_.leave();
    if (is_host_)
      context_.nic().leave();
  }
  QueueWait(const QueueWait&) = delete;
  QueueWait& operator=(const QueueWait&) = delete;

  // Returns nothing once all is complete, or the first error.
  std::optional<Refusal> run() {
    for (uint64_t round = 0;; ++round) {
      const uint64_t seen = context_.nic().activity();
      const bool empty = poll_stream();
      if (const Status health = stream_.health(); !health.ok())
        return Refusal{LANYARD_ERR_FAILED, "the stream cannot continue: " + health.message()};
      if (empty || round % 64 == 0) {
        bool complete = false;
        if (std::optional<Refusal> failure = poll_card(complete))
          return failure;
        if (complete && empty)
          return std::nullopt;
      }
      if (round % rounds_per_yield_ != rounds_per_yield_ - 1 || yield_and_keep_spinning())
        continue;
      if (std::optional<Refusal> failure = check_peers_and_deadline())
        return failure;
      sleep_since(seen);
    }
  }

 private:
  // True if the stream is empty.
  bool poll_stream() {
    const bool empty = is_host_ && !runs_here_ ? stream_.is_empty() : stream_.poll();
    if (!is_host_ && !empty)
      pause_for(kBetweenQuestions);
    return empty;
  }

  // Sets `complete` if all starts of the queue have completed. Returns a failure, or nothing.
  std::optional<Refusal> poll_card(bool& complete) {
    context_.helper().help();
    const ContextLock lock(context_);
    // Before take_failure(): all failures are known once the queue is complete.
    complete = queue_.core->settled();
    // With sender-flag the queue waits for answers of senders: read them at once.
    if (!complete && context_.endpoint().raises_flags() && context_.plane().pending())
      context_.plane().progress();
    return take_failure();
  }

  // A failure of this queue that was not reported yet.
  std::optional<Refusal> take_failure() LANYARD_REQUIRES(context_locked) {
    core::Endpoint& endpoint = context_.endpoint();
    if (const core::Request* failed = endpoint.take_failed(*queue_.core)) {
      const std::string text =
          "an operation of the request (" + failed->describe() + ") failed: " + endpoint.explain_failure(*failed);
      endpoint.release(*endpoint.find(failed->number));
      return Refusal{LANYARD_ERR_FAILED, text};
    }
    const uint64_t unrecorded = endpoint.take_unrecorded_failures();
    if (unrecorded == 0)
      return std::nullopt;
    return Refusal{LANYARD_ERR_FAILED,
                   std::to_string(unrecorded) + " operations failed; their requests are no longer known"};
  }

  // Yields. True if it is too early to sleep or to do anything else that is slow.
  bool yield_and_keep_spinning() {
    const Clock::time_point now = Clock::now();
    if (stream_.executed() != executed_) {
      executed_ = stream_.executed();
      spin_until_ = now + kSpin;
    }
    sched_yield();
    rounds_per_yield_ = Clock::now() - now > kShortYield ? kRoundsAmongOthers : kRoundsAlone;
    return now < spin_until_;
  }

  std::optional<Refusal> check_peers_and_deadline() {
    const ContextLock lock(context_);
    context_.plane().progress();
    context_.endpoint().fail_requests_of_lost_peers();
    if (call_.overdue() && call_.report_ready())
      return Refusal{context_.errors().class_of(LANYARD_ERROR_STALLED), "the deadline passed: " + call_.report()};
    return std::nullopt;
  }

  void sleep_since(uint64_t seen) {
    // While the card moves data this thread keeps driving it. Otherwise the card's own thread would
    // wake, and the two would slow each other down.
    if (const uint64_t activity = context_.nic().activity(); activity != moved_) {
      moved_ = activity;
      spin_until_ = Clock::now() + kSpin;
      return;
    }
    // Does not leave the stream: after the sleep this thread runs it again.
    if (is_host_)
      context_.nic().leave();
    context_.nic().wait_since(seen, kSleep);
    if (is_host_)
      context_.nic().attend();
  }

  Context& context_;
  lanyard_queue& queue_;
  gpu::Stream& stream_;
  const bool is_host_;
  const bool runs_here_;
  BlockingCall call_;
  Clock::time_point spin_until_;
  uint64_t executed_;
  uint64_t moved_;  // the card's activity when last read
  uint64_t rounds_per_yield_ = kRoundsAlone;
};

}  // namespace

std::optional<Refusal> wait_until_empty(Context& context, lanyard_queue& queue, const char* caller) {
  if (queue.stream().capturing() != 0)
    return Refusal{LANYARD_ERR_QUEUE, "the queue's stream is being captured into a graph: end the capture first"};
  if (gpu::HostStream::inside_kernel())
    return Refusal{LANYARD_ERR_BUSY, "called by a kernel of a host stream, which must not wait for a stream"};
  return QueueWait(context, queue, caller).run();
}

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
  return raise("MPIX_Queue_init", refusal);
}

int Lanyard_Queue_free(Lanyard_Queue* handle) {
  Context* context = Context::get();
  lanyard_queue* queue = handle == nullptr ? nullptr : look_up(context, *handle);
  if (queue == nullptr)
    return raise_no_queue("MPIX_Queue_free");
  std::string outstanding;
  {
    const ContextLock lock(*context);
    if (queue->core->unwaited() > 0)
      outstanding = std::to_string(queue->core->unwaited()) +
                    " requests were started on the queue and have no wait (enqueue it first), one of them: " +
                    context->endpoint().find_unwaited(*queue->core)->describe();
  }
  if (!outstanding.empty())
    return raise("MPIX_Queue_free", MPI_COMM_WORLD, LANYARD_ERR_BUSY, outstanding);
  if (const std::optional<Refusal> failure = wait_until_empty(*context, *queue, "MPIX_Queue_free"))
    return raise("MPIX_Queue_free", *failure);
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
  lanyard_queue* queue = look_up(context, handle);
  if (queue == nullptr)
    return raise_no_queue("MPIX_Queue_wait");
  return raise("MPIX_Queue_wait", wait_until_empty(*context, *queue, "MPIX_Queue_wait").value_or(Refusal()));
}

int Lanyard_Queue_get_info(Lanyard_Queue handle, MPI_Info* info) {
  Context* context = Context::get();
  if (context != nullptr && info == nullptr)
    return raise("MPIX_Queue_get_info", MPI_COMM_WORLD, MPI_ERR_ARG, "null pointer");
  lanyard_queue* queue = look_up(context, handle);
  if (queue == nullptr)
    return raise_no_queue("MPIX_Queue_get_info");
  InfoItems figures;
  {
    const ContextLock lock(*context);
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
  return make_info(figures, info);
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
