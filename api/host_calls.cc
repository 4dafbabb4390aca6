// MPI's own calls on requests: refused where the request is a queue's to start and wait for, and a source of progress
// for match requests, whose matches MPI knows nothing of.

#include <mpi.h>
#include <sched.h>

#include <memory>
#include <string>
#include <vector>

#include "api/blocking_call.h"
#include "api/collective.h"
#include "api/context.h"
#include "api/followed_calls.h"
#include "api/match_call.h"
#include "api/watched_handles.h"

namespace {

using lanyard::api::BlockingCall;
using lanyard::api::Context;
using lanyard::api::context_locked;
using lanyard::api::ContextLock;
using lanyard::api::describe;
using lanyard::api::MatchCall;
using lanyard::api::parts_of;
using lanyard::api::raise;
using lanyard::api::RequestRecord;
using lanyard::api::watched;

enum class Call { kStart, kComplete };

// A match request among the requests of a call.
struct Match {
  int index;
  std::shared_ptr<MatchCall::Outcome> outcome;
};
using Matches = std::vector<Match>;

// Whether none of the requests is a queue's or a match call's: then the MPI may have the call, and nothing has been
// locked or called to know it.
inline bool are_plain(int count, const MPI_Request requests[]) {
  return watched.empty() || requests == nullptr || !watched.may_have_any(count, requests);
}

// RequestRecord::busy(), of what GPUs have done by themselves too.
bool is_busy(Context& context, const RequestRecord& record) LANYARD_REQUIRES(context_locked) {
  if (!record.busy())
    return false;
  context.endpoint().refresh_lanes();
  return record.busy();
}

// Refuses a call on requests that it may not be made on: MPI_SUCCESS, or an error that has been raised. Finds the match
// requests among them.
int check(const char* name, Call call, int count, const MPI_Request requests[], Matches* matches) {
  Context* context = Context::get();
  if (context == nullptr)
    return MPI_SUCCESS;
  MPI_Comm communicator = MPI_COMM_WORLD;
  std::string error;
  {
    const ContextLock lock(*context);
    MatchCall::advance_all(*context);
    for (int i = 0; i < count && error.empty(); ++i) {
      if (requests[i] == MPI_REQUEST_NULL)
        continue;
      if (const RequestRecord* record = context->requests().find(requests[i])) {
        communicator = record->communicator;
        if (call == Call::kStart && (record->matched() || record->matching()))
          error = "the request (" + describe(*record) + ") is matched: start it on a queue";
        else if (call == Call::kComplete && is_busy(*context, *record))
          error = "the request (" + describe(*record) + ") is enqueued: wait for it on its queue";
      } else if (const MatchCall* match = MatchCall::find(*context, requests[i])) {
        matches->push_back({i, match->outcome()});
      }
    }
  }
  return error.empty() ? MPI_SUCCESS : raise(name, communicator, MPI_ERR_REQUEST, error);
}

// The requests that the match requests of a call stand for and that are still being matched.
std::vector<const RequestRecord*> records_of(Context& context, const Matches& matches, const MPI_Request requests[]) {
  const ContextLock lock(context);
  std::vector<const RequestRecord*> records;
  for (const Match& match : matches)
    if (const MatchCall* call = MatchCall::find(context, requests[match.index])) {
      const std::vector<RequestRecord*> parts = parts_of(call->records());
      records.insert(records.end(), parts.begin(), parts.end());
    }
  return records;
}

// A blocking call with a match request in it becomes a loop of its testing form, so that matching goes on.
template <typename Test>
int wait_by_testing(const char* name, const Matches& matches, const MPI_Request requests[], Test test) {
  Context& context = *Context::get();
  BlockingCall call(context, {.name = name, .records = records_of(context, matches, requests)});
  std::string stall;
  while (stall.empty()) {
    int flag = 0;
    const int code = test(&flag);
    if (code != MPI_SUCCESS || flag)
      return code;
    context.helper().help();
    sched_yield();
    const ContextLock lock(context);
    MatchCall::advance_all(context);
    if (call.overdue() && call.report_ready())
      stall = "the deadline passed: " + call.report();
  }
  return raise(name, MPI_COMM_WORLD, MPIX_ERR_STALLED, stall);
}

// Lets go of the calls whose match requests have been completed.
void let_go() {
  Context& context = *Context::get();
  const ContextLock lock(context);
  MatchCall::advance_all(context);
}

// What the match request at `index` came to, where it has been completed and its match has failed; else null.
const MatchCall::Outcome* failed_at(const Matches& matches, int index) {
  for (const Match& match : matches)
    if (match.index == index && match.outcome->collected && match.outcome->code != MPI_SUCCESS)
      return match.outcome.get();
  return nullptr;
}

MPI_Comm communicator_of(const MatchCall::Outcome& outcome) {
  const ContextLock lock(*Context::get());
  return outcome.communicator;
}

// Ends a call that ended with `code` in the MPI and has completed the request at `index`.
int complete_one(int code, const Matches& matches, int index) {
  if (matches.empty())
    return code;
  let_go();
  const MatchCall::Outcome* failed = failed_at(matches, index);
  if (code != MPI_SUCCESS || failed == nullptr)
    return code;
  PMPI_Comm_call_errhandler(communicator_of(*failed), failed->code);
  return failed->code;
}

// The same for one that has completed *done requests: statuses[k] is that of request indices[k], or k where `indices`
// is null. The MPI fills in the errors of statuses only where it has found one itself.
int complete_several(const char* name, int code, const Matches& matches, const int* done, const int indices[],
                     MPI_Status* statuses) {
  int error_class = MPI_SUCCESS;
  if (matches.empty() || PMPI_Error_class(code, &error_class) != MPI_SUCCESS ||
      (error_class != MPI_SUCCESS && error_class != MPI_ERR_IN_STATUS))
    return code;
  let_go();
  const auto failed = [&](int k) { return failed_at(matches, indices == nullptr ? k : indices[k]); };
  const MatchCall::Outcome* first = nullptr;
  for (int k = *done; k-- > 0;)
    if (const MatchCall::Outcome* outcome = failed(k))
      first = outcome;
  if (first == nullptr)
    return code;
  for (int k = 0; k < *done && statuses != MPI_STATUSES_IGNORE; ++k) {
    if (const MatchCall::Outcome* outcome = failed(k))
      statuses[k].MPI_ERROR = outcome->code;
    else if (code == MPI_SUCCESS)
      statuses[k].MPI_ERROR = MPI_SUCCESS;
  }
  return code != MPI_SUCCESS
             ? code
             : raise(name, communicator_of(*first), MPI_ERR_IN_STATUS, "a match failed: see the statuses");
}

// ---- The calls where are_plain() does not know

[[gnu::noinline]] int start(int count, MPI_Request requests[], bool single) {
  Matches matches;
  if (const int code = check(single ? "MPI_Start" : "MPI_Startall", Call::kStart, count, requests, &matches);
      code != MPI_SUCCESS)
    return code;
  return single ? PMPI_Start(requests) : PMPI_Startall(count, requests);
}

[[gnu::noinline]] int test(MPI_Request* request, int* flag, MPI_Status* status) {
  Matches matches;
  if (const int code = check("MPI_Test", Call::kComplete, 1, request, &matches); code != MPI_SUCCESS)
    return code;
  return complete_one(PMPI_Test(request, flag, status), matches, 0);
}

[[gnu::noinline]] int testall(int count, MPI_Request requests[], int* flag, MPI_Status* statuses) {
  Matches matches;
  if (const int code = check("MPI_Testall", Call::kComplete, count, requests, &matches); code != MPI_SUCCESS)
    return code;
  const int code = PMPI_Testall(count, requests, flag, statuses);
  return code == MPI_SUCCESS && !*flag ? code
                                       : complete_several("MPI_Testall", code, matches, &count, nullptr, statuses);
}

[[gnu::noinline]] int testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  Matches matches;
  if (const int code = check("MPI_Testany", Call::kComplete, count, requests, &matches); code != MPI_SUCCESS)
    return code;
  const int code = PMPI_Testany(count, requests, index, flag, status);
  return complete_one(code, matches, code == MPI_SUCCESS && *flag ? *index : MPI_UNDEFINED);
}

