#include "api/request_table.h"

#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "api/collective.h"
#include "api/context.h"
#include "api/datatype.h"
#include "api/followed_calls.h"
#include "api/match_call.h"
#include "transport/base/check.h"

namespace lanyard::api {

using core::Transfer;

namespace {

int core_peer(int peer) {
  if (peer == MPI_PROC_NULL)
    return core::kNobody;
  return peer == MPI_ANY_SOURCE ? core::kAnySource : peer;
}

// For a communicator without a name.
const char* why_not_followed(MPI_Comm communicator) {
  int inter = 0;
  PMPI_Comm_test_inter(communicator, &inter);
  return inter ? "requests of an inter-communicator cannot be matched"
               : "Lanyard supports only communicators made from MPI_COMM_WORLD or MPI_COMM_SELF "
                 "(not by MPI_Intercomm_merge, MPI_Comm_spawn, MPI_Comm_accept, or a session)";
}

}  // namespace

void resolve(Context& context, const RequestArguments& arguments, RequestRecord& record) {
  Communicators& communicators = context.communicators();
  CommunicatorName& name = communicators.of_request(arguments.communicator);
  record.communicator = *name.ref;
  Transfer& transfer = record.transfer;
  transfer.direction = arguments.kind == LANYARD_RECEIVE ? core::Direction::kReceive : core::Direction::kSend;
  transfer.ready = arguments.kind == LANYARD_READY_SEND;
  transfer.tag = arguments.tag == MPI_ANY_TAG ? core::kAnyTag : arguments.tag;
  transfer.peer = core_peer(arguments.peer);
  transfer.rank = name.rank;
  const Result<Elements> elements = elements_of(arguments.datatype, static_cast<uint64_t>(arguments.count));
  if (elements.ok()) {
    transfer.bytes = elements.value().bytes;
    // The buffer may be MPI_BOTTOM, so this adds integers.
    transfer.buffer = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(arguments.buffer) +
                                              static_cast<uintptr_t>(elements.value().offset));
    record.layout = elements.value().layout;
  }
  if (arguments.kind == LANYARD_BUFFERED_SEND)
    return record.refuse(MPI_ERR_UNSUPPORTED_OPERATION, "buffered sends cannot be matched");
  if (transfer.peer == core::kNobody)
    return;  // no transfer: any datatype and communicator will do
  if (!elements.ok())
    return record.refuse(MPI_ERR_UNSUPPORTED_OPERATION, elements.status().message());
  if (name.id == 0)
    return record.refuse(MPI_ERR_UNSUPPORTED_OPERATION, why_not_followed(arguments.communicator));
  transfer.communicator = name.id;
  if (transfer.peer < 0)
    return;
  if (transfer.peer >= name.size)
    return record.refuse(MPI_ERR_RANK, "the communicator has no rank " + std::to_string(transfer.peer));
  const Result<uint32_t> nic = communicators.world_rank(name, transfer.peer);
  if (!nic.ok())
    return record.refuse(MPI_ERR_UNSUPPORTED_OPERATION, nic.status().message());
  transfer.peer_nic = nic.value();
}

constinit WatchedHandles watched;
constinit WatchedHandles watched_by_free;

namespace {

void make(RequestRecord& record) {
  if (const auto make_collective = std::exchange(record.make_collective, nullptr))
    make_collective(record);
}

}  // namespace

RequestRecord* RequestTable::find(MPI_Request handle) {
  const auto found = records_.find(handle);
  if (found == records_.end())
    return nullptr;
  make(found->second);
  return &found->second;
}

RequestRecord& RequestTable::insert(MPI_Request handle) {
  erase(handle);
  watched_by_free.add(handle);
  if (erased_.empty())
    return records_[handle];
  erased_.back().key() = handle;
  RequestRecord& record = records_.insert(std::move(erased_.back())).position->second;
  erased_.pop_back();
  return record;
}

