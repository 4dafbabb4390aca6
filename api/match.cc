#include <sched.h>

#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/blocking_call.h"
#include "api/collective.h"
#include "api/context.h"
#include "api/match_call.h"
#include "gpu/packing.h"

namespace lanyard::api {

namespace {

// A matching call spins this long after the last event. Then it sleeps between polls.
constexpr std::chrono::microseconds kSpin{200};
constexpr std::chrono::milliseconds kSleep{1};
// A matching call polls the NIC after beginning this many matches.
constexpr size_t kBetweenPolls = 64;

// The error if the record cannot be matched. `resume`: accepts a match that an earlier blocking
// call gave up at its deadline.
Refusal check_record(Context& context, RequestRecord* record, MPI_Request request, bool resume)
    LANYARD_REQUIRES(context_locked) {
  if (record == nullptr)
    return {MPI_ERR_REQUEST, request == MPI_REQUEST_NULL
                                 ? "the request is MPI_REQUEST_NULL"
                                 : "the request is not a persistent point-to-point request (of persistent collectives "
                                   "only those of MPIX_Barrier_init and its like are matched), or the call that made "
                                   "it bypassed Lanyard: check the order of MPI tools"};
  if (record->unusable_class != MPI_SUCCESS)
    return {record->unusable_class, record->unusable};
  if (!context.nic_status().ok())
    return {context.errors().class_of(LANYARD_ERROR_NIC), context.nic_status().message()};
  const auto refuse = [&](const char* why) {
    return Refusal{MPI_ERR_REQUEST, "the request (" + describe(*record) + ") " + why};
  };
  if (record->matched() && !(resume && record->gave_up))
    return refuse("is matched already: match each request once");
  if (record->in_imatch || (record->matching() && !resume))
    return refuse("is being matched already: wait for that match");
  // The MPI says that an inactive request is complete; but not for collectives of MPICH.
  int complete = 0;
  if (record->collective == nullptr && PMPI_Request_get_status(request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
      !complete)
    return refuse("was started by MPI_Start: complete it before its match");
  if (record->in_call)
    return refuse("is in the array twice");
  // Last, because it allocates. If another request makes the call fail, the next call uses it.
  if (const Status status = give_arithmetic(context, *record); !status.ok())
    return {status.code() == Code::kExhausted ? MPI_ERR_NO_MEM : error_class_for(context, status.code()),
            describe(*record) + ": " + status.message()};
  return {};
}

// Sends letters to the peers of the requests, and expects letters for receives from any source.
void introduce(Context& context, const std::vector<RequestRecord*>& records) LANYARD_REQUIRES(context_locked) {
  core::ControlPlane* plane = context.nic_status().ok() ? &context.plane() : nullptr;
  for (const RequestRecord* record : records) {
    const core::Transfer& transfer = record->transfer;
    if (transfer.peer != core::kAnySource && transfer.peer != core::kNobody)
      context.introductions().introduce_to(transfer.peer_nic, plane);
    else if (transfer.peer == core::kAnySource && plane != nullptr)
      context.introductions().expect_all();
  }
}

// Tells the peers of these requests that this process has no NIC: else they would wait for it.
void tell_peers_of_no_card(Context& context, int count, const MPI_Request requests[]) LANYARD_REQUIRES(context_locked) {
  std::vector<RequestRecord*> records;
  for (int i = 0; i < count; ++i)
    if (RequestRecord* record = context.requests().find(requests[i]); record && record->unusable_class == MPI_SUCCESS)
      records.push_back(record);
  introduce(context, parts_of(records));
}

struct Collected {
  std::vector<RequestRecord*> records;
  Refusal error;
};

// Checks the requests of a matching call, and returns their records or the first error.
Collected collect(Context& context, int count, MPI_Request requests[], bool resume) LANYARD_REQUIRES(context_locked) {
  Collected result{{}, check_array(count, requests)};
  Refusal& error = result.error;
  if (error.error_class == MPI_SUCCESS && !context.nic_status().ok())
    tell_peers_of_no_card(context, count, requests);
  for (int i = 0; i < count && error.error_class == MPI_SUCCESS; ++i) {
    RequestRecord* record = context.requests().find(requests[i]);
    const MPI_Comm communicator = record != nullptr ? record->communicator : error.communicator;
    error = check_record(context, record, requests[i], resume);
    error.communicator = communicator;
    if (error.error_class != MPI_SUCCESS) {
      error.text = "request " + std::to_string(i) + ": " + error.text;
    } else {
      record->in_call = true;
      result.records.push_back(record);
    }
  }
  for (RequestRecord* record : result.records)
    record->in_call = false;
  return result;
}

// calloc: its pages cost nothing until they are used.
Result<std::shared_ptr<gpu::Packing>> host_packing(std::shared_ptr<const gpu::Layout> layout, void* memory) {
  auto packing = std::make_shared<gpu::Packing>();
  packing->packed = {static_cast<std::byte*>(std::calloc(layout->bytes(), 1)), std::free};
  if (packing->packed == nullptr)
    return Status(Code::kExhausted, "no memory for the " + std::to_string(layout->bytes()) +
                                        " B into which a request with gaps in its datatype is packed");
  packing->layout = std::move(layout);
  packing->memory = memory;
  return packing;
}

// If the record's buffer has gaps, allocates packed memory once. It is transferred in place of the
// buffer. kExhausted: no memory; other errors are those of Backend::make_packing(). Requires a core
// request whose match has not begun.
Status give_packing(Context& context, RequestRecord& record) LANYARD_REQUIRES(context_locked) {
  core::Transfer& transfer = record.core->transfer;
  if (record.layout == nullptr || transfer.packing != nullptr || transfer.peer == core::kNobody)
    return {};
  const gpu::Layout& layout = *record.layout;
  const auto begin = reinterpret_cast<uintptr_t>(record.transfer.buffer) + static_cast<uintptr_t>(layout.lowest());
  int on = DeviceMemory::kHost;
  if (context.gpus() != nullptr) {
    LANYARD_ASSIGN_OR_RETURN(
        on, context.gpus()->memory().device_of(reinterpret_cast<const void*>(begin),
                                               static_cast<uint64_t>(layout.highest() - layout.lowest())));
  }
  LANYARD_ASSIGN_OR_RETURN(transfer.packing,
                           on == DeviceMemory::kHost
                               ? host_packing(record.layout, record.transfer.buffer)
                               : context.gpus()->make_packing(record.layout, record.transfer.buffer, on));
  transfer.buffer = transfer.packing->packed.get();
  return {};
}

// The requests of one exchange name: those of set 0, of set 1, and of no set.
using Named = std::array<std::vector<RequestRecord*>, 3>;

Named::value_type& of_set(Named& named, const std::string& set) {
  return set.empty() ? named[2] : named[set == "0" ? 0 : 1];
}

// Makes one exchange of these requests, or notes in them why not. `second`: a second set, or empty.
void make_exchange(Context& context, const std::string& name, const std::vector<RequestRecord*>& first,
                   const std::vector<RequestRecord*>& second) LANYARD_REQUIRES(context_locked) {
  std::optional<std::string> obstacle = core::obstacle_to_exchanges(context.nic().caps());
  const auto requests_of = [](const std::vector<RequestRecord*>& records) {
    std::vector<core::Request*> requests;
    for (const RequestRecord* record : records)
      requests.push_back(record->core);
    return requests;
  };
  if (!obstacle) {
    const Status status = context.endpoint().make_exchange(name, requests_of(first), requests_of(second));
    if (!status.ok())
      obstacle = status.message();
  }
  for (const std::vector<RequestRecord*>* records : {&first, &second})
    for (RequestRecord* record : *records)
      record->exchange_obstacle = obstacle.value_or("");
}

// Makes exchanges by the names in the requests' hints, or notes why not. Skips requests whose match
// has begun. Requires core requests.
void make_exchanges(Context& context, const std::vector<RequestRecord*>& records) LANYARD_REQUIRES(context_locked) {
  std::map<std::string, Named> named;
  for (RequestRecord* record : records)
    if (!record->exchange.empty() && record->core->exchange == nullptr &&
        record->core->state == core::Request::State::kFresh)
      of_set(named[record->exchange], record->exchange_set).push_back(record);
  for (const auto& [name, sets] : named) {
    const bool two = !sets[0].empty() && !sets[1].empty();
    for (size_t which : {0, 1})
      for (RequestRecord* record : sets[which])
        record->set_obstacle = two ? "" : "no request of the other set was given to the same matching function";
    if (two)
      make_exchange(context, name, sets[0], sets[1]);
    else if (const auto& only = sets[sets[0].empty() ? 1 : 0]; !only.empty())
      make_exchange(context, name, only, {});
    if (!sets[2].empty())
      make_exchange(context, name, sets[2], {});
  }
}

// Begins the matches. If one cannot begin, the error becomes its match_error. Requires records
// that collect() has accepted.
void begin(Context& context, const std::vector<RequestRecord*>& whole, const MPI_Request requests[])
    LANYARD_REQUIRES(context_locked) {
  if (whole.empty())
    return;  // without a NIC there is no control channel
  for (size_t i = 0; i < whole.size(); ++i)
    context.requests().watch(requests[i]);
  const std::vector<RequestRecord*> records = parts_of(whole);
  for (RequestRecord* record : records)
    if (record->core == nullptr)
      record->core = context.endpoint().new_request(record->transfer);
  make_exchanges(context, records);
  introduce(context, records);
  const core::ControlPlane::Batch batch(context.plane());
  for (size_t i = 0; i < records.size(); ++i) {
    RequestRecord* record = records[i];
    if (i % kBetweenPolls == kBetweenPolls - 1) {
      context.nic().progress();
      context.plane().progress();
    }
    if (record->matching() || record->matched())
      continue;  // an earlier call began it
    Status status = give_packing(context, *record);
    if (status.ok())
      status = context.matcher().begin(*record->core);
    if (!status.ok())
      record->core->match_error = status;
  }
  if (context.introductions().awaits(context.plane()))
    context.control_thread().wake();
}

// From construction to destruction, the calling thread polls the NIC and the control plane.
class Polling {
 public:
  explicit Polling(Context& context) : context_(context) {
    context_.control_thread().begin_polling();
    context_.nic().attend();
  }
  ~Polling() {
    context_.nic().leave();
    context_.control_thread().end_polling();
  }
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;

  // Sleeps for kSleep, or until the NIC's activity() is not `seen` any more. Meanwhile the NIC's
  // own thread progresses it.
  void sleep_since(uint64_t seen) {
    context_.nic().leave();
    context_.nic().wait_since(seen, kSleep);
    context_.nic().attend();
  }

 private:
  Context& context_;
};

// Waits until the matches of all records have ended. Returns "", or at the deadline a stall report.
std::string wait_for(Context& context, Polling& polling, const std::vector<RequestRecord*>& records,
                     const char* caller) {
  size_t ended = 0;  // the matches of the first `ended` records have ended
  const std::vector<RequestRecord*> parts = parts_of(records);
  BlockingCall call(context, {.name = caller, .records = {parts.begin(), parts.end()}});
  BlockingCall::Clock::time_point spin_until = call.begin() + kSpin;
  while (true) {
    const uint64_t seen = context.nic().activity();
    context.nic().progress();
    {
      const ContextLock lock(context);
      context.introductions().progress(context.plane());
      context.plane().progress();
      while (ended < records.size() && !records[ended]->matching())
        ++ended;
      if (ended == records.size())
        return "";
      if (call.overdue() && call.report_ready())
        return call.report();
    }
    // Spin while messages arrive.
    if (context.nic().activity() != seen) {
      spin_until = BlockingCall::Clock::now() + kSpin;
      continue;
    }
    sched_yield();
    if (BlockingCall::Clock::now() > spin_until)
      polling.sleep_since(seen);
  }
}

// The error of a match that has ended. If it is matched, there is none, and the status is filled.
Refusal outcome(Context& context, const RequestRecord& record, MPI_Status* status) LANYARD_REQUIRES(context_locked) {
  if (record.matched()) {
    const core::Request empty;  // a send: gives MPI's empty status
    fill_match_status(record.collective == nullptr ? *record.core : empty, status);
    return {};
  }
  const Status why = match_error(record);
  return {error_class_for(context, why.code()), why.message(), record.communicator};
}

// Checks the requests of a blocking call, begins their matches, and waits until these have ended.
// Returns "", or at the deadline a stall report.
std::string match_and_wait(Context& context, int count, MPI_Request requests[], const char* caller,
                           Collected& collected) {
  std::optional<Polling> polling;
  if (context.nic_status().ok())
    polling.emplace(context);
  {
    const ContextLock lock(context);
    collected = collect(context, count, requests, true);
    if (collected.error.error_class != MPI_SUCCESS || collected.records.empty())
      return "";
    begin(context, collected.records, requests);
    // Other threads can neither free nor match the requests during the call.
    for (RequestRecord* record : collected.records)
      record->in_imatch = true;
  }
  std::string stall = wait_for(context, *polling, collected.records, caller);
  const ContextLock lock(context);
  // After a stall the call may be repeated, even if some of its requests are matched.
  for (RequestRecord* record : collected.records) {
    record->in_imatch = stall.empty();
    record->gave_up = !stall.empty();
  }
  return stall;
}

int match(const char* name, int count, MPI_Request requests[], MPI_Status statuses[], bool single) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised(name);
  Collected collected;
  const std::string stall = match_and_wait(*context, count, requests, name, collected);
  if (collected.error.error_class != MPI_SUCCESS)
    return raise(name, collected.error);
  if (!stall.empty())
    return raise(name, collected.error.communicator, LANYARD_ERR_STALLED, "the deadline passed: " + stall);

  int failed = 0;
  Refusal first;
  {
    const ContextLock lock(*context);
    for (int i = 0; i < count; ++i) {
      MPI_Status* status =
          statuses == MPI_STATUSES_IGNORE || statuses == MPI_STATUS_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
      const Refusal error = outcome(*context, *collected.records[static_cast<size_t>(i)], status);
      if (error.error_class == MPI_SUCCESS)
        continue;
      if (status != MPI_STATUS_IGNORE)
        status->MPI_ERROR = context->errors().code(error.error_class, error.text);
      if (failed++ == 0)
        first = error;
    }
    for (RequestRecord* record : collected.records)
      record->in_imatch = false;
  }
  if (failed > 0 && !single)
    first = {MPI_ERR_IN_STATUS, std::to_string(failed) + " of the matches failed, the first: " + first.text,
             first.communicator};
  return raise(name, first);
}

int imatch(const char* name, int count, MPI_Request requests[], MPI_Request* match_request) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised(name);
  if (match_request == nullptr)
    return raise(name, MPI_COMM_WORLD, MPI_ERR_ARG, "match_request is a null pointer");
  // Before the lock is taken: the MPI may invoke an error handler, which may call Lanyard.
  auto call = std::make_unique<MatchCall>();
  if (const int code = call->open(); code != MPI_SUCCESS)
    return code;
  Collected collected;
  {
    const ContextLock lock(*context);
    collected = collect(*context, count, requests, false);
    if (collected.error.error_class == MPI_SUCCESS) {
      begin(*context, collected.records, requests);
      call->take(collected.records);
      *match_request = call->handle();
      context->match_calls().push_back(std::move(call));
      MatchCall::advance_all(*context);
      return MPI_SUCCESS;
    }
  }
  call->discard();
  return raise(name, collected.error);
}

}  // namespace

}  // namespace lanyard::api

