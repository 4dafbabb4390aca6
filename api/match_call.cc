#include "api/match_call.h"

#include "api/collective.h"

namespace lanyard::api {

void fill_match_status(const core::Request& request, MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE)
    return;
  const bool receive = request.transfer.direction == core::Direction::kReceive;
  const auto rank = [](int peer) { return peer == core::kNobody ? MPI_PROC_NULL : peer; };
  status->MPI_SOURCE = receive ? rank(request.matched_peer) : MPI_ANY_SOURCE;
  status->MPI_TAG = receive && request.matched_tag != core::kAnyTag ? request.matched_tag : MPI_ANY_TAG;
  status->MPI_ERROR = MPI_SUCCESS;
  const uint64_t bytes = receive ? request.matched_bytes : 0;
  PMPI_Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(bytes));
  PMPI_Status_set_cancelled(status, 0);
}

int MatchCall::open() {
  outcome_ = std::make_shared<Outcome>();
  auto* state = new std::shared_ptr<Outcome>(outcome_);
  const int code = PMPI_Grequest_start(query, release, cancel, state, &handle_);
  if (code != MPI_SUCCESS)
    delete state;
  return code;
}

MatchCall::~MatchCall() {
  if (!taken_)
    return;
  watched.remove(handle_);
  watched_by_free.remove(handle_);
}

void MatchCall::discard() {
  PMPI_Grequest_complete(handle_);
  free_handle();
}

void MatchCall::take(std::vector<RequestRecord*> records) {
  taken_ = true;
  watched.add(handle_);
  watched_by_free.add(handle_);
  records_ = std::move(records);
  for (RequestRecord* record : records_)
    record->in_imatch = true;
}

void MatchCall::detach() {
  detached_ = true;
  if (outcome_->complete.load())
    free_handle();
}

void MatchCall::free_handle() const {
  MPI_Request handle = handle_;
  PMPI_Request_free(&handle);
}

void MatchCall::advance(Context& context) {
  while (ended_ < records_.size() && !records_[ended_]->matching())
    ++ended_;
  if (ended_ < records_.size())
    return;
  for (RequestRecord* record : records_) {
    record->in_imatch = false;
    if (record->matched() || outcome_->code != MPI_SUCCESS)
      continue;
    const Status error = match_error(*record);
    outcome_->code = context.errors().code(error_class_for(context, error.code()), error.message());
    outcome_->communicator = record->communicator;
  }
  const core::Request empty;  // a send: gives MPI's empty status
  const bool one = records_.size() == 1 && outcome_->code == MPI_SUCCESS && records_.front()->core != nullptr;
  fill_match_status(one ? *records_.front()->core : empty, &outcome_->status);
  records_.clear();
  PMPI_Grequest_complete(handle_);
  outcome_->complete.store(true);
  if (detached_)
    free_handle();
}

void MatchCall::advance_all(Context& context) {
  if (context.nic_status().ok()) {
    context.introductions().progress(context.plane());
    context.plane().progress();
  }
  context.match_calls().remove_if([&](const std::unique_ptr<MatchCall>& call) LANYARD_REQUIRES(context_locked) {
    if (!call->outcome_->complete.load())
      call->advance(context);
    return call->outcome_->collected.load();
  });
}

MatchCall* MatchCall::find(Context& context, MPI_Request request) {
  for (const auto& call : context.match_calls())
    if (call->handle() == request && !call->outcome_->collected.load() && !call->detached_)
      return call.get();
  return nullptr;
}

int MatchCall::query(void* state, MPI_Status* status) {
  *status = (*static_cast<std::shared_ptr<Outcome>*>(state))->status;
  return MPI_SUCCESS;
}

int MatchCall::release(void* state) {
  auto* outcome = static_cast<std::shared_ptr<Outcome>*>(state);
  (*outcome)->collected.store(true);
  delete outcome;
  return MPI_SUCCESS;
}

// Never called: Lanyard's MPI_Cancel refuses match requests.
int MatchCall::cancel(void*, int) { return MPI_SUCCESS; }

}  // namespace lanyard::api