void RequestTable::erase(MPI_Request handle) {
  const auto found = records_.find(handle);
  if (found == records_.end())
    return;
  watched_by_free.remove(handle);
  if (found->second.is_watched)
    watched.remove(handle);
  found->second = RequestRecord();
  erased_.push_back(records_.extract(found));
}

bool RequestTable::erase_unwatched(MPI_Request handle) {
  const auto found = records_.find(handle);
  if (found == records_.end() || found->second.is_watched)
    return false;
  erase(handle);
  return true;
}

void RequestTable::make_collectives_of(MPI_Comm communicator) {
  for (auto& [handle, record] : records_)
    if (record.collective_over == communicator)
      make(record);
}

void RequestTable::watch(MPI_Request handle) {
  RequestRecord& record = *find(handle);
  if (!std::exchange(record.is_watched, true))
    watched.add(handle);
}

}  // namespace lanyard::api

// ---- The calls: the MPI makes the requests, and Lanyard records their arguments

using namespace lanyard;
using namespace lanyard::api;

namespace {

int remember(int code, const RequestArguments& arguments, const MPI_Request* request) {
  Context* context = Context::get();
  if (code != MPI_SUCCESS || context == nullptr)
    return code;
  const ContextLock lock(*context);
  resolve(*context, arguments, context->requests().insert(*request));
  return code;
}

#if MPI_VERSION >= 4
// Records a partitioned request, which cannot be matched, so that a matching call can say why.
int remember_partitioned(int code, MPI_Comm communicator, const MPI_Request* request, const char* name) {
  Context* context = Context::get();
  if (code != MPI_SUCCESS || context == nullptr)
    return code;
  const ContextLock lock(*context);
  RequestRecord& record = context->requests().insert(*request);
  record.communicator = *context->communicators().of_request(communicator).ref;
  record.refuse(MPI_ERR_UNSUPPORTED_OPERATION,
                std::string("a request of ") + name + " cannot be matched: Lanyard has no partitioned communication");
  return code;
}
#endif

// Blocks until the peers have received the withdrawals of offers, for at most 1 s in all. After
// that a message of the program to a peer cannot arrive before the withdrawal.
void wait_until_delivered(Context& context, std::set<uint32_t> peers) {
  constexpr std::chrono::seconds kLongest{1};
  const auto begin = std::chrono::steady_clock::now();
  while (!peers.empty() && std::chrono::steady_clock::now() - begin < kLongest) {
    context.helper().help();
    {
      const ContextLock lock(context);
      context.plane().progress();
      std::erase_if(
          peers, [&](uint32_t peer) LANYARD_REQUIRES(context_locked) { return context.plane().has_taken_all(peer); });
    }
    sched_yield();
  }
}

// Frees all parts or none: it checks all before it frees the first. Parts that are still being
// matched are withdrawn; `withdrawn` gets the peers of their offers.
Status free_parts(Context& context, RequestRecord& record, std::set<uint32_t>& withdrawn)
    LANYARD_REQUIRES(context_locked) {
  const std::vector<RequestRecord*> parts = parts_of({&record});
  for (const RequestRecord* part : parts)
    if (part->matched())
      LANYARD_RETURN_IF_ERROR(context.endpoint().check_free(*part->core));
  for (RequestRecord* part : parts) {
    if (part->core == nullptr)
      continue;
    if (part->matching()) {
      context.matcher().withdraw(*part->core);
      if (part->core->transfer.direction == core::Direction::kSend)
        withdrawn.insert(part->core->transfer.peer_nic);
    }
    const Status freed = context.matcher().free(*part->core);
    LANYARD_CHECK(freed.ok(), freed.message().c_str());
    part->core = nullptr;
  }
  if (record.collective != nullptr && record.collective->arithmetic && context.endpoint().unclosed() > 0)
    for (size_t set = 0; set < record.collective->sets(); ++set)
      context.keep(record.collective->members_of(set).back()->transfer.packing);
  return {};
}

bool forget_unmatched(Context& context, MPI_Request request) {
  const ContextLock lock(context);
  return context.requests().erase_unwatched(request);
}

[[gnu::noinline]] int free_watched(MPI_Request* request) {
  Context* context = Context::get();
  if (context == nullptr)
    return PMPI_Request_free(request);
  if (forget_unmatched(*context, *request))
    return PMPI_Request_free(request);
  MPI_Comm communicator = MPI_COMM_WORLD;
  Status status;
  std::set<uint32_t> withdrawn;  // the peers of withdrawn offers
  {
    const ContextLock lock(*context);
    MatchCall::advance_all(*context);
    if (MatchCall* call = MatchCall::find(*context, *request)) {
      call->detach();
      *request = MPI_REQUEST_NULL;
      MatchCall::advance_all(*context);
      return MPI_SUCCESS;
    }
    RequestRecord* record = context->requests().find(*request);
    if (record != nullptr) {
      communicator = record->communicator;
      if (record->in_imatch)
        status = {Code::kInvalidState, "the request is being matched: complete the match first"};
      else
        status = free_parts(*context, *record, withdrawn);
      if (status.ok())
        context->requests().erase(*request);
    }
  }
  wait_until_delivered(*context, std::move(withdrawn));
  return status.ok() ? PMPI_Request_free(request)
                     : raise("MPI_Request_free", communicator, MPI_ERR_REQUEST, status.message());
}

}  // namespace

