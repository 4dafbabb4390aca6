// Sets of requests that kernels start and wait for.

#include <algorithm>
#include <cstring>
#include <string>
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
      const Result<uint64_t*> word = stream.reach(standing.bell.word);
      if (!word.ok())
        return word.status();
      const bool is_register = standing.bell.kind == nic::DoorbellKind::kMmioAdd;
      const uint64_t how = standing.rings != nullptr ? LANYARD_STORE_SUM
                           : is_register             ? LANYARD_STORE_ONE
                                                     : LANYARD_ADD_ONE;
      bells.push_back({reinterpret_cast<uint64_t>(word.value()), how, reinterpret_cast<uint64_t>(standing.rings)});
    }
    if (standing.count != nullptr) {
      const Result<uint64_t*> word = stream.reach(request->done.address);
      if (!word.ok())
        return word.status();
      completions.push_back({reinterpret_cast<uint64_t>(word.value()), reinterpret_cast<uint64_t>(standing.count)});
    }
  }
  const Lanyard_Device_requests head{bells.size(), completions.size()};
  std::vector<uint64_t> words(
      (sizeof head + bells.size() * sizeof bells[0] + completions.size() * sizeof completions[0]) / sizeof(uint64_t));
  auto* to = reinterpret_cast<std::byte*>(words.data());
  std::memcpy(to, &head, sizeof head);
  to += sizeof head;
  if (!bells.empty())
    std::memcpy(to, bells.data(), bells.size() * sizeof bells[0]);
  to += bells.size() * sizeof bells[0];
  if (!completions.empty())
    std::memcpy(to, completions.data(), completions.size() * sizeof completions[0]);
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

}  // namespace

extern "C" {

int Lanyard_Device_requests_create(Lanyard_Queue handle, int count, MPI_Request requests[],
                                   Lanyard_Device_requests** set) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised("MPIX_Device_requests_create");
  if (set == nullptr)
    return raise("MPIX_Device_requests_create", MPI_COMM_WORLD, MPI_ERR_ARG, "null pointer");
  Refusal refusal;
  {
    const ContextLock lock(*context);
    lanyard_queue* queue = find_queue(*context, handle);
    if (queue == nullptr) {
      refusal = {LANYARD_ERR_QUEUE, "not a queue of this process", MPI_COMM_WORLD};
    } else if (std::optional<Refusal> wrong = collect_requests(*context, count, requests)) {
      refusal = *wrong;
    } else {
      const std::vector<core::Request*> members = context->scratch();
      const Result<Lanyard_Device_requests*> made = make_set(*queue, members);
      if (made.ok()) {
        *set = made.value();
        return MPI_SUCCESS;
      }
      refusal = {error_class_for(*context, made.status().code()), made.status().message(), MPI_COMM_WORLD};
    }
  }
  return raise("MPIX_Device_requests_create", refusal.communicator, refusal.error_class, refusal.text);
}

int Lanyard_Device_requests_free(Lanyard_Queue handle, Lanyard_Device_requests** set) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised("MPIX_Device_requests_free");
  if (set == nullptr || *set == nullptr)
    return raise("MPIX_Device_requests_free", MPI_COMM_WORLD, MPI_ERR_ARG, "null pointer");
  int error_class = MPI_SUCCESS;
  std::string text;
  {
    const ContextLock lock(*context);
    lanyard_queue* queue = find_queue(*context, handle);
    if (queue == nullptr) {
      error_class = LANYARD_ERR_QUEUE;
      text = "not a queue of this process";
    } else {
      const auto found =
          std::find_if(queue->sets.begin(), queue->sets.end(), [&](const auto& each) { return each.memory == *set; });
      if (found == queue->sets.end()) {
        error_class = MPI_ERR_ARG;
        text = "not a set of requests of this queue";
      } else {
        if (const Status status = queue->core->dismiss(found->requests); !status.ok()) {
          error_class = LANYARD_ERR_BUSY;
          text = status.message();
        }
        if (error_class == MPI_SUCCESS) {
          queue->stream().give_memory(reinterpret_cast<std::byte*>(*set));
          queue->sets.erase(found);
        }
      }
    }
  }
  if (error_class != MPI_SUCCESS)
    return raise("MPIX_Device_requests_free", MPI_COMM_WORLD, error_class, text);
  *set = nullptr;
  return MPI_SUCCESS;
}

}  // extern "C"
