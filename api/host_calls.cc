// MPI's own calls on requests. They fail for a request that a queue must start and wait for. They
// make progress for match requests, as the MPI cannot.

#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/blocking_call.h"
#include "api/collective.h"
#include "api/context.h"
#include "api/followed_calls.h"
#include "api/match_call.h"

namespace lanyard::api {

namespace {

enum class Call { kStart, kComplete };

// A match request among the requests of a call.
struct Match {
  int index;
  std::shared_ptr<MatchCall::Outcome> outcome;
};
using Matches = std::vector<Match>;

// True if no request can belong to a queue or a match call: the MPI may have the call.
// Takes no lock.
inline bool are_plain(int count, const MPI_Request requests[]) {
  return watched.empty() || requests == nullptr || !watched.may_have_any(count, requests);
}

// Checks a call. MPI_SUCCESS and the match requests among its requests; or an error,
// already raised.
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
          error = "the request (" + describe(*record) + ") is matched: start it on a queue (MPIX_Enqueue_start)";
        else if (call == Call::kComplete && record->busy())
          error = "the request (" + describe(*record) + ") is enqueued: wait for its queue (MPIX_Queue_wait)";
      } else if (const MatchCall* match = MatchCall::find(*context, requests[i])) {
        matches->push_back({i, match->outcome()});
      }
    }
  }
  return error.empty() ? MPI_SUCCESS : raise(name, communicator, MPI_ERR_REQUEST, error);
}

// The requests of these match requests that are still being matched.
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

// How many match requests are complete. Asks the MPI about one that is not, so that the MPI
// makes progress.
size_t count_complete(const Matches& matches, const MPI_Request requests[]) {
  size_t complete = 0;
  const Match* open = nullptr;
  for (const Match& match : matches) {
    if (match.outcome->complete.load())
      ++complete;
    else
      open = &match;
  }
  int flag = 0;
  if (open != nullptr)
    PMPI_Request_get_status(requests[open->index], &flag, MPI_STATUS_IGNORE);
  return complete;
}

// Time between two tests of requests that only the MPI knows.
constexpr std::chrono::milliseconds kBetweenTests{1};

// A blocking call with a match request becomes a loop of its test call, so that matching goes on.
// `wait` is the MPI's blocking call. `test` is the test call; its errors name the blocking one.
// Both may invoke an error handler.
template <typename Wait, typename Test>
int wait_or_test(const char* name, int count, MPI_Request requests[], Wait wait, Test test) {
  Matches matches;
  if (const int code = check(name, Call::kComplete, count, requests, &matches); code != MPI_SUCCESS)
    return code;
  if (matches.empty())
    return wait();
  Context& context = *Context::get();
  const bool has_others = matches.size() < static_cast<size_t>(count);
  std::optional<BlockingCall> call(std::in_place, context,
                                   BlockingCall::Subject{name, nullptr, records_of(context, matches, requests)});
  std::string stall;
  while (stall.empty()) {
    const size_t complete = count_complete(matches, requests);
    int flag = 0;
    call->hide();
    const int code = test(name, &flag);
    if (code != MPI_SUCCESS || flag)
      return code;
    call->show();
    const auto next = BlockingCall::Clock::now() + kBetweenTests;
    while (stall.empty() && count_complete(matches, requests) == complete &&
           !(has_others && (complete == matches.size() || BlockingCall::Clock::now() > next))) {
      context.helper().help();
      sched_yield();
      const ContextLock lock(context);
      MatchCall::advance_all(context);
      if (call->overdue() && call->report_ready())
        stall = "the deadline passed: " + call->report();
    }
  }
  call.reset();
  return raise(name, MPI_COMM_WORLD, LANYARD_ERR_STALLED, stall);
}

// Frees the match calls whose match requests have completed.
void free_completed() {
  Context& context = *Context::get();
  const ContextLock lock(context);
  MatchCall::advance_all(context);
}