[[gnu::noinline]] int testsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses) {
  Matches matches;
  if (const int code = check("MPI_Testsome", Call::kComplete, count, requests, &matches); code != MPI_SUCCESS)
    return code;
  const int code = PMPI_Testsome(count, requests, done, indices, statuses);
  return complete_several("MPI_Testsome", code, matches, done, indices, statuses);
}

[[gnu::noinline]] int wait(MPI_Request* request, MPI_Status* status) {
  Matches matches;
  int code = check("MPI_Wait", Call::kComplete, 1, request, &matches);
  if (code != MPI_SUCCESS)
    return code;
  if (matches.empty())
    return PMPI_Wait(request, status);
  code = wait_by_testing("MPI_Wait", matches, request, [&](int* flag) { return PMPI_Test(request, flag, status); });
  return complete_one(code, matches, 0);
}

[[gnu::noinline]] int waitall(int count, MPI_Request requests[], MPI_Status* statuses) {
  Matches matches;
  int code = check("MPI_Waitall", Call::kComplete, count, requests, &matches);
  if (code != MPI_SUCCESS)
    return code;
  if (matches.empty())
    return PMPI_Waitall(count, requests, statuses);
  code = wait_by_testing("MPI_Waitall", matches, requests,
                         [&](int* flag) { return PMPI_Testall(count, requests, flag, statuses); });
  return complete_several("MPI_Waitall", code, matches, &count, nullptr, statuses);
}

