// The persistent point-to-point requests of MPI: created by the MPI, remembered by Lanyard.

#include <mpi.h>
#include <sched.h>

#include <chrono>

#include "api/context.h"
#include "api/datatype.h"
#include "api/followed_calls.h"
#include "api/match_call.h"
#include "api/watched_handles.h"

namespace {

using lanyard::Result;
using lanyard::api::CommunicatorName;
using lanyard::api::Communicators;
using lanyard::api::Context;
using lanyard::api::ContextLock;
using lanyard::api::Elements;
using lanyard::api::raise;
using lanyard::api::RequestRecord;
using lanyard::core::Direction;
using lanyard::core::Transfer;

struct Arguments {
  const void* buffer;
  MPI_Count count;
  MPI_Datatype datatype;
  int peer;
  int tag;
  MPI_Comm communicator;
};

int core_peer(int peer) {
  if (peer == MPI_PROC_NULL)
    return lanyard::core::kNobody;
  return peer == MPI_ANY_SOURCE ? lanyard::core::kAnySource : peer;
}

void refuse(RequestRecord& record, int error_class, const std::string& why) {
  record.unusable_class = error_class;
  record.unusable = why;
}

// Of a communicator without a name.
const char* why_not_followed(MPI_Comm communicator) {
  int inter = 0;
  PMPI_Comm_test_inter(communicator, &inter);
  return inter ? "requests of an inter-communicator cannot be matched"
               : "Lanyard follows communicators made from MPI_COMM_WORLD or MPI_COMM_SELF, not this one "
                 "(of MPI_Intercomm_merge, MPI_Comm_spawn, MPI_Comm_accept, or a session)";
}

// Everything is resolved now, because the user may free the datatype and the communicator before matching.
void resolve(Context& context, const Arguments& arguments, RequestRecord& record)
    LANYARD_REQUIRES(lanyard::api::context_locked) {
  Communicators& communicators = context.communicators();
  CommunicatorName& name = communicators.of_request(arguments.communicator);
  record.communicator = *name.ref;
  Transfer& transfer = record.transfer;
  transfer.tag = arguments.tag == MPI_ANY_TAG ? lanyard::core::kAnyTag : arguments.tag;
  transfer.peer = core_peer(arguments.peer);
  transfer.rank = name.rank;
  const Result<Elements> elements =
      context.datatypes().elements_of(arguments.datatype, static_cast<uint64_t>(arguments.count));
  if (elements.ok()) {
    transfer.bytes = elements.value().bytes;
    // From MPI_BOTTOM an offset is an address.
    transfer.buffer = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(arguments.buffer) +
                                              static_cast<uintptr_t>(elements.value().offset));
    record.layout = elements.value().layout;
  }
  if (transfer.peer == lanyard::core::kNobody)
    return;  // nothing moves, whatever its type and communicator
  if (!elements.ok())
    return refuse(record, MPI_ERR_UNSUPPORTED_OPERATION, elements.status().message());
  if (name.id == 0)
    return refuse(record, MPI_ERR_UNSUPPORTED_OPERATION, why_not_followed(arguments.communicator));
  transfer.communicator = name.id;
  if (transfer.peer < 0)
    return;
  if (transfer.peer >= name.size)
    return refuse(record, MPI_ERR_RANK, "the communicator has no rank " + std::to_string(transfer.peer));
  const Result<uint32_t> nic = communicators.world_rank(name, transfer.peer);
  if (!nic.ok())
    return refuse(record, MPI_ERR_UNSUPPORTED_OPERATION, nic.status().message());
  transfer.peer_nic = nic.value();
}

int remember(int code, lanyard_request_kind kind, const Arguments& arguments, const MPI_Request* request) {
  Context* context = Context::get();
  if (code != MPI_SUCCESS || context == nullptr)
    return code;
  const ContextLock lock(*context);
  RequestRecord& record = context->requests().insert(*request);
  record.transfer.direction = kind == LANYARD_RECEIVE ? Direction::kReceive : Direction::kSend;
  record.transfer.ready = kind == LANYARD_READY_SEND;
  resolve(*context, arguments, record);
  if (kind == LANYARD_BUFFERED_SEND)
    refuse(record, MPI_ERR_UNSUPPORTED_OPERATION, "buffered sends cannot be matched");
  return code;
}

// So that nothing that the peer matches after it has heard of this rank by other ways meets the match that was
// withdrawn.
void wait_until_told(Context& context, uint32_t peer) {
  constexpr std::chrono::seconds kLongest{1};
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < kLongest) {
    context.helper().help();
    {
      const ContextLock lock(context);
      context.plane().progress();
      if (context.plane().has_taken_all(peer))
        return;
    }
    sched_yield();
  }
}

[[gnu::noinline]] int free_watched(MPI_Request* request) {
  Context* context = Context::get();
  if (context == nullptr)
    return PMPI_Request_free(request);
  MPI_Comm communicator = MPI_COMM_WORLD;
  lanyard::Status status;
  std::optional<uint32_t> withdrawn;  // whose offer it was made to
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
        status = {lanyard::Code::kInvalidState, "the request is being matched"};
      else if (record->matching()) {
        context->matcher().withdraw(*record->core);  // whose matching call has given up
        if (record->core->transfer.direction == Direction::kSend)
          withdrawn = record->core->transfer.peer_nic;
      }
      if (status.ok() && record->core != nullptr)
        status = context->matcher().free(*record->core);
      if (status.ok())
        context->requests().erase(*request);
    }
  }
  if (withdrawn)
    wait_until_told(*context, *withdrawn);
  return status.ok() ? PMPI_Request_free(request) : raise(communicator, MPI_ERR_REQUEST, status.message());
}

}  // namespace

extern "C" {

// A regular send waits for the receiver's clear-to-send, so it is synchronous as it stands.
#define LANYARD_REQUEST_INIT(name, kind, buffer_type, count_type)                                                 \
  int name(buffer_type buffer, count_type count, MPI_Datatype datatype, int peer, int tag, MPI_Comm communicator, \
           MPI_Request* request) {                                                                                \
    return remember(P##name(buffer, count, datatype, peer, tag, communicator, request), kind,                     \
                    {buffer, count, datatype, peer, tag, communicator}, request);                                 \
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
#endif

void lanyard_follow_request(lanyard_request_kind kind, const void* buffer, int count, MPI_Datatype datatype, int peer,
                            int tag, MPI_Comm communicator, MPI_Request request) {
  remember(MPI_SUCCESS, kind, {buffer, count, datatype, peer, tag, communicator}, &request);
}

int MPI_Request_free(MPI_Request* request) {
  using lanyard::api::watched_by_free;
  return watched_by_free.empty() || request == nullptr || !watched_by_free.may_have(*request)
             ? PMPI_Request_free(request)
             : free_watched(request);
}

}  // extern "C"
