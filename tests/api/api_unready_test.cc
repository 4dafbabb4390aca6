// LANYARD_CHECK=on refuses the start of a receive whose ready send came before it. That call changes nothing: the other
// requests that it named, the queue and other queues go on, and the refused request can be freed.
#include <cstdlib>
#include <string>

#include "tests/api/api_misuse.h"

namespace lanyard::api_test {
namespace {

struct Unready : Misuse {
  Buffer others_out{40}, others_in{40};

  void SetUp() override {
    if (partner() == rank())
      GTEST_SKIP() << "needs an even number of ranks";
  }
  bool sends() const { return rank() % 2 == 0; }

  // A ready send of tag 1, and behind it a pair of tag 2 in each direction.
  void add_all(Requests& requests) {
    if (sends())
      requests.send(out.data(), out.count(), partner(), 1, MPI_COMM_WORLD, Mode::kRsend);
    else
      requests.receive(in.data(), in.count(), partner(), 1);
    requests.receive(others_in.data(), others_in.count(), partner(), 2);
    requests.send(others_out.data(), others_out.count(), partner(), 2);
  }
  void verify_others(Requests& requests, Queue& on) {
    for (int i = 0; i < 3; ++i) {
      others_out.fill(seed_of(rank(), partner(), i));
      others_in.poison();
      ASSERT_TRUE(ok(MPIX_Enqueue_startall(on, 2, requests.at(1))));
      ASSERT_TRUE(ok(MPIX_Enqueue_waitall(on, 2, requests.at(1))));
      on.wait();
      EXPECT_EQ(others_in.mistakes(seed_of(partner(), rank(), i)), 0u);
    }
  }
};

TEST_F(Unready, ARefusedStartChangesNothing) {
  Stream other_stream;
  Queue other(other_stream);
  Requests requests;
  add_all(requests);
  requests.match();
  verify_others(requests, queue);
  if (sends()) {
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(0))));
    ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, requests.at(0))));
    queue.wait();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (!sends()) {
    const std::string who = "a ready send of rank " + std::to_string(partner());
    for (const int count : {3, 1})
      refused([&] { return MPIX_Enqueue_startall(queue, count, requests.data()); }, MPIX_ERR_FAILED,
              {who, "before start 1", "tag 1"});
    // Whatever place it has among them.
    std::swap(requests[0], requests[2]);
    refused([&] { return MPIX_Enqueue_startall(queue, 3, requests.data()); }, MPIX_ERR_FAILED, {who});
    std::swap(requests[0], requests[2]);
    EXPECT_TRUE(fails(MPIX_Enqueue_start(other, requests.at(0)), MPIX_ERR_FAILED, {who}));
    refused([&] { return MPIX_Enqueue_wait(queue, requests.at(0)); }, MPI_ERR_REQUEST, {"no start to wait for"});
    queue.wait();
  }
  verify_others(requests, other);
  verify_others(requests, queue);
  requests.free();

  // And once both keep to the rules, the same pair works.
  add_all(requests);
  requests.match();
  if (!sends()) {
    in.poison();
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(0))));
    stream.synchronize();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (sends()) {
    out.fill(7);
    ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(0))));
  }
  ASSERT_TRUE(ok(MPIX_Enqueue_wait(queue, requests.at(0))));
  queue.wait();
  EXPECT_EQ(sends() ? 0u : in.mistakes(7), 0u);
}

}  // namespace
}  // namespace lanyard::api_test