[[gnu::noinline]] int waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  Matches matches;
  int code = check("MPI_Waitany", Call::kComplete, count, requests, &matches);
  if (code != MPI_SUCCESS)
    return code;
  if (matches.empty())
    return PMPI_Waitany(count, requests, index, status);
  code = wait_by_testing("MPI_Waitany", matches, requests,
                         [&](int* flag) { return PMPI_Testany(count, requests, index, flag, status); });
  return complete_one(code, matches, code == MPI_SUCCESS ? *index : MPI_UNDEFINED);
}

[[gnu::noinline]] int waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses) {
  Matches matches;
  int code = check("MPI_Waitsome", Call::kComplete, count, requests, &matches);
  if (code != MPI_SUCCESS)
    return code;
  if (matches.empty())
    return PMPI_Waitsome(count, requests, done, indices, statuses);
  code = wait_by_testing("MPI_Waitsome", matches, requests, [&](int* flag) {
    const int result = PMPI_Testsome(count, requests, done, indices, statuses);
    *flag = *done != 0;  // MPI_UNDEFINED: nothing is active
    return result;
  });
  return complete_several("MPI_Waitsome", code, matches, done, indices, statuses);
}

[[gnu::noinline]] int cancel(MPI_Request* request) {
  Matches matches;
  const int code = check("MPI_Cancel", Call::kComplete, 1, request, &matches);
  if (code != MPI_SUCCESS)
    return code;
  if (!matches.empty())
    return raise("MPI_Cancel", MPI_COMM_WORLD, MPI_ERR_REQUEST, "a match request cannot be cancelled");
  return PMPI_Cancel(request);
}

[[gnu::noinline]] int get_status(MPI_Request request, int* flag, MPI_Status* status) {
  Matches matches;
  const int code = check("MPI_Request_get_status", Call::kComplete, 1, &request, &matches);
  return code != MPI_SUCCESS ? code : PMPI_Request_get_status(request, flag, status);
}

}  // namespace

extern "C" {

int lanyard_watches_any(void) { return watched.empty() ? 0 : 1; }

int lanyard_watches(MPI_Request request) { return are_plain(1, &request) ? 0 : 1; }

int MPI_Start(MPI_Request* request) { return are_plain(1, request) ? PMPI_Start(request) : start(1, request, true); }

int MPI_Startall(int count, MPI_Request requests[]) {
  return are_plain(count, requests) ? PMPI_Startall(count, requests) : start(count, requests, false);
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  return are_plain(1, request) ? PMPI_Test(request, flag, status) : test(request, flag, status);
}

int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status* statuses) {
  return are_plain(count, requests) ? PMPI_Testall(count, requests, flag, statuses)
                                    : testall(count, requests, flag, statuses);
}

int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  return are_plain(count, requests) ? PMPI_Testany(count, requests, index, flag, status)
                                    : testany(count, requests, index, flag, status);
}

int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses) {
  return are_plain(count, requests) ? PMPI_Testsome(count, requests, done, indices, statuses)
                                    : testsome(count, requests, done, indices, statuses);
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return are_plain(1, request) ? PMPI_Wait(request, status) : wait(request, status);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status* statuses) {
  return are_plain(count, requests) ? PMPI_Waitall(count, requests, statuses) : waitall(count, requests, statuses);
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  return are_plain(count, requests) ? PMPI_Waitany(count, requests, index, status)
                                    : waitany(count, requests, index, status);
}

int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses) {
  return are_plain(count, requests) ? PMPI_Waitsome(count, requests, done, indices, statuses)
                                    : waitsome(count, requests, done, indices, statuses);
}

int MPI_Cancel(MPI_Request* request) { return are_plain(1, request) ? PMPI_Cancel(request) : cancel(request); }

int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  return are_plain(1, &request) ? PMPI_Request_get_status(request, flag, status) : get_status(request, flag, status);
}

}  // extern "C"
