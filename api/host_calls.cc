// MPI's own calls on requests: refused where the request is a queue's to start and wait for, and a source of progress
// for match requests, whose matches MPI knows nothing of.

#include <mpi.h>
#include <sched.h>

#include <memory>
#include <string>
#include <vector>

#include "api/context.h"
#include "api/match_call.h"
#include "api/patience.h"

namespace {

using lanyard::api::Context;
using lanyard::api::MatchCall;
using lanyard::api::Patience;
using lanyard::api::raise;
using lanyard::api::RequestRecord;

enum class Call { kStart, kComplete };

// A match request among the requests of a call.
struct Match {
  int index;
  std::shared_ptr<MatchCall::Outcome> outcome;
};
using Matches = std::vector<Match>;

// Refuses a call on requests that it may not be made on: MPI_SUCCESS, or an error that has been raised. Finds the match
// requests among them.
int check(Call call, int count, const MPI_Request requests[], Matches* matches) {
  Context* context = Context::get();
  if (context == nullptr || requests == nullptr)
    return MPI_SUCCESS;
  MPI_Comm communicator = MPI_COMM_WORLD;
  std::string error;
  {
    const auto lock = context->lock();
    if (context->requests().empty() && context->match_calls().empty())
      return MPI_SUCCESS;
    MatchCall::advance_all(*context);
    for (int i = 0; i < count && error.empty(); ++i) {
      if (requests[i] == MPI_REQUEST_NULL)
        continue;
      if (const RequestRecord* record = context->requests().find(requests[i])) {
        communicator = record->communicator;
        if (call == Call::kStart && (record->matched() || record->matching()))
          error = "the request (" + record->core->describe() + ") is matched: start it on a queue";
        else if (call == Call::kComplete && record->busy())
          error = "the request (" + record->core->describe() + ") is enqueued: wait for it on its queue";
      } else if (const MatchCall* match = MatchCall::find(*context, requests[i])) {
        matches->push_back({i, match->outcome()});
      }
    }
  }
  return error.empty() ? MPI_SUCCESS : raise(communicator, MPI_ERR_REQUEST, error);
}

// The match requests of a call that are still out, in words.
std::string describe(Context& context, const Matches& matches, const MPI_Request requests[]) {
  std::string text;
  for (const Match& match : matches)
    if (const MatchCall* call = MatchCall::find(context, requests[match.index]))
      text += (text.empty() ? "" : "; ") + call->describe();
  return text;
}

// A blocking call with a match request in it becomes a loop of its testing form, so that matching goes on.
template <typename Test>
int wait_by_testing(const Matches& matches, const MPI_Request requests[], Test test) {
  Context& context = *Context::get();
  Patience patience(context.settings());
  std::string stall;
  while (stall.empty()) {
    int flag = 0;
    const int code = test(&flag);
    if (code != MPI_SUCCESS || flag)
      return code;
    sched_yield();
    const auto lock = context.lock();
    MatchCall::advance_all(context);
    const auto what = [&] { return describe(context, matches, requests); };
    if (patience.is_over(context.rank(), [&] { return "for a match request: " + what(); }))
      stall = "the deadline passed: " + what();
  }
  return raise(MPI_COMM_WORLD, MPIX_ERR_STALLED, stall);
}

// The error of the match request at `index` that the call has completed, raised; or MPI_SUCCESS.
int code_of_one(const Matches& matches, int index) {
  for (const Match& match : matches) {
    if (match.index != index || match.outcome->code == MPI_SUCCESS)
      continue;
    PMPI_Comm_call_errhandler(match.outcome->communicator, match.outcome->code);
    return match.outcome->code;
  }
  return MPI_SUCCESS;
}

// The same for a call that has completed `count` requests: statuses[k] is that of request indices[k], or k where
// `indices` is null.
int code_of_several(const Matches& matches, int count, const int indices[], MPI_Status* statuses) {
  const MatchCall::Outcome* failed = nullptr;
  for (int k = 0; k < count; ++k)
    for (const Match& match : matches)
      if (match.index == (indices == nullptr ? k : indices[k]) && match.outcome->code != MPI_SUCCESS)
        failed = match.outcome.get();
  if (failed == nullptr)
    return MPI_SUCCESS;
  for (int k = 0; k < count && statuses != MPI_STATUSES_IGNORE; ++k) {
    statuses[k].MPI_ERROR = MPI_SUCCESS;
    for (const Match& match : matches)
      if (match.index == (indices == nullptr ? k : indices[k]))
        statuses[k].MPI_ERROR = match.outcome->code;
  }
  return raise(failed->communicator, MPI_ERR_IN_STATUS, "a match failed: see the statuses");
}

}  // namespace

