// Shared by the conformance cases. A case checks a rule of MPI in a call that Lanyard intercepts.
#ifndef LANYARD_TESTS_CONFORMANCE_CONFORMANCE_H_
#define LANYARD_TESTS_CONFORMANCE_CONFORMANCE_H_

#include <array>

#include "tests/api/api_objects.h"

namespace lanyard::conformance {

using namespace api_test;  // NOLINT: helpers of the tests

constexpr int kUntouched = -77;  // marks a place that a call must not write

inline int count_of(const MPI_Status& status, MPI_Datatype datatype = MPI_BYTE) {
  int count = kUntouched;
  MPI_Get_count(&status, datatype, &count);
  return count;
}

// MPI 4.0 section 3.7.3: what MPI_Wait returns for a null or inactive request.
inline ::testing::AssertionResult is_empty(const MPI_Status& status) {
  int cancelled = 1;
  MPI_Test_cancelled(&status, &cancelled);
  if (status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG && count_of(status) == 0 && !cancelled)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "source " << status.MPI_SOURCE << ", tag " << status.MPI_TAG << ", count "
                                       << count_of(status) << ", cancelled " << cancelled;
}

// A status that no call has written.
inline MPI_Status unfilled() {
  MPI_Status status{};
  status.MPI_SOURCE = status.MPI_TAG = status.MPI_ERROR = kUntouched;
  return status;
}

// A queue on a stream, and requests to send one int to the partner and to receive one from it.
struct Exchange : OnAQueue {
  int out = 1000 + rank(), in = -1;

  void add_pair(Requests& requests, int tag = 1, MPI_Comm communicator = MPI_COMM_WORLD, int peer = partner()) {
    requests.receive(&in, 1, peer, tag, communicator, MPI_INT);
    requests.send(&out, 1, peer, tag, communicator, Mode::kSend, MPI_INT);
  }
  // Expects that the pair works on the queue.
  void verify_matched(Requests& pair, int from = 1000 + partner()) {
    for (int i = 0; i < 2; ++i) {
      in = -1;
      pair.run(queue);
      EXPECT_EQ(in, from);
    }
  }
  // Expects that the pair works by MPI_Startall and MPI_Waitall.
  void verify_plain(Requests& pair) {
    for (int i = 0; i < 2; ++i) {
      in = -1;
      EXPECT_TRUE(ok(MPI_Startall(2, pair.data())));
      EXPECT_TRUE(ok(MPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE)));
      EXPECT_EQ(in, 1000 + partner());
    }
  }
};

// A generalized request. The program completes it.
inline MPI_Request generalized() {
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_TRUE(ok(MPI_Grequest_start(
      [](void*, MPI_Status* status) {
        MPI_Status_set_elements(status, MPI_BYTE, 17);
        MPI_Status_set_cancelled(status, 0);
        status->MPI_SOURCE = 3;
        status->MPI_TAG = 4;
        return MPI_SUCCESS;
      },
      [](void*) { return MPI_SUCCESS; }, [](void*, int) { return MPI_SUCCESS; }, nullptr, &request)));
  return request;
}

}  // namespace lanyard::conformance

#endif  // LANYARD_TESTS_CONFORMANCE_CONFORMANCE_H_
