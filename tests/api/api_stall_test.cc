// Late matches and messages. At the deadline a call fails with a report and may be repeated;
// earlier, a warning names what it waits for. Matching progresses without calls of the program.
// Tests wait for the deadline once or twice, so each checks much.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "tests/api/api_leaving.h"
#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Stall : Misuse {
  Requests requests;

  void SetUp() override { NEEDS_A_PARTNER(); }
  void TearDown() override {
    requests.free();
    Misuse::TearDown();
  }
  // Repeats the call while the other side is slower than the deadline, as sanitized builds may be.
  template <typename Call>
  static int in_the_end(Call call) {
    constexpr int kDeadlines = 60;
    int code = call();
    for (int i = 1; i < kDeadlines && error_class(code) == MPIX_ERR_STALLED; ++i)
      code = call();
    return code;
  }
  std::string other() const { return "peer " + std::to_string(partner()); }
};

// ---- Matching

// Both partners match their receive before their send, which only MPIX_Matchall allows.
TEST_F(Stall, BlockingMatchesInOppositeOrders) {
  requests.receive(in.data(), in.count(), partner(), 3);
  requests.send(out.data(), out.count(), partner(), 3);
  EXPECT_TRUE(
      reports([&] { return MPIX_Match(requests.at(0), MPI_STATUS_IGNORE); }, MPIX_ERR_STALLED,
              {"deadline", "recv", other(), "tag 3", "40 B", "not matched", "opposite order", "MPIX_Matchall"}));
  MPI_Barrier(MPI_COMM_WORLD);
  // The receive's match is still in progress; until it ends the request belongs to Lanyard.
  int flag = -1;
  EXPECT_TRUE(ok(MPIX_Is_matched(requests[0], &flag)));
  EXPECT_EQ(flag, 0);
  EXPECT_TRUE(fails(MPI_Start(requests.at(0)), MPI_ERR_REQUEST));
  MPI_Barrier(MPI_COMM_WORLD);
  // Repeat with both requests.
  MPI_Status statuses[2];
  ASSERT_TRUE(ok(MPIX_Matchall(2, requests.data(), statuses)));
  EXPECT_EQ(statuses[0].MPI_SOURCE, partner());
  EXPECT_EQ(statuses[0].MPI_TAG, 3);
  out.fill(seed_of(rank(), partner(), 0));
  requests.start(queue);
  requests.wait(queue);
  EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Queue_wait(queue); })));
  EXPECT_EQ(in.mistakes(seed_of(partner(), rank(), 0)), 0u);
}

// The call has given up with some requests matched. Repeating it matches the others.
TEST_F(Stall, AMatchallWithOneLatePeer) {
  requests.receive(in.data(), in.count(), partner(), 3);
  requests.receive(in.data(), in.count(), partner(), 4);
  Requests mine;
  mine.send(out.data(), out.count(), partner(), 3);
  mine.send(out.data(), out.count(), partner(), 4);
  MPI_Request first = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(mine.at(0), &first)));
  EXPECT_TRUE(reports([&] { return MPIX_Matchall(2, requests.data(), MPI_STATUSES_IGNORE); }, MPIX_ERR_STALLED,
                      {"not matched", "tag 4"}));
  int flag = -1;
  EXPECT_TRUE(ok(MPIX_Is_matched(requests[0], &flag)));
  EXPECT_EQ(flag, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Request second = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(mine.at(1), &second)));
  EXPECT_TRUE(ok(MPIX_Matchall(2, requests.data(), MPI_STATUSES_IGNORE)));
  EXPECT_TRUE(fails(MPIX_Matchall(2, requests.data(), MPI_STATUSES_IGNORE), MPI_ERR_REQUEST, {"matched already"}));
  EXPECT_TRUE(ok(MPI_Wait(&first, MPI_STATUS_IGNORE)));
  EXPECT_TRUE(ok(MPI_Wait(&second, MPI_STATUS_IGNORE)));
  mine.free();
}