extern "C" {

int MPI_Start(MPI_Request* request) {
  Matches matches;
  const int code = check(Call::kStart, 1, request, &matches);
  return code != MPI_SUCCESS ? code : PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
  Matches matches;
  const int code = check(Call::kStart, count, requests, &matches);
  return code != MPI_SUCCESS ? code : PMPI_Startall(count, requests);
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  Matches matches;
  int code = check(Call::kComplete, 1, request, &matches);
  if (code == MPI_SUCCESS)
    code = PMPI_Test(request, flag, status);
  return code == MPI_SUCCESS && *flag ? code_of_one(matches, 0) : code;
}

int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status* statuses) {
  Matches matches;
  int code = check(Call::kComplete, count, requests, &matches);
  if (code == MPI_SUCCESS)
    code = PMPI_Testall(count, requests, flag, statuses);
  return code == MPI_SUCCESS && *flag ? code_of_several(matches, count, nullptr, statuses) : code;
}

int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  Matches matches;
  int code = check(Call::kComplete, count, requests, &matches);
  if (code == MPI_SUCCESS)
    code = PMPI_Testany(count, requests, index, flag, status);
  return code == MPI_SUCCESS && *flag ? code_of_one(matches, *index) : code;
}

int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses) {
  Matches matches;
  int code = check(Call::kComplete, count, requests, &matches);
  if (code == MPI_SUCCESS)
    code = PMPI_Testsome(count, requests, done, indices, statuses);
  return code == MPI_SUCCESS && *done != MPI_UNDEFINED ? code_of_several(matches, *done, indices, statuses) : code;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  Matches matches;
  int code = check(Call::kComplete, 1, request, &matches);
  if (code != MPI_SUCCESS)
    return code;
  if (matches.empty())
    return PMPI_Wait(request, status);
  code = wait_by_testing(matches, request, [&](int* flag) { return PMPI_Test(request, flag, status); });
  return code == MPI_SUCCESS ? code_of_one(matches, 0) : code;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status* statuses) {
  Matches matches;
  int code = check(Call::kComplete, count, requests, &matches);
  if (code != MPI_SUCCESS)
    return code;
  if (matches.empty())
    return PMPI_Waitall(count, requests, statuses);
  code = wait_by_testing(matches, requests, [&](int* flag) { return PMPI_Testall(count, requests, flag, statuses); });
  return code == MPI_SUCCESS ? code_of_several(matches, count, nullptr, statuses) : code;
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  Matches matches;
  int code = check(Call::kComplete, count, requests, &matches);
  if (code != MPI_SUCCESS)
    return code;
  if (matches.empty())
    return PMPI_Waitany(count, requests, index, status);
  code =
      wait_by_testing(matches, requests, [&](int* flag) { return PMPI_Testany(count, requests, index, flag, status); });
  return code == MPI_SUCCESS ? code_of_one(matches, *index) : code;
}

int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses) {
  Matches matches;
  int code = check(Call::kComplete, count, requests, &matches);
  if (code != MPI_SUCCESS)
    return code;
  if (matches.empty())
    return PMPI_Waitsome(count, requests, done, indices, statuses);
  code = wait_by_testing(matches, requests, [&](int* flag) {
    const int result = PMPI_Testsome(count, requests, done, indices, statuses);
    *flag = *done != 0;  // MPI_UNDEFINED: nothing is active
    return result;
  });
  return code == MPI_SUCCESS && *done != MPI_UNDEFINED ? code_of_several(matches, *done, indices, statuses) : code;
}

int MPI_Cancel(MPI_Request* request) {
  Matches matches;
  const int code = check(Call::kComplete, 1, request, &matches);
  if (code != MPI_SUCCESS)
    return code;
  if (!matches.empty())
    return raise(MPI_COMM_WORLD, MPI_ERR_REQUEST, "a match request cannot be cancelled");
  return PMPI_Cancel(request);
}

int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  Matches matches;
  const int code = check(Call::kComplete, 1, &request, &matches);
  return code != MPI_SUCCESS ? code : PMPI_Request_get_status(request, flag, status);
}

}  // extern "C"
