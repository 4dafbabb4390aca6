// MatchCall: the match request of MPIX_Imatch{,all}: an MPI generalized request that completes with its requests' matches.
#ifndef LANYARD_API_MATCH_CALL_H_
#define LANYARD_API_MATCH_CALL_H_

#include <mpi.h>

#include <string>
#include <vector>

#include "api/context.h"

namespace lanyard::api {

// Fills a status as a completed receive would, or an empty one for sends. `status` may be MPI_STATUS_IGNORE.
void fill_match_status(const core::Request& request, MPI_Status* status);

class MatchCall {
 public:
  explicit MatchCall(std::vector<RequestRecord*> records) : records_(std::move(records)) {}

  // Creates the MPI request. Its MPI error code where it cannot be.
  int open();
  MPI_Request handle() const { return handle_; }
  // Whether every request is matched or has failed; then completes the MPI request and lets go of the records.
  bool advance(Context& context);

  // Completes what can be completed of all calls that are out. Requires the context's lock.
  static void advance_all(Context& context);
  // The call whose match request this is; null if it is none. Requires the context's lock.
  static MatchCall* find(Context& context, MPI_Request request);

 private:
  // What MPI keeps until the user completes the request: lives longer than the call.
  struct Outcome {
    MPI_Status status;
    int code = MPI_SUCCESS;
  };
  static int query(void* state, MPI_Status* status);
  static int release(void* state);
  static int cancel(void* state, int complete);

  std::vector<RequestRecord*> records_;
  MPI_Request handle_ = MPI_REQUEST_NULL;
  Outcome* outcome_ = nullptr;  // owned by the MPI request
};

}  // namespace lanyard::api

#endif  // LANYARD_API_MATCH_CALL_H_
