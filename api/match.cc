#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "api/context.h"
#include "api/match_call.h"

namespace lanyard::api {

namespace {

using Clock = std::chrono::steady_clock;

// Why the record cannot be given to a matching call, or MPI_SUCCESS. `resume`: a blocking call may go on with a match
// that an earlier one gave up waiting for.
int check_record(Context& context, const RequestRecord* record, MPI_Request request, bool resume, std::string* error) {
  if (record == nullptr) {
    *error = request == MPI_REQUEST_NULL ? "the request is MPI_REQUEST_NULL"
                                         : "the request is not a persistent point-to-point request";
    return MPI_ERR_REQUEST;
  }
  if (record->unusable_class != MPI_SUCCESS) {
    *error = record->unusable;
    return record->unusable_class;
  }
  if (!context.nic_status().ok()) {
    *error = context.nic_status().message();
    return context.errors().class_of(MPIX_ERROR_NIC);
  }
  if (record->matched()) {
    *error = "the request (" + record->core->describe() + ") is matched already";
    return MPI_ERR_REQUEST;
  }
  if (record->in_imatch || (record->matching() && !resume)) {
    *error = "the request (" + record->core->describe() + ") is being matched already";
    return MPI_ERR_REQUEST;
  }
  return MPI_SUCCESS;
}

struct Collected {
  std::vector<RequestRecord*> records;
  MPI_Comm communicator = MPI_COMM_WORLD;
  int error_class = MPI_SUCCESS;
  std::string error;
};

// Finds and checks the records of a call: all are fit, or the call is refused. Requires the lock.
Collected collect(Context& context, int count, MPI_Request requests[], bool resume) {
  Collected result;
  if (count < 0 || (count > 0 && requests == nullptr)) {
    result.error_class = count < 0 ? MPI_ERR_COUNT : MPI_ERR_ARG;
    result.error = "a number of requests and an array of them are needed";
    return result;
  }
  for (int i = 0; i < count; ++i) {
    RequestRecord* record = requests[i] == MPI_REQUEST_NULL ? nullptr : context.requests().find(requests[i]);
    if (record != nullptr)
      result.communicator = record->communicator;
    result.error_class = check_record(context, record, requests[i], resume, &result.error);
    if (result.error_class == MPI_SUCCESS &&
        std::find(result.records.begin(), result.records.end(), record) != result.records.end()) {
      result.error_class = MPI_ERR_REQUEST;
      result.error = "the request stands in the call twice";
    }
    if (result.error_class != MPI_SUCCESS) {
      result.error = "request " + std::to_string(i) + ": " + result.error;
      return result;
    }
    result.records.push_back(record);
  }
  return result;
}

// Requires fit records and the lock. What keeps one from starting becomes its match_error.
void begin(Context& context, const std::vector<RequestRecord*>& records) {
  for (RequestRecord* record : records) {
    if (record->matching())
      continue;
    if (record->core == nullptr)
      record->core = context.endpoint().new_request(record->transfer);
    if (Status status = context.matcher().begin(*record->core); !status.ok())
      record->core->match_error = status;
  }
}

std::string describe_waiting(const std::vector<RequestRecord*>& records) {
  std::string text;
  for (const RequestRecord* record : records)
    if (record->matching())
      text += (text.empty() ? "" : "; ") + record->core->describe();
  return "not matched by the peer: " + text +
         " (has it called a matching function for its side? Blocking matches in opposite orders deadlock: use "
         "MPIX_Matchall or MPIX_Imatch)";
}

// Waits until no record is matching any more. Returns the text of a stall, or "".
std::string wait_for(Context& context, const std::vector<RequestRecord*>& records) {
  const Clock::time_point start = Clock::now();
  bool warned = false;
  while (true) {
    {
      const auto lock = context.lock();
      MatchCall::advance_all(context);
      if (std::none_of(records.begin(), records.end(), [](const RequestRecord* record) { return record->matching(); }))
        return "";
      const Settings& settings = context.settings();
      const auto waited = Clock::now() - start;
      if (settings.deadline.count() > 0 && waited > settings.deadline)
        return describe_waiting(records);
      if (!warned && settings.warn_after.count() > 0 && waited > settings.warn_after) {
        warned = true;
        std::fprintf(stderr, "lanyard: rank %u has waited %lld ms to match: %s\n", context.rank(),
                     static_cast<long long>(settings.warn_after.count()), describe_waiting(records).c_str());
      }
    }
    sched_yield();
  }
}

int not_initialised() {
  return raise(MPI_COMM_WORLD, MPI_ERR_OTHER, "MPI is not initialised, or was before Lanyard was linked in");
}

// The error of a record whose match is over; MPI_SUCCESS where it is matched. Fills the status.
int outcome(Context& context, const RequestRecord& record, MPI_Status* status, std::string* error) {
  if (record.matched()) {
    fill_match_status(*record.core, status);
    return MPI_SUCCESS;
  }
  *error = record.core->match_error.message();
  return error_class_for(context, record.core->match_error.code());
}

int match(int count, MPI_Request requests[], MPI_Status statuses[], bool single) {
  Context* context = Context::get();
  if (context == nullptr)
    return not_initialised();
  Collected collected;
  {
    const auto lock = context->lock();
    collected = collect(*context, count, requests, true);
    if (collected.error_class == MPI_SUCCESS)
      begin(*context, collected.records);
  }
  if (collected.error_class != MPI_SUCCESS)
    return raise(collected.communicator, collected.error_class, collected.error);
  const std::string stall = wait_for(*context, collected.records);
  if (!stall.empty())
    return raise(collected.communicator, MPIX_ERR_STALLED, "the deadline passed: " + stall);

  int failed = 0;
  std::string first;
  int first_class = MPI_SUCCESS;
  {
    const auto lock = context->lock();
    for (int i = 0; i < count; ++i) {
      MPI_Status* status = statuses == MPI_STATUSES_IGNORE || statuses == MPI_STATUS_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
      std::string error;
      const int error_class = outcome(*context, *collected.records[static_cast<size_t>(i)], status, &error);
      if (error_class == MPI_SUCCESS)
        continue;
      if (status != MPI_STATUS_IGNORE)
        status->MPI_ERROR = context->errors().code(error_class, error);
      if (failed++ == 0) {
        first = error;
        first_class = error_class;
        collected.communicator = collected.records[static_cast<size_t>(i)]->communicator;
      }
    }
  }
  if (failed == 0)
    return MPI_SUCCESS;
  if (single)
    return raise(collected.communicator, first_class, first);
  return raise(collected.communicator, MPI_ERR_IN_STATUS, std::to_string(failed) + " of the matches failed, the first: " + first);
}

int imatch(int count, MPI_Request requests[], MPI_Request* match_request) {
  Context* context = Context::get();
  if (context == nullptr)
    return not_initialised();
  if (match_request == nullptr)
    return raise(MPI_COMM_WORLD, MPI_ERR_ARG, "a place for the match request is needed");
  Collected collected;
  {
    const auto lock = context->lock();
    collected = collect(*context, count, requests, false);
    if (collected.error_class == MPI_SUCCESS) {
      auto call = std::make_unique<MatchCall>(collected.records);
      if (const int code = call->open(); code != MPI_SUCCESS)
        return code;
      begin(*context, collected.records);
      *match_request = call->handle();
      context->match_calls().push_back(std::move(call));
      MatchCall::advance_all(*context);
    }
  }
  if (collected.error_class != MPI_SUCCESS)
    return raise(collected.communicator, collected.error_class, collected.error);
  return MPI_SUCCESS;
}

}  // namespace

}  // namespace lanyard::api

