// A call that enqueues waits for room as long as the deadline says and no longer, whatever the stream is at.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

TEST(NoRoom, IsReportedAtTheDeadlineBehindAKernelThatDoesNotReturn) {
  Buffer in(40), out(40);
  std::atomic<bool> released{false}, has_ended{false};
  Stream stream;
  Queue queue(stream);
  Requests requests;
  requests.receive(in.data(), in.count(), rank(), 1);
  requests.send(out.data(), out.count(), rank(), 1);
  requests.match();
  stream.launch([&] {
    while (!released)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    has_ended = true;
  });
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 2, requests.data())));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 2, requests.data())));
  // All four entries are taken.
  EXPECT_TRUE(reports([&] { return MPIX_Enqueue_startall(queue, 2, requests.data()); }, MPIX_ERR_STALLED,
                      {"it cannot enqueue"}));
  EXPECT_FALSE(has_ended);
  released = true;
  queue.wait();
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 2, requests.data())));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 2, requests.data())));
  queue.wait();
}

}  // namespace
}  // namespace lanyard::api_test
