// Persistent point-to-point requests: the MPI creates them, and Lanyard records their arguments.

#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "api/context.h"
#include "api/collective.h"
#include "api/followed_calls.h"
#include "api/match_call.h"
#include "api/watched_handles.h"
#include "transport/base/check.h"

namespace {

using lanyard::api::Context;
using lanyard::api::ContextLock;
using lanyard::api::raise;
using lanyard::api::RequestArguments;
using lanyard::api::RequestRecord;
using lanyard::api::resolve;
using lanyard::core::Direction;

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
      std::erase_if(peers, [&](uint32_t peer) LANYARD_REQUIRES(lanyard::api::context_locked) {
        return context.plane().has_taken_all(peer);
      });
    }
    sched_yield();
  }
}

// Frees all parts or none: it checks all before it frees the first. Parts that are still being
// matched are withdrawn; `withdrawn` gets the peers of their offers.
lanyard::Status free_parts(Context& context, RequestRecord& record, std::set<uint32_t>& withdrawn)
    LANYARD_REQUIRES(lanyard::api::context_locked) {
  const std::vector<RequestRecord*> parts = lanyard::api::parts_of({&record});
  for (const RequestRecord* part : parts)
    if (part->matched())
      LANYARD_RETURN_IF_ERROR(context.endpoint().check_free(*part->core));
  for (RequestRecord* part : parts) {
    if (part->core == nullptr)
      continue;
    if (part->matching()) {
      context.matcher().withdraw(*part->core);
      if (part->core->transfer.direction == Direction::kSend)
        withdrawn.insert(part->core->transfer.peer_nic);
    }
    const lanyard::Status freed = context.matcher().free(*part->core);
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
  lanyard::Status status;
  std::set<uint32_t> withdrawn;  // the peers of withdrawn offers
  {
    const ContextLock lock(*context);
    lanyard::api::MatchCall::advance_all(*context);
    if (lanyard::api::MatchCall* call = lanyard::api::MatchCall::find(*context, *request)) {
      call->detach();
      *request = MPI_REQUEST_NULL;
      lanyard::api::MatchCall::advance_all(*context);
      return MPI_SUCCESS;
    }
    RequestRecord* record = context->requests().find(*request);
    if (record != nullptr) {
      communicator = record->communicator;
      if (record->in_imatch)
        status = {lanyard::Code::kInvalidState, "the request is being matched: complete the match first"};
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

LANYARD_REQUEST_INIT(MPI_Send_init, LANYARD_SEND, const void*, int)
LANYARD_REQUEST_INIT(MPI_Ssend_init, LANYARD_SEND, const void*, int)
LANYARD_REQUEST_INIT(MPI_Rsend_init, LANYARD_READY_SEND, const void*, int)
LANYARD_REQUEST_INIT(MPI_Bsend_init, LANYARD_BUFFERED_SEND, const void*, int)
LANYARD_REQUEST_INIT(MPI_Recv_init, LANYARD_RECEIVE, void*, int)

#if MPI_VERSION >= 4
LANYARD_REQUEST_INIT(MPI_Send_init_c, LANYARD_SEND, const void*, MPI_Count)
LANYARD_REQUEST_INIT(MPI_Ssend_init_c, LANYARD_SEND, const void*, MPI_Count)
LANYARD_REQUEST_INIT(MPI_Rsend_init_c, LANYARD_READY_SEND, const void*, MPI_Count)
LANYARD_REQUEST_INIT(MPI_Bsend_init_c, LANYARD_BUFFERED_SEND, const void*, MPI_Count)
LANYARD_REQUEST_INIT(MPI_Recv_init_c, LANYARD_RECEIVE, void*, MPI_Count)

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
  using lanyard::api::watched_by_free;
  return watched_by_free.empty() || request == nullptr || !watched_by_free.may_have(*request)
             ? PMPI_Request_free(request)
             : free_watched(request);
}

}  // extern "C"
