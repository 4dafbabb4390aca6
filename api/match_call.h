// MatchCall: the match request of Lanyard_Imatch{,all}: an MPI generalized request that completes with its requests'
// matches.
#ifndef LANYARD_API_MATCH_CALL_H_
#define LANYARD_API_MATCH_CALL_H_

#include <mpi.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "api/context.h"

namespace lanyard::api {

// Fills a status as a completed receive would, or an empty one for sends. `status` may be MPI_STATUS_IGNORE.
void fill_match_status(const core::Request& request, MPI_Status* status);

class MatchCall {
 public:
  MatchCall() = default;
  ~MatchCall();
  MatchCall(const MatchCall&) = delete;
  MatchCall& operator=(const MatchCall&) = delete;

  // What came of it. Outlives the call until whoever completes the MPI request has read it: an MPI may replace an error
  // code that it gets from a generalized request by one of its own, so the code goes round it.
  struct Outcome {
    MPI_Status status{};
    int code = MPI_SUCCESS;
    CommunicatorRef communicator;        // of the first request whose match failed
    std::atomic<bool> complete{false};   // the MPI request is,
    std::atomic<bool> collected{false};  // and the MPI has done with it
  };

  // Creates the MPI request. The MPI's error code where it cannot be.
  int open() LANYARD_EXCLUDES(context_locked);
  // Frees the MPI request again, which nobody has seen.
  void discard() LANYARD_EXCLUDES(context_locked);
  // The records whose matches it stands for.
  void take(std::vector<RequestRecord*> records) LANYARD_REQUIRES(context_locked);
  MPI_Request handle() const { return handle_; }
  // The user has freed the match request: nobody will complete it.
  void detach();

  // Completes what can be completed of all calls that are out.
  static void advance_all(Context& context) LANYARD_REQUIRES(context_locked);
  // The call whose match request this is, which the user has not completed yet; null if it is none.
  static MatchCall* find(Context& context, MPI_Request request) LANYARD_REQUIRES(context_locked);
  const std::shared_ptr<Outcome>& outcome() const { return outcome_; }
  // What it stands for and has not been completed yet.
  const std::vector<RequestRecord*>& records() const { return records_; }

 private:
  void advance(Context& context) LANYARD_REQUIRES(context_locked);
  void free_handle() const;
  static int query(void* state, MPI_Status* status);
  static int release(void* state);
  static int cancel(void* state, int complete);

  std::vector<RequestRecord*> records_;
  size_t over_ = 0;  // of so many, from the first on, the match is over, which it stays while the call is out
  MPI_Request handle_ = MPI_REQUEST_NULL;
  bool taken_ = false;
  bool detached_ = false;
  std::shared_ptr<Outcome> outcome_;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_MATCH_CALL_H_
