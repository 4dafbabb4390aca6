// What a process says on stderr while its program waits (LANYARD_WARN_S): what for, once; and whoever is slow to read
// it holds nobody up.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

using Clock = std::chrono::steady_clock;

// Stderr is a pipe without room that nobody reads before text().
class FullStderr {
 public:
  FullStderr() {
    EXPECT_EQ(pipe2(pipe_, O_NONBLOCK), 0);
    saved_ = dup(STDERR_FILENO);
    dup2(pipe_[1], STDERR_FILENO);
    char filler[512] = {};
    while (write(pipe_[1], filler, sizeof filler) > 0) {
    }
    while (write(pipe_[1], filler, 1) > 0) {
    }
    fcntl(pipe_[1], F_SETFL, 0);
  }
  ~FullStderr() {
    dup2(saved_, STDERR_FILENO);
    for (const int descriptor : {saved_, pipe_[0], pipe_[1]})
      close(descriptor);
  }
  FullStderr(const FullStderr&) = delete;
  FullStderr& operator=(const FullStderr&) = delete;

  // What was written, from now on until it has these words, or for 20 s.
  std::string text(const std::string& words) {
    std::string result;
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (result.find(words) == std::string::npos && Clock::now() < end) {
      char part[4096];
      const ssize_t length = read(pipe_[0], part, sizeof part);
      if (length > 0)
        result.append(part, static_cast<size_t>(length));
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return result.substr(std::min(result.size(), result.find_first_not_of('\0')));
  }

 private:
  int pipe_[2] = {-1, -1};
  int saved_ = -1;
};

// A transfer from rank 1 to rank 0 that starts a second late.
MPI_Request late_message(Buffer& buffer, Queue& queue) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 0)
    MPI_Recv_init(buffer.data(), buffer.count(), MPI_BYTE, 1, 5, MPI_COMM_WORLD, &request);
  else
    MPI_Send_init(buffer.data(), buffer.count(), MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
  EXPECT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
  if (rank() == 1)
    std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
  EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
  return request;
}

// However often the control thread looks.
TEST(Warning, OfAWaitIsSaidOnce) {
  if (rank() > 1)
    return;
  Buffer buffer(40);
  Stream stream;
  Queue queue(stream);
  MPI_Request request = late_message(buffer, queue);
  ::testing::internal::CaptureStderr();
  queue.wait();
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string words = "rank 0 has waited";
  const size_t first = said.find(words);
  EXPECT_EQ(first != std::string::npos, rank() == 0) << said;
  if (first != std::string::npos) {
    EXPECT_EQ(said.find(words, first + 1), std::string::npos) << said;
  }
  EXPECT_TRUE(ok(MPI_Request_free(&request)));
}

TEST(Warning, SaysWhatIsWaitedForAndHoldsNobodyUp) {
  if (rank() > 1)
    return;
  Buffer buffer(40);
  Stream stream;
  Queue queue(stream);
  MPI_Request request = late_message(buffer, queue);
  MPI_Request next = MPI_REQUEST_NULL;
  int matched = 0;
  if (rank() == 0) {
    MPI_Recv_init(buffer.data(), buffer.count(), MPI_BYTE, 1, 6, MPI_COMM_WORLD, &next);
    FullStderr full;
    queue.wait();
    // What other processes want of this one goes on, while its program is elsewhere.
    MPI_Request match = MPI_REQUEST_NULL;
    EXPECT_TRUE(ok(MPIX_Imatch(&next, &match)));
    EXPECT_TRUE(ok(MPI_Recv(&matched, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
    EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
    const std::string said = full.text("tag 5, 40 B");
    EXPECT_NE(said.find("rank 0 has waited 200 ms in MPIX_Queue_wait"), std::string::npos) << said;
    EXPECT_NE(said.find("request (recv, peer 1, tag 5, 40 B)"), std::string::npos) << said;
  } else {
    MPI_Send_init(buffer.data(), buffer.count(), MPI_BYTE, 0, 6, MPI_COMM_WORLD, &next);
    queue.wait();
    matched = MPIX_Match(&next, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    EXPECT_TRUE(ok(MPI_Send(&matched, 1, MPI_INT, 0, 7, MPI_COMM_WORLD)));
  }
  EXPECT_EQ(matched, 1);
  EXPECT_TRUE(ok(MPI_Request_free(&request)));
  EXPECT_TRUE(ok(MPI_Request_free(&next)));
}

}  // namespace
}  // namespace lanyard::api_test
