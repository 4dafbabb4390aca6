#include "api/request_table.h"

#include <string>
#include <utility>

#include "api/context.h"
#include "api/datatype.h"
#include "api/watched_handles.h"

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
