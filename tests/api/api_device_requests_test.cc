// Sets of requests that kernels start and wait for. Host threads stand in for kernels, with
// the same header.
#include <thread>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

class DeviceRequests : public ::testing::Test {
 protected:
  DeviceRequests() : out(1000), in(1000), queue(stream) {
    requests.send(out.data(), out.count(), partner(), 5);
    requests.receive(in.data(), in.count(), partner(), 5);
    requests.match();
    in.poison();
  }
  void create() {
    ASSERT_TRUE(ok(MPIX_Device_requests_create(queue, requests.count(), requests.data(), &set)));
    ASSERT_NE(set, nullptr);
  }
  void run(int from, int to) {
    std::thread kernel([&] {
      for (int i = from; i < to; ++i) {
        out.fill(seed_of(rank(), partner(), i));
        MPIX_Device_startall(set);
        if (i % 2 == 0) {
          MPIX_Device_waitall(set);
        } else {
          while (MPIX_Device_testall(set) == 0)
            std::this_thread::yield();
        }
        wrong += in.mistakes(seed_of(partner(), rank(), i));
        in.poison();
      }
    });
    kernel.join();
  }

  Stream stream;
  Buffer out, in;
  Queue queue;
  Requests requests;
  MPIX_Device_requests* set = nullptr;
  size_t wrong = 0;
};

TEST_F(DeviceRequests, AKernelStartsAndWaitsByItself) {
  create();
  run(0, 300);
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ok(MPIX_Queue_wait(queue)));
  EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &set)));
  EXPECT_EQ(set, nullptr);
  // Ordinary requests again, then another set.
  verify_exchange(queue, stream);
  stream.launch([&] { out.fill(seed_of(rank(), partner(), 300)); });
  requests.run(queue);
  EXPECT_EQ(in.mistakes(seed_of(partner(), rank(), 300)), 0u);
  in.poison();
  create();
  run(301, 320);
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &set)));
}

TEST_F(DeviceRequests, QueuesCannotStartThem) {
  create();
  EXPECT_TRUE(fails(MPIX_Enqueue_startall(queue, requests.count(), requests.data()), MPI_ERR_REQUEST, {"kernel"}));
  EXPECT_TRUE(fails(MPIX_Enqueue_wait(queue, requests.at(0)), MPI_ERR_REQUEST, {"kernel"}));
  MPIX_Device_requests* another = nullptr;
  EXPECT_TRUE(fails(MPIX_Device_requests_create(queue, 1, requests.data(), &another), MPI_ERR_REQUEST));
  MPI_Request copy = requests[0];
  EXPECT_TRUE(fails(MPI_Request_free(&copy), MPI_ERR_REQUEST, {"set"}));
  MPIX_Queue handle = queue.handle();
  EXPECT_TRUE(fails(MPIX_Queue_free(&handle), MPIX_ERR_BUSY, {"sets"}));
  run(0, 5);
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &set)));
}

// Two sends are in one set. Only the first has completed when the set is freed.
TEST_F(DeviceRequests, ARefusedFreeLeavesTheWholeSet) {
  Buffer from[] = {Buffer(1000), Buffer(1000)}, to[] = {Buffer(1000), Buffer(1000)};
  Requests pairs;
  for (int i = 0; i < 2; ++i)
    pairs.send(from[i].data(), from[i].count(), partner(), 11 + i);
  for (int i = 0; i < 2; ++i)
    pairs.receive(to[i].data(), to[i].count(), partner(), 11 + i);
  pairs.match();
  MPIX_Device_requests *sends = nullptr, *receives[2] = {};
  ASSERT_TRUE(ok(MPIX_Device_requests_create(queue, 2, pairs.data(), &sends)));
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(ok(MPIX_Device_requests_create(queue, 1, pairs.at(2 + i), &receives[i])));
  const auto start_sends = [&](int iteration) {
    for (int i = 0; i < 2; ++i) {
      from[i].fill(seed_of(rank(), partner(), iteration, i));
      to[i].poison();
    }
    MPIX_Device_startall(sends);
  };
  const auto receive = [&](int iteration, int i) {
    MPIX_Device_startall(receives[i]);
    MPIX_Device_waitall(receives[i]);
    EXPECT_EQ(to[i].mistakes(seed_of(partner(), rank(), iteration, i)), 0u);
  };
  start_sends(0);
  receive(0, 0);
  while (!lanyard_are_complete(sends, 0, 1))
    std::this_thread::yield();
  MPIX_Device_requests* const before = sends;
  for (int again = 0; again < 2; ++again) {
    EXPECT_TRUE(fails(MPIX_Device_requests_free(queue, &sends), MPIX_ERR_BUSY, {"tag 12"}));
    EXPECT_EQ(sends, before);
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, pairs.at(i)), MPI_ERR_REQUEST, {"kernel"}));
  }
  MPIX_Queue handle = queue.handle();
  EXPECT_TRUE(fails(MPIX_Queue_free(&handle), MPIX_ERR_BUSY, {"sets"}));
  MPI_Barrier(MPI_COMM_WORLD);  // until here no rank starts its receive of the second send
  receive(0, 1);
  MPIX_Device_waitall(sends);
  // The refused calls have not changed the set.
  start_sends(1);
  for (int i = 0; i < 2; ++i)
    receive(1, i);
  MPIX_Device_waitall(sends);
  EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &sends)));
  for (auto& set : receives)
    EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &set)));
  EXPECT_EQ(sends, nullptr);
}

TEST_F(DeviceRequests, BadArguments) {
  MPIX_Device_requests* made = nullptr;
  EXPECT_TRUE(fails(MPIX_Device_requests_create(MPIX_QUEUE_NULL, 1, requests.data(), &made), MPIX_ERR_QUEUE));
  EXPECT_TRUE(fails(MPIX_Device_requests_create(queue, 1, requests.data(), nullptr), MPI_ERR_ARG));
  MPI_Request none = MPI_REQUEST_NULL;
  EXPECT_TRUE(fails(MPIX_Device_requests_create(queue, 1, &none, &made), MPI_ERR_REQUEST));
  EXPECT_EQ(made, nullptr);
  EXPECT_TRUE(fails(MPIX_Device_requests_free(queue, &made), MPI_ERR_ARG));
  MPIX_Device_requests stranger{};
  made = &stranger;
  EXPECT_TRUE(fails(MPIX_Device_requests_free(queue, &made), MPI_ERR_ARG));
}

}  // namespace
}  // namespace lanyard::api_test