using namespace lanyard::api;

extern "C" {

int MPIX_Match(MPI_Request* request, MPI_Status* status) { return match(1, request, status, true); }

int MPIX_Matchall(int count, MPI_Request requests[], MPI_Status* statuses) {
  return match(count, requests, statuses, false);
}

int MPIX_Imatch(MPI_Request* request, MPI_Request* match_request) { return imatch(1, request, match_request); }

int MPIX_Imatchall(int count, MPI_Request requests[], MPI_Request* match_request) {
  return imatch(count, requests, match_request);
}

int MPIX_Is_matched(MPI_Request request, int* flag) {
  Context* context = Context::get();
  if (context == nullptr)
    return not_initialised();
  if (flag == nullptr)
    return raise(MPI_COMM_WORLD, MPI_ERR_ARG, "MPIX_Is_matched: null pointer");
  {
    const auto lock = context->lock();
    MatchCall::advance_all(*context);
    if (const RequestRecord* record = request == MPI_REQUEST_NULL ? nullptr : context->requests().find(request)) {
      *flag = record->matched() ? 1 : 0;
      return MPI_SUCCESS;
    }
  }
  return raise(MPI_COMM_WORLD, MPI_ERR_REQUEST, "not a persistent point-to-point request");
}

}  // extern "C"
