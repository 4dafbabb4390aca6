// Sets of requests that kernels start and wait for.

#include <algorithm>
#include <vector>

#include "api/context.h"
#include <lanyard/lanyard_device.h>
#include "api/queue.h"

namespace {

using namespace lanyard;
using namespace lanyard::api;

// The memory of a set as kernels read it: its head, bells and completions. Requires that the
// requests stand for kernels (core::Queue::stand).
Result<std::vector<uint64_t>> describe(gpu::Stream& stream, std::span<core::Request* const> requests) {
  std::vector<Lanyard_Device_bell> bells;
  std::vector<Lanyard_Device_completion> completions;
  for (const core::Request* request : requests) {
    const core::Standing& standing = *request->standing;
    if (standing.has_bell) {
      LANYARD_ASSIGN_OR_RETURN(const uint64_t* const word, stream.reach(standing.bell.word));
      const bool is_register = standing.bell.kind == nic::DoorbellKind::kMmioAdd;
      const uint64_t how = standing.rings != nullptr ? LANYARD_STORE_SUM
                           : is_register             ? LANYARD_STORE_ONE
                                                     : LANYARD_ADD_ONE;
      bells.push_back({reinterpret_cast<uint64_t>(word), how, reinterpret_cast<uint64_t>(standing.rings)});
    }
    if (standing.count != nullptr) {
      LANYARD_ASSIGN_OR_RETURN(const uint64_t* const word, stream.reach(request->done.address));
      completions.push_back({reinterpret_cast<uint64_t>(word), reinterpret_cast<uint64_t>(standing.count)});
    }
  }
  const Lanyard_Device_requests head{bells.size(), completions.size()};
  std::vector<uint64_t> words;
  const auto append = [&words](const void* from, size_t bytes) {
    const auto* first = static_cast<const uint64_t*>(from);
    words.insert(words.end(), first, first + bytes / sizeof(uint64_t));
  };
  append(&head, sizeof head);
  append(bells.data(), bells.size() * sizeof(Lanyard_Device_bell));
  append(completions.data(), completions.size() * sizeof(Lanyard_Device_completion));
  return words;
}

// Makes the set. On an error the requests are as before.
Result<Lanyard_Device_requests*> make_set(lanyard_queue& queue, std::span<core::Request* const> requests)
    LANYARD_REQUIRES(context_locked) {
  gpu::Stream& stream = queue.stream();
  if (stream.capturing() != 0)
    return Status(Code::kInvalidState, "the queue's stream is being captured into a graph: end the capture first");
  LANYARD_RETURN_IF_ERROR(queue.core->stand(requests));
  const auto undo = [&](Status status) {
    (void)queue.core->dismiss(requests);
    return status;
  };
  const Result<std::vector<uint64_t>> words = describe(stream, requests);
  if (!words.ok())
    return undo(words.status());
  const Result<std::byte*> memory = stream.take_memory(words.value());
  if (!memory.ok())
    return undo(memory.status());
  auto* set = reinterpret_cast<Lanyard_Device_requests*>(memory.value());
  queue.sets.push_back({set, {requests.begin(), requests.end()}});
  return set;
}

// Makes `call` with the queue, under the lock. Then raises the error that it returns.
template <typename Call>
int with_queue(const char* name, Lanyard_Queue handle, bool has_set, Call call) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised(name);
  if (!has_set)
    return raise(name, MPI_COMM_WORLD, MPI_ERR_ARG, "null pointer");
  Refusal refusal;
  {
    const ContextLock lock(*context);
    lanyard_queue* queue = find_queue(*context, handle);
    refusal = queue == nullptr ? Refusal{LANYARD_ERR_QUEUE, "not a queue of this process"} : call(*context, *queue);
  }
  return raise(name, refusal);
}

}  // namespace

extern "C" {

int Lanyard_Device_requests_create(Lanyard_Queue handle, int count, MPI_Request requests[],
                                   Lanyard_Device_requests** set) {
  const auto create = [&](Context& context, lanyard_queue& queue) LANYARD_REQUIRES(context_locked) -> Refusal {
    if (std::optional<Refusal> wrong = collect_requests(context, count, requests))
      return *wrong;
    const std::vector<core::Request*> members = context.scratch();
    const Result<Lanyard_Device_requests*> made = make_set(queue, members);
    if (!made.ok())
      return {error_class_for(context, made.status().code()), made.status().message()};
    *set = made.value();
    return {};
  };
  return with_queue("MPIX_Device_requests_create", handle, set != nullptr, create);
}

int Lanyard_Device_requests_free(Lanyard_Queue handle, Lanyard_Device_requests** set) {
  const auto dismiss = [&](Context&, lanyard_queue& queue) LANYARD_REQUIRES(context_locked) -> Refusal {
    const auto found = std::ranges::find(queue.sets, *set, &lanyard_queue::Set::memory);
    if (found == queue.sets.end())
      return {MPI_ERR_ARG, "not a set of requests of this queue"};
    if (const Status status = queue.core->dismiss(found->requests); !status.ok())
      return {LANYARD_ERR_BUSY, status.message()};
    queue.stream().give_memory(reinterpret_cast<std::byte*>(*set));
    queue.sets.erase(found);
    *set = nullptr;
    return {};
  };
  return with_queue("MPIX_Device_requests_free", handle, set != nullptr && *set != nullptr, dismiss);
}

}  // extern "C"