// A report on thousands of requests names only some of them.
TEST_F(Stall, ThousandsOfUnmatchedRequests) {
  constexpr int kMany = 3000;
  if (sends()) {
    Requests nobodys;
    nobodys.send(out.data(), out.count(), partner(), kMany);
    EXPECT_TRUE(reports([&] { return MPIX_Match(nobodys.at(0), MPI_STATUS_IGNORE); }, MPIX_ERR_STALLED,
                        {"it is matching these receives with rank", "more"}));
    MPI_Barrier(MPI_COMM_WORLD);
    nobodys.free();
    for (int tag = 0; tag < kMany; ++tag)
      requests.send(out.data(), out.count(), partner(), tag, MPI_COMM_WORLD, Mode::kRsend);  // one counter each
    EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Matchall(kMany, requests.data(), MPI_STATUSES_IGNORE); })));
  } else {
    for (int tag = 0; tag < kMany; ++tag)
      requests.receive(in.data(), in.count(), partner(), tag);
    MPI_Request all = MPI_REQUEST_NULL;
    ASSERT_TRUE(ok(MPIX_Imatchall(kMany, requests.data(), &all)));
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_TRUE(ok(in_the_end([&] { return MPI_Wait(&all, MPI_STATUS_IGNORE); })));
  }
}

// A match request in MPI's own waits has the same deadline.
TEST_F(Stall, AMatchRequestWithALatePeer) {
  MPI_Request match = MPI_REQUEST_NULL;
  requests.half((sends() ? out : in).data(), in.count(), 3);
  if (sends()) {
    ASSERT_TRUE(ok(MPIX_Imatch(requests.at(0), &match)));
    EXPECT_TRUE(fails(MPI_Wait(&match, MPI_STATUS_IGNORE), MPIX_ERR_STALLED, {"deadline", "send", other(), "tag 3"}));
    ASSERT_NE(match, MPI_REQUEST_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    ASSERT_TRUE(ok(MPIX_Imatch(requests.at(0), &match)));
  }
  EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  EXPECT_EQ(match, MPI_REQUEST_NULL);
}

// The sender's error handler leaves a wait at the deadline, and a wait whose match has failed. Then
// the program continues.
TEST_F(Stall, AnErrorHandlerLeavesAWait) {
  for (const Leave how : {Leave::kByJump, Leave::kByException}) {
    Requests halves;
    halves.half((sends() ? out : in).data(), in.count(), 3);
    halves.half((sends() ? out : in).data(), in.count() - (sends() ? 0 : 1), 4);  // too short
    MPI_Request match = MPI_REQUEST_NULL, too_long = MPI_REQUEST_NULL;
    if (sends()) {
      ASSERT_TRUE(ok(MPIX_Imatch(halves.at(0), &match)));
      const auto wait = [&] { return MPI_Wait(&match, MPI_STATUS_IGNORE); };
      EXPECT_TRUE(fails(leave_call(how, wait), MPIX_ERR_STALLED, {"tag 3"}));
    }
    verify_that_the_sender_is_in_no_call();
    ASSERT_TRUE(ok(MPIX_Imatch(halves.at(1), &too_long)));
    int index = 0;
    const auto wait = [&] { return MPI_Waitany(1, &too_long, &index, MPI_STATUS_IGNORE); };
    EXPECT_TRUE(fails(sends() ? leave_call(how, wait) : wait(), MPI_ERR_TRUNCATE));
    verify_that_the_sender_is_in_no_call();
    if (!sends()) {
      ASSERT_TRUE(ok(MPIX_Imatch(halves.at(0), &match)));
    }
    EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  }
}

// ---- Messages

struct Direction {
  const char* name;
  Mode mode;
  bool sender_starts;
};

struct OneSide : Stall, ::testing::WithParamInterface<Direction> {};

// After two complete iterations only one side starts the third. Its report names the request and
// the missing event. When the other side has started too, the wait succeeds.
TEST_P(OneSide, StartsAlone) {
  Buffer data(16'384);
  data.poison();
  requests.half(data.data(), data.count(), 7, GetParam().mode);
  requests.match();
  if (sends())
    data.fill(1);
  for (int i = 0; i < 2; ++i) {
    if (GetParam().mode == Mode::kRsend && sends())
      MPI_Barrier(MPI_COMM_WORLD);
    requests.start(queue);
    if (GetParam().mode == Mode::kRsend && !sends())
      MPI_Barrier(MPI_COMM_WORLD);
    requests.wait(queue);
    EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Queue_wait(queue); })));
  }
  const bool alone = sends() == GetParam().sender_starts;
  if (alone) {
    requests.start(queue);
    requests.wait(queue);
    const std::string partner_rank = "rank " + std::to_string(partner());
    EXPECT_TRUE(reports([&] { return MPIX_Queue_wait(queue); }, MPIX_ERR_STALLED,
                        {"deadline", sends() ? "send" : "recv", other(), "tag 7", "16384 B", "iteration 3", "2 of 3",
                         partner_rank, "has enqueued 2 starts", "start 3 has not been"}));
    // The first missing event, by this side's own counters.
    EXPECT_TRUE(reports([&] { return MPIX_Queue_wait(queue); }, MPIX_ERR_STALLED,
                        {sends() ? "clear-to-send 3" : "has not landed"}));
    // Freeing waits first and fails in the same way; nothing is freed.
    EXPECT_TRUE(reports([&] { return MPIX_Queue_free(&queue.handle()); }, MPIX_ERR_STALLED, {"iteration 3"}));
    ASSERT_NE(queue.handle(), MPIX_QUEUE_NULL);
    EXPECT_TRUE(fails(MPI_Request_free(requests.at(0)), MPI_ERR_REQUEST, {"not completed"}));
    if (sends())
      data.fill(2);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (!alone) {
    if (sends())
      data.fill(2);
    requests.start(queue);
    requests.wait(queue);
  }
  EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Queue_wait(queue); })));
  EXPECT_EQ(data.mistakes(2), 0u);
}

