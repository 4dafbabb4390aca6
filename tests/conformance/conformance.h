// Shared by the conformance cases. A case checks a rule of MPI in a call that Lanyard intercepts.
#ifndef LANYARD_TESTS_CONFORMANCE_CONFORMANCE_H_
#define LANYARD_TESTS_CONFORMANCE_CONFORMANCE_H_

#include <array>
#include <vector>

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

// ---- Every MPI function that Lanyard intercepts, called without matched requests: it does the
// same as the MPI's own. Each case has its function's name; pass_through_test compares the names
// with the library's symbols. MPI_Init and MPI_Init_thread are in lives.cc.

using Observed = std::vector<int>;  // error classes, flags and other results of a call

struct PassThrough : Exchange {
  // Calls `observe` with Lanyard's function and with the MPI's, and expects equal results.
  template <typename Function, typename Observe>
  void same(Function lanyards, Function mpis, Observe observe) {
    const Observed theirs = observe(mpis);
    const Observed ours = observe(lanyards);
    EXPECT_EQ(ours, theirs);
    EXPECT_FALSE(theirs.empty());
  }
  static void add(Observed& seen, const MPI_Status& status) {
    seen.insert(seen.end(), {status.MPI_SOURCE, status.MPI_TAG, count_of(status)});
  }

  // A constructor of persistent requests: two rounds, and a wrong argument.
  template <typename Init>
  void same_send(Init lanyards, Init mpis) {
    same(lanyards, mpis, [&](auto init) {
      std::vector<char> room(1024);
      MPI_Request send = MPI_REQUEST_NULL;
      Observed seen{error_class(init(&out, 1, MPI_INT, ranks(), 1, MPI_COMM_WORLD, &send)),
                    error_class(init(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &send))};
      MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
      for (int i = 0; i < 2; ++i) {
        MPI_Request receive = MPI_REQUEST_NULL;
        in = -1;
        PMPI_Irecv(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &receive);
        MPI_Barrier(MPI_COMM_WORLD);
        PMPI_Start(&send);
        PMPI_Wait(&receive, MPI_STATUS_IGNORE);
        PMPI_Wait(&send, MPI_STATUS_IGNORE);
        seen.push_back(in);
      }
      void* address = nullptr;
      int size = 0;
      MPI_Buffer_detach(&address, &size);
      seen.push_back(error_class(PMPI_Request_free(&send)));
      return seen;
    });
  }

  template <typename Init>
  void same_receive(Init lanyards, Init mpis) {
    same(lanyards, mpis, [&](auto init) {
      MPI_Request receive = MPI_REQUEST_NULL;
      Observed seen{error_class(init(&in, -1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &receive)),
                    error_class(init(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive))};
      for (int i = 0; i < 2; ++i) {
        MPI_Status status = unfilled();
        PMPI_Start(&receive);
        MPI_Send(&out, 1, MPI_INT, partner(), i, MPI_COMM_WORLD);
        PMPI_Wait(&receive, &status);
        add(seen, status);
        seen.push_back(in);
      }
      PMPI_Request_free(&receive);
      return seen;
    });
  }

#if MPI_VERSION >= 4
  template <typename SendInit, typename ReceiveInit>
  Observed partitioned(SendInit send_init, ReceiveInit receive_init) {
    std::array<int, 2> two{rank(), rank() + 10}, got{-1, -1};
    MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
    Observed seen{
        error_class(send_init(two.data(), 2, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_INFO_NULL, &send)),
        error_class(receive_init(got.data(), 2, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_INFO_NULL, &receive))};
    PMPI_Start(&receive);
    PMPI_Start(&send);
    PMPI_Pready_range(0, 1, send);
    PMPI_Wait(&send, MPI_STATUS_IGNORE);
    PMPI_Wait(&receive, MPI_STATUS_IGNORE);
    seen.insert(seen.end(), got.begin(), got.end());
    seen.push_back(error_class(MPI_Request_free(&send)));
    seen.push_back(error_class(MPI_Request_free(&receive)));
    return seen;
  }
#endif

  // Calls `complete` on {receive of the partner's message, send to the partner}, and again when
  // both are null.
  template <typename Function, typename Complete>
  void same_completion(Function lanyards, Function mpis, Complete complete) {
    same(lanyards, mpis, [&](auto function) {
      std::array<MPI_Request, 2> both{};
      PMPI_Irecv(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &both[0]);
      PMPI_Isend(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &both[1]);
      Observed seen;
      complete(function, both, seen);
      seen.push_back(in);
      for (const MPI_Request request : both)
        seen.push_back(request == MPI_REQUEST_NULL);
      complete(function, both, seen);
      return seen;
    });
  }

  // A constructor of communicators. The child is freed.
  template <typename Function, typename Construct>
  void same_child(Function lanyards, Function mpis, Construct construct) {
    same(lanyards, mpis, [&](auto function) {
      MPI_Comm child = MPI_COMM_NULL;
      Observed seen{error_class(construct(function, &child)), child == MPI_COMM_NULL};
      if (child == MPI_COMM_NULL)
        return seen;
      int size = 0, here = -1, topology = 0, compared = 0, sum = 0, one = 1;
      MPI_Comm_size(child, &size);
      MPI_Comm_rank(child, &here);
      MPI_Topo_test(child, &topology);
      MPI_Comm_compare(MPI_COMM_WORLD, child, &compared);
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, child);
      seen.insert(seen.end(), {size, here, topology, compared, sum, error_class(PMPI_Comm_free(&child))});
      return seen;
    });
  }
};

}  // namespace lanyard::conformance

#endif  // LANYARD_TESTS_CONFORMANCE_CONFORMANCE_H_
