// RequestTable: what Lanyard knows of each persistent request, found by the MPI's own handle.
#ifndef LANYARD_API_REQUEST_TABLE_H_
#define LANYARD_API_REQUEST_TABLE_H_

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "api/communicators.h"
#include "api/followed_calls.h"
#include "gpu/layout.h"
#include "transport/core/request.h"

namespace lanyard::api {

struct Collective;

// What a persistent request was made with, as the program gave it.
struct RequestArguments {
  lanyard_request_kind kind;
  int peer;
  int tag;
  const void* buffer;
  MPI_Count count;
  MPI_Datatype datatype;
  MPI_Comm communicator;
};

// A request as its MPI_*_init made it, and the core's request from the first matching on.
struct RequestRecord {
  CommunicatorRef communicator;  // for its error handler
  core::Transfer transfer;
  std::shared_ptr<const gpu::Layout> layout;  // of the buffer, where it has gaps
  int unusable_class = MPI_SUCCESS;           // why it cannot be matched, if so
  std::string unusable;
  std::string exchange;           // the hint: with which others it is to be merged; empty: with none
  std::string exchange_obstacle;  // why a matching call could not
  std::string exchange_set;       // likewise: to which of two sets it belongs, "0" or "1"; empty: there is one
  std::string set_obstacle;       // why a matching call could not

  core::Request* core = nullptr;
  std::shared_ptr<Collective> collective;  // of a persistent collective, in place of `transfer` and `core`
  // Fills in `collective`, which has a part for each message, once somebody looks for the request: most collectives of
  // a program that has Lanyard linked are never given to it.
  std::function<void(RequestRecord&)> make_collective;
  MPI_Comm collective_over = MPI_COMM_NULL;  // may not be freed before that
  bool gave_up = false;                      // a blocking call stopped waiting for its match, and may be repeated
  bool in_imatch = false;                    // a match request is out for it, or a blocking call matches it
  bool is_watched = false;                   // among the WatchedHandles
  bool in_call = false;                      // scratch: seen in the call being checked

  bool matched() const {
    return collective == nullptr ? core != nullptr && core->matched() : is_each_member(&RequestRecord::matched);
  }
  bool matching() const {
    return collective == nullptr ? core != nullptr && core->state == core::Request::State::kMatching
                                 : is_any_member(&RequestRecord::matching);
  }
  // Enqueued and not known to have completed: host calls on it are refused.
  bool busy() const {
    return collective == nullptr ? matched() && (core->needs_wait() || !core->complete())
                                 : is_any_member(&RequestRecord::busy);
  }

  void refuse(int error_class, const std::string& why) {
    unusable_class = error_class;
    unusable = why;
  }

 private:
  bool is_each_member(bool (RequestRecord::*is)() const) const;
  bool is_any_member(bool (RequestRecord::*is)() const) const;
};

// What the arguments come to, in an empty record; or why the request cannot be matched. Asks the MPI, so neither the
// datatype nor the communicator may have been freed.
void resolve(Context& context, const RequestArguments& arguments, RequestRecord& record)
    LANYARD_REQUIRES(context_locked);

class RequestTable {
 public:
  // Null for a request that has no record. The record is valid until it is erased, and empty from then on.
  RequestRecord* find(MPI_Request handle);
  // An empty record for this handle, in place of one that the MPI has used before.
  RequestRecord& insert(MPI_Request handle);
  void erase(MPI_Request handle);
  // Erases it unless it was given to a matching function; returns whether it was not.
  bool erase_unwatched(MPI_Request handle);
  // Before a communicator is freed: makes the collectives that will ask the MPI about it.
  void make_collectives_of(MPI_Comm communicator);
  // From now on MPI's own calls on it are looked at. Requires a record.
  void watch(MPI_Request handle);

 private:
  using Records = std::unordered_map<MPI_Request, RequestRecord>;
  Records records_;
  std::vector<Records::node_type> erased_;  // empty and kept: another thread's call may look at them yet
};

}  // namespace lanyard::api

#endif  // LANYARD_API_REQUEST_TABLE_H_