INSTANTIATE_TEST_SUITE_P(Of, OneSide,
                         ::testing::Values(Direction{"TheReceiver", Mode::kSend, false},
                                           Direction{"TheSender", Mode::kSend, true},
                                           Direction{"TheReceiverOfAReadySend", Mode::kRsend, false}),
                         [](const auto& info) { return info.param.name; });

// The rank's own stream is held: the report must not blame the peer.
TEST_F(Stall, AStreamThatDoesNotReachTheStart) {
  add_pair(requests);
  requests.match();
  out.fill(1);
  Gate gate(stream);
  requests.start(queue);
  requests.wait(queue);
  EXPECT_TRUE(reports([&] { return MPIX_Queue_wait(queue); }, MPIX_ERR_STALLED, {"this stream has not reached"}));
  gate.open();
  EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Queue_wait(queue); })));
  EXPECT_EQ(in.mistakes(1), 0u);
}

// ---- A stopped sender

struct StoppedSender : Stall {
  int process = 0;  // the partner's process id

  void SetUp() override {
    NEEDS_A_PARTNER();
    const int mine = getpid();
    MPI_Sendrecv(&mine, 1, MPI_INT, partner(), 9, &process, 1, MPI_INT, partner(), 9, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  }
  bool is_stopped() const {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    std::getline(file, line);
    const size_t name_ends = line.rfind(") ");
    return name_ends != std::string::npos && line.compare(name_ends + 2, 1, "T") == 0;
  }
};

TEST_F(StoppedSender, IsNamed) {
  requests.half((sends() ? out : in).data(), 8, 0);
  requests.match();
  requests.start(queue);
  requests.wait(queue);
  stream.synchronize();
  if (sends()) {
    raise(SIGSTOP);
  } else {
    while (!is_stopped())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::string peer = "rank " + std::to_string(partner());
    EXPECT_TRUE(
        reports([&] { return MPIX_Queue_wait(queue); }, MPIX_ERR_STALLED,
                {"has run everything, but " + peer + " has not said yet whether its sends went well (recv, peer " +
                     std::to_string(partner()) + ", tag 0, 8 B)",
                 peer + " has not answered for"},
                {"not Lanyard's"}));
    kill(process, SIGCONT);
  }
  EXPECT_TRUE(ok(in_the_end([&] { return MPIX_Queue_wait(queue); })));
}

// ---- Progress

struct Progress : ::testing::Test {
  void SetUp() override { NEEDS_A_PARTNER(); }
  int value = 0;
  Requests requests;
};

// No call at all: the peer matches while this rank computes.
TEST_F(Progress, InsideNoCall) {
  requests.half(&value, sizeof value, 0);
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(requests.at(0), &match)));
  if (!sends()) {
    int done = 0;
    MPI_Request told = MPI_REQUEST_NULL;
    MPI_Irecv(&done, 1, MPI_INT, partner(), 9, MPI_COMM_WORLD, &told);
    // Polls by the MPI's own function, which does not progress Lanyard.
    for (int flag = 0; flag == 0; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      PMPI_Test(&told, &flag, MPI_STATUS_IGNORE);
    EXPECT_EQ(done, 1);
    EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  } else {
    EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
    const int done = 1;
    MPI_Send(&done, 1, MPI_INT, partner(), 9, MPI_COMM_WORLD);
  }
}