using namespace lanyard::api;

extern "C" {

int Lanyard_Match(MPI_Request* request, MPI_Status* status) { return match("MPIX_Match", 1, request, status, true); }

int Lanyard_Matchall(int count, MPI_Request requests[], MPI_Status* statuses) {
  return match("MPIX_Matchall", count, requests, statuses, false);
}

int Lanyard_Imatch(MPI_Request* request, MPI_Request* match_request) {
  return imatch("MPIX_Imatch", 1, request, match_request);
}

int Lanyard_Imatchall(int count, MPI_Request requests[], MPI_Request* match_request) {
  return imatch("MPIX_Imatchall", count, requests, match_request);
}

int Lanyard_Is_matched(MPI_Request request, int* flag) {
  Context* context = Context::get();
  if (context == nullptr)
    return raise_not_initialised("MPIX_Is_matched");
  if (flag == nullptr)
    return raise("MPIX_Is_matched", MPI_COMM_WORLD, MPI_ERR_ARG, "flag is a null pointer");
  {
    const ContextLock lock(*context);
    MatchCall::advance_all(*context);
    if (const RequestRecord* record = context->requests().find(request)) {
      *flag = record->matched() ? 1 : 0;
      return MPI_SUCCESS;
    }
  }
  return raise("MPIX_Is_matched", MPI_COMM_WORLD, MPI_ERR_REQUEST,
               "not a persistent point-to-point request, nor a collective that can be matched");
}

}  // extern "C"
