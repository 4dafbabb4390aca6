// The API on GPUs in software (fake_driver.h), in place of those of the build's vendor: what queues of GPU streams
// refuse and report, which needs no GPU to be seen.
#include "tests/api_objects.h"
#include "tests/software_gpu.h"

namespace lanyard {
namespace api_test {
namespace {

class SoftwareGpu : public ::testing::Test {
 protected:
  void SetUp() override { driver().set_device(0); }
  void TearDown() override {
    EXPECT_TRUE(ok(MPI_Barrier(MPI_COMM_WORLD)));  // the other side's is not to be gone while a rank starts its own
    requests.free();
    for (MPIX_Queue& queue : queues_)
      EXPECT_TRUE(ok(MPIX_Queue_free(&queue)));
  }
  static FakeDriver& driver() { return software_gpu(); }

  MPIX_Queue add_queue(gpu::StreamHandle handle) {
    queues_.emplace_back(MPIX_QUEUE_NULL);
    EXPECT_TRUE(ok(MPIX_Queue_init(&queues_.back(), MPIX_QUEUE_CUDA, &handle)));
    return queues_.back();
  }
  // To the partner and from there.
  void match_pair() {
    requests.send(out.data(), out.count(), partner(), 5);
    requests.receive(in.data(), in.count(), partner(), 5);
    requests.match();
  }
  void begin_round() {
    out.fill(seed_of(rank(), partner(), ++rounds_));
    in.poison();
  }
  void end_round(MPIX_Queue queue) {
    ASSERT_TRUE(ok(MPIX_Queue_wait(queue)));
    EXPECT_EQ(in.mistakes(seed_of(partner(), rank(), rounds_)), 0u);
  }
  void start_and_wait(MPIX_Queue queue) {
    ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, requests.count(), requests.data())));
    ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, requests.count(), requests.data())));
  }
  void run(MPIX_Queue queue) {
    begin_round();
    start_and_wait(queue);
    end_round(queue);
  }

  Buffer out{1000}, in{1000};
  Requests requests;

 private:
  std::vector<MPIX_Queue> queues_;
  int rounds_ = 0;
};

// Their handles are the same.
TEST_F(SoftwareGpu, TheDefaultStreamOfEachDeviceHasAQueue) {
  const MPIX_Queue first = add_queue(nullptr);
  driver().set_device(1);
  const MPIX_Queue second = add_queue(nullptr);
  for (const int device : {0, 1}) {
    driver().set_device(device);
    gpu::StreamHandle handle = nullptr;
    MPIX_Queue again = MPIX_QUEUE_NULL;
    EXPECT_TRUE(fails(MPIX_Queue_init(&again, MPIX_QUEUE_CUDA, &handle), MPIX_ERR_BUSY, {"has a queue"}));
  }
  match_pair();
  for (const MPIX_Queue queue : {first, second, first})
    run(queue);
}

// ---- Captures

TEST_F(SoftwareGpu, ACaptureThatDiesLeavesItsRequestsAsTheyWere) {
  const gpu::StreamHandle handle = driver().make_program_stream();
  const MPIX_Queue queue = add_queue(handle);
  match_pair();
  for (const bool waits : {false, true}) {
    driver().begin_capture(handle);
    ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, requests.count(), requests.data())));
    if (waits) {
      ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, requests.count(), requests.data())));
    }
    driver().drop_capture(handle);
    run(queue);
  }
}

TEST_F(SoftwareGpu, AQueueGoesThoughACaptureThatDiedHasAStartWithoutAWait) {
  gpu::StreamHandle handle = driver().make_program_stream();
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  ASSERT_TRUE(ok(MPIX_Queue_init(&queue, MPIX_QUEUE_CUDA, &handle)));
  match_pair();
  driver().begin_capture(handle);
  ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(0))));
  EXPECT_TRUE(fails(MPIX_Queue_free(&queue), MPIX_ERR_BUSY, {"1 requests were started"}));
  driver().drop_capture(handle);
  EXPECT_TRUE(ok(MPIX_Queue_free(&queue)));
}

TEST_F(SoftwareGpu, OnceItsGraphIsDestroyedARequestIsStartedOtherwise) {
  const gpu::StreamHandle handle = driver().make_program_stream();
  const MPIX_Queue queue = add_queue(handle);
  match_pair();
  for (int i = 0; i < 3; ++i) {
    run(queue);
    {
      driver().begin_capture(handle);
      start_and_wait(queue);
      const std::optional<FakeDriver::Graph> graph = driver().end_capture(handle);
      ASSERT_TRUE(graph.has_value());
      for (int replay = 0; replay < 3; ++replay) {
        begin_round();
        driver().replay(*graph, handle);
        end_round(queue);
      }
      EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST, {"graph"}));
    }
  }
  run(queue);
}

}  // namespace
}  // namespace api_test
}  // namespace lanyard

int main(int argc, char** argv) { return lanyard::mpi_suite::run(&argc, &argv); }
