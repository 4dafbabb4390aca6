// RequestTable: Lanyard's record of each persistent request, by the MPI's handle.
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

// The arguments of a persistent request's MPI_*_init.
struct RequestArguments {
  lanyard_request_kind kind;
  int peer;
  int tag;
  const void* buffer;
  MPI_Count count;
  MPI_Datatype datatype;
  MPI_Comm communicator;
};

// A request as its MPI_*_init made it. From its first match on, with the core's request.
struct RequestRecord {
  CommunicatorRef communicator;  // for its error handler
  core::Transfer transfer;
  std::shared_ptr<const gpu::Layout> layout;  // of a buffer with gaps, else null
  int unusable_class = MPI_SUCCESS;           // else it cannot be matched; see `unusable`
  std::string unusable;
  std::string exchange;           // hint: the name of its exchange, or empty
  std::string exchange_obstacle;  // why a matching call did not apply the hint
  std::string exchange_set;       // hint: "0" or "1", or empty
  std::string set_obstacle;       // why a matching call did not apply the hint

  core::Request* core = nullptr;
  std::shared_ptr<Collective> collective;  // for a collective: replaces `transfer` and `core`
  // Fills `collective`, at the first find(). Many programs never pass their collectives to Lanyard,
  // and the members take memory.
  std::function<void(RequestRecord&)> make_collective;
  MPI_Comm collective_over = MPI_COMM_NULL;  // needed by make_collective

  bool gave_up = false;     // a blocking call stopped waiting for its match, and may be repeated
  bool in_imatch = false;   // it has a match request, or a blocking call is matching it
  bool is_watched = false;  // its handle is in `watched`
  bool in_call = false;     // scratch: seen in the call that is being checked

  bool matched() const {
    return collective == nullptr ? core != nullptr && core->matched() : is_each_member(&RequestRecord::matched);
  }
  bool matching() const {
    return collective == nullptr ? core != nullptr && core->state == core::Request::State::kMatching
                                 : is_any_member(&RequestRecord::matching);
  }
  // A start has no wait, or has not completed: host calls on the request fail.
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

// Fills an empty record from the arguments, or stores why the request cannot be matched. Calls the
// MPI: datatype and communicator must not be freed yet.
void resolve(Context& context, const RequestArguments& arguments, RequestRecord& record)
    LANYARD_REQUIRES(context_locked);

class RequestTable {
 public:
  // Null for a request without a record. The record is valid until it is erased, and then empty.
  RequestRecord* find(MPI_Request handle);
  // An empty record for this handle. Replaces the record of a freed request with the same handle.
  RequestRecord& insert(MPI_Request handle);
  void erase(MPI_Request handle);
  // Erases the record and returns true, unless the request was passed to a matching function.
  bool erase_unwatched(MPI_Request handle);
  // Call it before a communicator is freed: fills records of collectives that need it.
  void make_collectives_of(MPI_Comm communicator);
  // From now on MPI's own calls on the request are checked. Requires a record.
  void watch(MPI_Request handle);

 private:
  using Records = std::unordered_map<MPI_Request, RequestRecord>;
  Records records_;
  std::vector<Records::node_type> erased_;  // empty, but other threads may still read them
};

}  // namespace lanyard::api

#endif  // LANYARD_API_REQUEST_TABLE_H_