// The outcome of the match request at `index` if it has completed and its match failed; else null.
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

// Ends a call that has completed the request at `index`. `code` is the MPI's. Returns
// the call's code.
int complete_one(int code, const Matches& matches, int index) {
  if (matches.empty())
    return code;
  free_completed();
  const MatchCall::Outcome* failed = failed_at(matches, index);
  if (code != MPI_SUCCESS || failed == nullptr)
    return code;
  PMPI_Comm_call_errhandler(communicator_of(*failed), failed->code);
  return failed->code;
}

// The same for a call that has completed *done requests. statuses[k] belongs to request indices[k],
// or k if `indices` is null. The MPI sets errors in statuses only if it has found one itself.
int complete_several(const char* name, int code, const Matches& matches, const int* done, const int indices[],
                     MPI_Status* statuses) {
  int error_class = MPI_SUCCESS;
  if (matches.empty() || PMPI_Error_class(code, &error_class) != MPI_SUCCESS ||
      (error_class != MPI_SUCCESS && error_class != MPI_ERR_IN_STATUS))
    return code;
  free_completed();
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

// ---- The calls if are_plain() is false

// Checks a call. If that finds no error, the result is make(matches).
template <typename Make>
int check_and(const char* name, Call call, int count, const MPI_Request requests[], Make make) {
  Matches matches;
  const int code = check(name, call, count, requests, &matches);
  return code != MPI_SUCCESS ? code : make(matches);
}

[[gnu::noinline]] int start(int count, MPI_Request requests[], bool single) {
  return check_and(single ? "MPI_Start" : "MPI_Startall", Call::kStart, count, requests,
                   [&](const Matches&) { return single ? PMPI_Start(requests) : PMPI_Startall(count, requests); });
}

[[gnu::noinline]] int test(const char* name, MPI_Request* request, int* flag, MPI_Status* status) {
  return check_and(name, Call::kComplete, 1, request,
                   [&](const Matches& matches) { return complete_one(PMPI_Test(request, flag, status), matches, 0); });
}

[[gnu::noinline]] int testall(const char* name, int count, MPI_Request requests[], int* flag, MPI_Status* statuses) {
  return check_and(name, Call::kComplete, count, requests, [&](const Matches& matches) {
    const int code = PMPI_Testall(count, requests, flag, statuses);
    return code == MPI_SUCCESS && !*flag ? code : complete_several(name, code, matches, &count, nullptr, statuses);
  });
}

[[gnu::noinline]] int testany(const char* name, int count, MPI_Request requests[], int* index, int* flag,
                              MPI_Status* status) {
  return check_and(name, Call::kComplete, count, requests, [&](const Matches& matches) {
    const int code = PMPI_Testany(count, requests, index, flag, status);
    return complete_one(code, matches, code == MPI_SUCCESS && *flag ? *index : MPI_UNDEFINED);
  });
}

[[gnu::noinline]] int testsome(const char* name, int count, MPI_Request requests[], int* done, int indices[],
                               MPI_Status* statuses) {
  return check_and(name, Call::kComplete, count, requests, [&](const Matches& matches) {
    return complete_several(name, PMPI_Testsome(count, requests, done, indices, statuses), matches, done, indices,
                            statuses);
  });
}

[[gnu::noinline]] int wait(MPI_Request* request, MPI_Status* status) {
  return wait_or_test(
      "MPI_Wait", 1, request, [&] { return PMPI_Wait(request, status); },
      [&](const char* name, int* flag) { return test(name, request, flag, status); });
}

[[gnu::noinline]] int waitall(int count, MPI_Request requests[], MPI_Status* statuses) {
  return wait_or_test(
      "MPI_Waitall", count, requests, [&] { return PMPI_Waitall(count, requests, statuses); },
      [&](const char* name, int* flag) { return testall(name, count, requests, flag, statuses); });
}

[[gnu::noinline]] int waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  return wait_or_test(
      "MPI_Waitany", count, requests, [&] { return PMPI_Waitany(count, requests, index, status); },
      [&](const char* name, int* flag) { return testany(name, count, requests, index, flag, status); });
}

