// Strategy C: words that a NIC copies counters to, over the lives of several requests.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/core_local_job.h"

namespace lanyard {
namespace {

constexpr uint64_t kBytes = 64;

class WriteBack : public ::testing::Test {
 protected:
  WriteBack() : job(2, {.strategy = core::Strategy::kWriteBack}) {}

  void iterate(Request& send, Request& receive, uint64_t seed) {
    Request* const sends[] = {&send};
    Request* const receives[] = {&receive};
    fill(send, seed);
    job[1].start(receives);
    job[0].start(sends);
    job[0].wait(sends);
    job[1].wait(receives);
    job[0].synchronize();
    job[1].synchronize();
    EXPECT_TRUE(holds(receive, seed));
  }

  LocalJob job;
};

// The next user of a word goes on counting from where the last came to: nobody who looks late is misled.
TEST_F(WriteBack, WordsGrowOverTheLivesOfRequests) {
  const uint64_t* word = nullptr;
  uint64_t last = 0;
  int again = 0;
  for (uint64_t life = 0; life < 20; ++life) {
    Request& send = job[0].send(1, 7, kBytes);
    Request& receive = job[1].receive(0, 7, kBytes);
    job.match();
    ASSERT_TRUE(send.written_back);
    EXPECT_FALSE(receive.written_back);
    again += send.done.address == word ? 1 : 0;
    EXPECT_TRUE(send.done.address != word || send.done.read() >= last);
    word = send.done.address;
    for (uint64_t i = 1; i <= 3; ++i) {
      iterate(send, receive, 100 * life + i);
      EXPECT_EQ(send.iterations_done(), i);
    }
    last = send.done.read();
    EXPECT_TRUE(works(job[0].endpoint.free_request(&send)));
    EXPECT_TRUE(works(job[1].endpoint.free_request(&receive)));
  }
  EXPECT_GT(again, 0) << "a word was used again";
}

// The wait of a send that failed does not pass, the program is told, and its word is nobody's any more.
TEST_F(WriteBack, AFailedSendIsTold) {
  Request& send = job[0].send(1, 7, kBytes);
  Request& receive = job[1].receive(0, 7, kBytes);
  job.match();
  iterate(send, receive, 1);
  Request* const sends[] = {&send};
  Request* const receives[] = {&receive};
  // Its target goes away under it.
  ASSERT_TRUE(works(job[1].endpoint.nic().deregister_region(receive.buffer)));
  receive.buffer = {};
  job[1].start(receives);
  job[0].start(sends);
  job[0].wait(sends);
  job[1].wait(receives);
  const core::Request* failed = nullptr;
  const auto end = LocalJob::Clock::now() + LocalJob::kBound;
  while (failed == nullptr && LocalJob::Clock::now() < end) {
    job[0].stream.poll();
    failed = job[0].endpoint.take_failed(*job[0].queue);
  }
  ASSERT_EQ(failed, &send);
  EXPECT_FALSE(job[0].stream.poll());
  EXPECT_FALSE(send.complete());
  EXPECT_EQ(job[0].endpoint.free_request(&send).code(), Code::kInvalidState);
  job[1].synchronize();  // the flag is raised all the same
  job[0].stream.halt();
}

}  // namespace
}  // namespace lanyard
