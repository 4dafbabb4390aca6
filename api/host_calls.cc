// MPI's own calls on requests: refused where the request is a queue's to start and wait for, and a source of progress for
// match requests, whose matches MPI knows nothing of.

#include <mpi.h>
#include <sched.h>

#include "api/context.h"
#include "api/match_call.h"

namespace {

using lanyard::api::Context;
using lanyard::api::MatchCall;
using lanyard::api::raise;
using lanyard::api::RequestRecord;

enum class Call { kStart, kComplete };

// Refuses a call on requests that it may not be made on: MPI_SUCCESS, or an error that has been raised. *matching: one
// of them is a match request.
int check(Call call, int count, const MPI_Request requests[], bool* matching) {
  *matching = false;
  Context* context = Context::get();
  if (context == nullptr || requests == nullptr)
    return MPI_SUCCESS;
  MPI_Comm communicator = MPI_COMM_WORLD;
  std::string error;
  {
    const auto lock = context->lock();
    MatchCall::advance_all(*context);
    if (context->requests().empty())
      return MPI_SUCCESS;
    for (int i = 0; i < count && error.empty(); ++i) {
      if (requests[i] == MPI_REQUEST_NULL)
        continue;
      if (const RequestRecord* record = context->requests().find(requests[i])) {
        communicator = record->communicator;
        if (call == Call::kStart && (record->matched() || record->matching()))
          error = "the request (" + record->core->describe() + ") is matched: start it on a queue";
        else if (call == Call::kComplete && record->busy())
          error = "the request (" + record->core->describe() + ") is enqueued: wait for it on its queue";
      } else if (MatchCall::find(*context, requests[i]) != nullptr) {
        *matching = true;
      }
    }
  }
  return error.empty() ? MPI_SUCCESS : raise(communicator, MPI_ERR_REQUEST, error);
}

// A blocking call with a match request in it becomes a loop of its testing form, so that matching goes on.
template <typename Test>
int wait_by_testing(Test test) {
  while (true) {
    int flag = 0;
    const int code = test(&flag);
    if (code != MPI_SUCCESS || flag)
      return code;
    sched_yield();
    Context* context = Context::get();
    const auto lock = context->lock();
    MatchCall::advance_all(*context);
  }
}

}  // namespace

extern "C" {

int MPI_Start(MPI_Request* request) {
  bool matching = false;
  const int code = check(Call::kStart, 1, request, &matching);
  return code != MPI_SUCCESS ? code : PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
  bool matching = false;
  const int code = check(Call::kStart, count, requests, &matching);
  return code != MPI_SUCCESS ? code : PMPI_Startall(count, requests);
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  bool matching = false;
  const int code = check(Call::kComplete, 1, request, &matching);
  return code != MPI_SUCCESS ? code : PMPI_Test(request, flag, status);
}

int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  bool matching = false;
  const int code = check(Call::kComplete, count, requests, &matching);
  return code != MPI_SUCCESS ? code : PMPI_Testall(count, requests, flag, statuses);
}

int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  bool matching = false;
  const int code = check(Call::kComplete, count, requests, &matching);
  return code != MPI_SUCCESS ? code : PMPI_Testany(count, requests, index, flag, status);
}

int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  bool matching = false;
  const int code = check(Call::kComplete, count, requests, &matching);
  return code != MPI_SUCCESS ? code : PMPI_Testsome(count, requests, done, indices, statuses);
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  bool matching = false;
  const int code = check(Call::kComplete, 1, request, &matching);
  if (code != MPI_SUCCESS)
    return code;
  if (!matching)
    return PMPI_Wait(request, status);
  return wait_by_testing([&](int* flag) { return PMPI_Test(request, flag, status); });
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  bool matching = false;
  const int code = check(Call::kComplete, count, requests, &matching);
  if (code != MPI_SUCCESS)
    return code;
  if (!matching)
    return PMPI_Waitall(count, requests, statuses);
  return wait_by_testing([&](int* flag) { return PMPI_Testall(count, requests, flag, statuses); });
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  bool matching = false;
  const int code = check(Call::kComplete, count, requests, &matching);
  if (code != MPI_SUCCESS)
    return code;
  if (!matching)
    return PMPI_Waitany(count, requests, index, status);
  return wait_by_testing([&](int* flag) { return PMPI_Testany(count, requests, index, flag, status); });
}

int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  bool matching = false;
  const int code = check(Call::kComplete, count, requests, &matching);
  if (code != MPI_SUCCESS)
    return code;
  if (!matching)
    return PMPI_Waitsome(count, requests, done, indices, statuses);
  return wait_by_testing([&](int* flag) {
    const int result = PMPI_Testsome(count, requests, done, indices, statuses);
    *flag = *done != 0;  // MPI_UNDEFINED: nothing is active
    return result;
  });
}

int MPI_Cancel(MPI_Request* request) {
  bool matching = false;
  const int code = check(Call::kComplete, 1, request, &matching);
  if (code != MPI_SUCCESS)
    return code;
  if (matching)
    return raise(MPI_COMM_WORLD, MPI_ERR_REQUEST, "a match request cannot be cancelled");
  return PMPI_Cancel(request);
}

int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  bool matching = false;
  const int code = check(Call::kComplete, 1, &request, &matching);
  return code != MPI_SUCCESS ? code : PMPI_Request_get_status(request, flag, status);
}

}  // extern "C"