[[gnu::noinline]] int waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses) {
  return wait_or_test(
      "MPI_Waitsome", count, requests, [&] { return PMPI_Waitsome(count, requests, done, indices, statuses); },
      [&](const char* name, int* flag) {
        const int code = testsome(name, count, requests, done, indices, statuses);
        *flag = *done != 0;  // MPI_UNDEFINED: nothing is active
        return code;
      });
}

[[gnu::noinline]] int cancel(MPI_Request* request) {
  return check_and("MPI_Cancel", Call::kComplete, 1, request, [&](const Matches& matches) {
    return matches.empty()
               ? PMPI_Cancel(request)
               : raise("MPI_Cancel", MPI_COMM_WORLD, MPI_ERR_REQUEST, "a match request cannot be cancelled");
  });
}

[[gnu::noinline]] int get_status(MPI_Request request, int* flag, MPI_Status* status) {
  return check_and("MPI_Request_get_status", Call::kComplete, 1, &request,
                   [&](const Matches&) { return PMPI_Request_get_status(request, flag, status); });
}

}  // namespace

}  // namespace lanyard::api

using namespace lanyard::api;

extern "C" {

int lanyard_watches_any(void) { return watched.empty() ? 0 : 1; }

int lanyard_watches(MPI_Request request) { return are_plain(1, &request) ? 0 : 1; }

// The MPI gets the call if are_plain() is true for `requests`, else `watched_call`.
#define LANYARD_HOST_CALL(name, parameters, call, requests, watched_call) \
  int name parameters { return are_plain requests ? P##name call : watched_call; }

LANYARD_HOST_CALL(MPI_Start, (MPI_Request * request), (request), (1, request), start(1, request, true))
LANYARD_HOST_CALL(MPI_Startall, (int count, MPI_Request requests[]), (count, requests), (count, requests),
                  start(count, requests, false))
LANYARD_HOST_CALL(MPI_Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status),
                  (1, request), test("MPI_Test", request, flag, status))
LANYARD_HOST_CALL(MPI_Testall, (int count, MPI_Request requests[], int* flag, MPI_Status* statuses),
                  (count, requests, flag, statuses), (count, requests),
                  testall("MPI_Testall", count, requests, flag, statuses))
LANYARD_HOST_CALL(MPI_Testany, (int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status),
                  (count, requests, index, flag, status), (count, requests),
                  testany("MPI_Testany", count, requests, index, flag, status))
LANYARD_HOST_CALL(MPI_Testsome, (int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses),
                  (count, requests, done, indices, statuses), (count, requests),
                  testsome("MPI_Testsome", count, requests, done, indices, statuses))
LANYARD_HOST_CALL(MPI_Wait, (MPI_Request * request, MPI_Status* status), (request, status), (1, request),
                  wait(request, status))
LANYARD_HOST_CALL(MPI_Waitall, (int count, MPI_Request requests[], MPI_Status* statuses), (count, requests, statuses),
                  (count, requests), waitall(count, requests, statuses))
LANYARD_HOST_CALL(MPI_Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status),
                  (count, requests, index, status), (count, requests), waitany(count, requests, index, status))
LANYARD_HOST_CALL(MPI_Waitsome, (int count, MPI_Request requests[], int* done, int indices[], MPI_Status* statuses),
                  (count, requests, done, indices, statuses), (count, requests),
                  waitsome(count, requests, done, indices, statuses))
LANYARD_HOST_CALL(MPI_Cancel, (MPI_Request * request), (request), (1, request), cancel(request))
LANYARD_HOST_CALL(MPI_Request_get_status, (MPI_Request request, int* flag, MPI_Status* status), (request, flag, status),
                  (1, &request), get_status(request, flag, status))

}  // extern "C"