extern "C" {

// A regular send is already synchronous: it waits for the receiver's clear-to-send.
#define LANYARD_REQUEST_INIT(name, kind, buffer_type, count_type)                                                 \
  int name(buffer_type buffer, count_type count, MPI_Datatype datatype, int peer, int tag, MPI_Comm communicator, \
           MPI_Request* request) {                                                                                \
    return remember(P##name(buffer, count, datatype, peer, tag, communicator, request),                           \
                    {kind, peer, tag, buffer, count, datatype, communicator}, request);                           \
  }

#define LANYARD_REQUEST_INITS(suffix, count_type)                                              \
  LANYARD_REQUEST_INIT(MPI_Send_init##suffix, LANYARD_SEND, const void*, count_type)           \
  LANYARD_REQUEST_INIT(MPI_Ssend_init##suffix, LANYARD_SEND, const void*, count_type)          \
  LANYARD_REQUEST_INIT(MPI_Rsend_init##suffix, LANYARD_READY_SEND, const void*, count_type)    \
  LANYARD_REQUEST_INIT(MPI_Bsend_init##suffix, LANYARD_BUFFERED_SEND, const void*, count_type) \
  LANYARD_REQUEST_INIT(MPI_Recv_init##suffix, LANYARD_RECEIVE, void*, count_type)

LANYARD_REQUEST_INITS(, int)
#if MPI_VERSION >= 4
LANYARD_REQUEST_INITS(_c, MPI_Count)

#define LANYARD_PARTITIONED_INIT(name, buffer_type)                                                                   \
  int name(buffer_type buffer, int partitions, MPI_Count count, MPI_Datatype datatype, int peer, int tag,             \
           MPI_Comm communicator, MPI_Info info, MPI_Request* request) {                                              \
    return remember_partitioned(P##name(buffer, partitions, count, datatype, peer, tag, communicator, info, request), \
                                communicator, request, #name);                                                        \
  }

LANYARD_PARTITIONED_INIT(MPI_Psend_init, const void*)
LANYARD_PARTITIONED_INIT(MPI_Precv_init, void*)
#endif

void lanyard_follow_request(lanyard_request_kind kind, const void* buffer, int count, MPI_Datatype datatype, int peer,
                            int tag, MPI_Comm communicator, MPI_Request request) {
  remember(MPI_SUCCESS, {kind, peer, tag, buffer, count, datatype, communicator}, &request);
}

int MPI_Request_free(MPI_Request* request) {
  return watched_by_free.empty() || request == nullptr || !watched_by_free.may_have(*request)
             ? PMPI_Request_free(request)
             : free_watched(request);
}

}  // extern "C"