// A match that a call has given up can be withdrawn. The other side then matches with
// another request.
TEST_F(Progress, AFreedRequestIsNotMatchedLate) {
  if (sends()) {
    requests.send(&value, sizeof value, partner(), 5);
    EXPECT_TRUE(fails(MPIX_Match(requests.at(0), MPI_STATUS_IGNORE), MPIX_ERR_STALLED, {"tag 5"}));
    requests.free();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Buffer out(100), in(100);
  in.poison();
  out.fill(1);
  requests.half((sends() ? out : in).data(), out.count(), 5);
  requests.match();
  Stream stream;
  Queue queue(stream);
  requests.run(queue);
  if (!sends()) {
    EXPECT_EQ(in.mistakes(1), 0u);
  }
}

// ---- Warnings (LANYARD_WARN_S)

// Replaces stderr by a full pipe that is not read before text().
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

  // Returns the output from now on, until it contains these words.
  std::string text(const std::string& words) {
    std::string result;
    EXPECT_TRUE(eventually([&] {
      char part[4096];
      for (ssize_t length; (length = read(pipe_[0], part, sizeof part)) > 0;)
        result.append(part, static_cast<size_t>(length));
      return has(result, words);
    }));
    return result.substr(std::min(result.size(), result.find_first_not_of('\0')));
  }

 private:
  int pipe_[2] = {-1, -1};
  int saved_ = -1;
};

// A message from rank 1 to rank 0 that starts a second late.
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

// However often the control thread checks.
TEST(Warning, OfAWaitIsPrintedOnce) {
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

TEST(Warning, NamesTheMissingMessageAndDoesNotBlock) {
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
    // The control thread still serves other processes while the program is elsewhere.
    MPI_Request match = MPI_REQUEST_NULL;
    EXPECT_TRUE(ok(MPIX_Imatch(&next, &match)));
    EXPECT_TRUE(ok(MPI_Recv(&matched, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
    EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
    const std::string said = full.text("tag 5, 40 B");
    EXPECT_TRUE(has(said, "rank 0 has waited 200 ms in MPIX_Queue_wait"));
    EXPECT_TRUE(has(said, "request (recv, peer 1, tag 5, 40 B)"));
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
