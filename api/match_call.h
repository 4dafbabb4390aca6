// MatchCall: the match request of Lanyard_Imatch{,all}. It is an MPI generalized request that
// completes when all its requests are matched or have failed to match.
#ifndef LANYARD_API_MATCH_CALL_H_
#define LANYARD_API_MATCH_CALL_H_

#include <mpi.h>

#include <atomic>
#include <memory>
#include <vector>

#include "api/context.h"

namespace lanyard::api {

// Fills the status like that of a completed receive; for a send, with an empty status. `status` may
// be MPI_STATUS_IGNORE.
void fill_match_status(const core::Request& request, MPI_Status* status);

class MatchCall {
 public:
  MatchCall() = default;
  ~MatchCall();
  MatchCall(const MatchCall&) = delete;
  MatchCall& operator=(const MatchCall&) = delete;

  // The result. Shared, so that the function that completes the MPI request can read the code: an
  // MPI may replace the error code of a generalized request by its own.
  struct Outcome {
    MPI_Status status{};
    int code = MPI_SUCCESS;
    CommunicatorRef communicator;        // of the first request whose match failed
    std::atomic<bool> complete{false};   // the MPI request is complete
    std::atomic<bool> collected{false};  // the MPI has freed the MPI request
  };

  // Creates the MPI request. Returns the MPI's error code.
  int open() LANYARD_EXCLUDES(context_locked);
  // Frees the MPI request. Call it only if the program has not got the handle.
  void discard() LANYARD_EXCLUDES(context_locked);
  // Sets the records that are being matched.
  void take(std::vector<RequestRecord*> records) LANYARD_REQUIRES(context_locked);
  MPI_Request handle() const { return handle_; }
  // The program has freed the match request: the MPI request is freed once it is complete.
  void detach();

  // Progresses matching, and completes every match request whose matches have ended.
  static void advance_all(Context& context) LANYARD_REQUIRES(context_locked);
  // The call with this match request, or null. Null too once the program has completed or freed it.
  static MatchCall* find(Context& context, MPI_Request request) LANYARD_REQUIRES(context_locked);
  const std::shared_ptr<Outcome>& outcome() const { return outcome_; }
  // The records that are being matched; empty once the match request is complete.
  const std::vector<RequestRecord*>& records() const { return records_; }

 private:
  void advance(Context& context) LANYARD_REQUIRES(context_locked);
  void free_handle() const;
  static int query(void* state, MPI_Status* status);
  static int release(void* state);
  static int cancel(void* state, int complete);

  std::vector<RequestRecord*> records_;
  size_t ended_ = 0;  // the matches of the first `ended_` records have ended
  MPI_Request handle_ = MPI_REQUEST_NULL;
  bool taken_ = false;
  bool detached_ = false;
  std::shared_ptr<Outcome> outcome_;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_MATCH_CALL_H_
