// MPI's own calls on requests that belong to a queue are refused and leave the message as it is;
// error handlers are invoked.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct HostCalls : MisuseOfPair {
  void SetUp() override {
    MisuseOfPair::SetUp();
    pair.match();
    out.fill(1);
    in.poison();
  }

  // Expects that every completion call of MPI is refused as a whole: with another request in the
  // call, that one is not completed either.
  void refuse_completion() {
    constexpr int kUntouched = -77;
    int flag = kUntouched, index = kUntouched, count = kUntouched;
    std::array<int, 3> indices;
    std::array<MPI_Status, 3> statuses;
    MPI_Request* one = pair.at(0);
    std::array<MPI_Request, 3> three{MPI_REQUEST_NULL, pair[0], pair[1]};
    MPI_Irecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &three[0]);
    const std::array<MPI_Request, 3> before = three;
    MPI_Request* all = three.data();
    const std::initializer_list<std::string> facts{"recv", myself(), "tag 3", "40 B", "queue"};
    refused([&] { return MPI_Wait(one, &statuses[0]); }, MPI_ERR_REQUEST, facts);
    refused([&] { return MPI_Test(one, &flag, &statuses[0]); }, MPI_ERR_REQUEST, facts);
    refused([&] { return MPI_Waitall(3, all, statuses.data()); }, MPI_ERR_REQUEST, facts);
    refused([&] { return MPI_Testall(3, all, &flag, statuses.data()); }, MPI_ERR_REQUEST, facts);
    refused([&] { return MPI_Waitany(3, all, &index, &statuses[0]); }, MPI_ERR_REQUEST, facts);
    refused([&] { return MPI_Testany(3, all, &index, &flag, &statuses[0]); }, MPI_ERR_REQUEST, facts);
    refused([&] { return MPI_Waitsome(3, all, &count, indices.data(), statuses.data()); }, MPI_ERR_REQUEST, facts);
    refused([&] { return MPI_Testsome(3, all, &count, indices.data(), statuses.data()); }, MPI_ERR_REQUEST, facts);
    EXPECT_EQ(three, before);
    EXPECT_EQ((std::array{flag, index, count}), (std::array{kUntouched, kUntouched, kUntouched}));
    EXPECT_TRUE(ok(MPI_Wait(&three[0], MPI_STATUS_IGNORE)));
    refused([&] { return MPI_Cancel(one); }, MPI_ERR_REQUEST, facts);
    refused([&] { return MPI_Request_get_status(*one, &flag, &statuses[0]); }, MPI_ERR_REQUEST, facts);
    for (int i = 0; i < 2; ++i) {
      refused([&] { return MPI_Request_free(pair.at(i)); }, MPI_ERR_REQUEST, {i == 0 ? "recv" : "send", "tag 3"});
      ASSERT_NE(pair[i], MPI_REQUEST_NULL);
    }
  }
  void refuse_start() {
    refused([&] { return MPI_Start(pair.at(0)); }, MPI_ERR_REQUEST, {"recv", "tag 3", "queue"});
    refused([&] { return MPI_Start(pair.at(1)); }, MPI_ERR_REQUEST, {"send", "tag 3", "queue"});
    refused([&] { return MPI_Startall(2, pair.data()); }, MPI_ERR_REQUEST);
  }
};

TEST_F(HostCalls, WhileTheMessageIsInFlight) {
  refuse_start();  // inactive, but it belongs to the queue
  Gate gate(stream);
  pair.start(queue);
  pair.wait(queue);
  refuse_start();
  refuse_completion();
  EXPECT_TRUE(in.untouched());
  gate.open();
  queue.wait();
  EXPECT_EQ(in.mistakes(1), 0u);
  verify_pair(pair);
}

TEST_F(HostCalls, AfterTheTransferWithoutAWait) {
  pair.start(queue);
  queue.wait();
  EXPECT_EQ(in.mistakes(1), 0u);
  refuse_start();
  refuse_completion();
  pair.wait(queue);
  queue.wait();
  verify_pair(pair);
}

// ---- Error handlers

struct Seen {
  int count = 0;
  MPI_Comm communicator = MPI_COMM_NULL;
  int code = MPI_SUCCESS;
} seen;

void note(MPI_Comm* communicator, int* code, ...) { seen = {seen.count + 1, *communicator, *code}; }

struct Handlers : Misuse {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;

  void SetUp() override {
    seen = {};
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_create_errhandler(note, &handler);
  }
  void TearDown() override {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    if (copy != MPI_COMM_NULL)
      MPI_Comm_free(&copy);
    Misuse::TearDown();
  }
};

// Expects one call of the handler, with the code that the function returns.
TEST_F(Handlers, OfTheRequestsCommunicatorIsInvoked) {
  MPI_Comm_set_errhandler(copy, handler);
  Requests requests;
  add_pair(requests, 1, copy);
  int calls = 0;
  const auto expect_call = [&](int code, int error_class_expected) {
    EXPECT_TRUE(fails(code, error_class_expected));
    EXPECT_EQ(seen.count, ++calls);
    EXPECT_EQ(seen.communicator, copy);
    EXPECT_EQ(seen.code, code);
  };
  expect_call(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST);
  requests.match();
  EXPECT_EQ(seen.count, calls);
  expect_call(MPIX_Match(requests.at(1), MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
  expect_call(MPI_Start(requests.at(1)), MPI_ERR_REQUEST);
  requests.start(queue);
  expect_call(MPI_Wait(requests.at(0), MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
  expect_call(MPI_Request_free(requests.at(0)), MPI_ERR_REQUEST);
  requests.wait(queue);
  queue.wait();
  EXPECT_EQ(seen.count, calls);
}

// In a call on several requests, the handler of the failing request's communicator is invoked.
TEST_F(Handlers, OfTheOffendingRequestAmongSeveral) {
  MPI_Comm_set_errhandler(copy, handler);
  Requests requests;
  add_pair(requests, 1, copy);
  Requests others;
  add_pair(others, 2);
  others.match();
  MPI_Request mixed[] = {others[0], requests[0], others[1]};
  EXPECT_TRUE(fails(MPIX_Enqueue_startall(queue, 3, mixed), MPI_ERR_REQUEST, {"request 1"}));
  EXPECT_EQ(seen.count, 1);
  EXPECT_EQ(seen.communicator, copy);
  requests.match();
  verify_pair(others);
}

TEST_F(Handlers, AreThoseAtTheTimeOfTheCall) {
  Requests requests;
  requests.receive(in.data(), in.count(), rank(), 1, copy);
  MPI_Comm_set_errhandler(copy, handler);
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST));
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST));
  EXPECT_EQ(seen.count, 1);
}

MPI_Request for_handler = MPI_REQUEST_NULL;
int handlers_result = MPI_ERR_OTHER;
void call_back(MPI_Comm*, int*, ...) {
  int flag = 0;
  handlers_result = MPIX_Is_matched(for_handler, &flag);
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

// Lanyard holds no lock while a handler runs.
TEST_F(Handlers, MayCallMpiAndLanyard) {
  MPI_Errhandler calling = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(call_back, &calling);
  MPI_Comm_set_errhandler(copy, calling);
  Requests requests;
  requests.receive(in.data(), in.count(), rank(), 1, copy);
  for_handler = *requests.at(0);
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST));
  EXPECT_EQ(handlers_result, MPI_SUCCESS);
  MPI_Errhandler_free(&calling);
}

TEST_F(Handlers, OfTheWorldIsInvokedWithoutARequest) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Request none = MPI_REQUEST_NULL;
  const int no_queue = MPIX_Queue_wait(MPIX_QUEUE_NULL);
  EXPECT_EQ(seen.count, 1);
  EXPECT_EQ(seen.communicator, MPI_COMM_WORLD);
  EXPECT_EQ(seen.code, no_queue);
  const int no_request = MPIX_Match(&none, MPI_STATUS_IGNORE);
  EXPECT_EQ(seen.count, 2);
  EXPECT_EQ(seen.code, no_request);
  EXPECT_NE(error_text(no_queue), error_text(no_request));
}

// A request outlives its communicator's handle.
TEST_F(Handlers, OfTheWorldIsInvokedAfterTheCommunicatorIsFreed) {
  MPI_Comm_set_errhandler(copy, handler);
  Requests requests;
  requests.receive(in.data(), in.count(), rank(), 1, copy);
  MPI_Comm_free(&copy);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST));
  EXPECT_EQ(seen.count, 1);
  EXPECT_EQ(seen.communicator, MPI_COMM_WORLD);
}

// So does a match request whose match has failed but was not tested.
TEST_F(Handlers, OfTheWorldIsInvokedWhenAMatchRequestOutlivesItsCommunicator) {
  MPI_Comm_set_errhandler(copy, handler);
  Requests requests;
  requests.receive(in.data(), in.count() - 1, rank(), 1, copy);
  requests.send(out.data(), out.count(), rank(), 1, copy);
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(2, requests.data(), &match)));
  for (int flag = 0; !flag;)
    ASSERT_TRUE(ok(MPI_Request_get_status(match, &flag, MPI_STATUS_IGNORE)));
  requests.free();
  MPI_Comm_free(&copy);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  EXPECT_TRUE(fails(MPI_Wait(&match, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE));
  EXPECT_EQ(seen.count, 1);
  EXPECT_EQ(seen.communicator, MPI_COMM_WORLD);
}

// A communicator whose MPI_Comm_free failed still belongs to its requests.
TEST_F(Handlers, OfACommunicatorThatCouldNotBeFreedIsInvoked) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
  Requests requests;
  requests.receive(in.data(), in.count(), 0, 1, MPI_COMM_SELF);
  MPI_Comm self = MPI_COMM_SELF;
  EXPECT_NE(MPI_Comm_free(&self), MPI_SUCCESS);
  seen = {};
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST));
  EXPECT_EQ(seen.count, 1);
  EXPECT_EQ(seen.communicator, MPI_COMM_SELF);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

// ---- Classes and texts

TEST(ErrorCodes, HaveClassesOfTheirOwn) {
  const std::array<int, 6> classes{MPIX_ERR_QUEUE,  MPIX_ERR_BUSY,    MPIX_ERR_NO_ENTRIES,
                                   MPIX_ERR_FAILED, MPIX_ERR_STALLED, MPIX_ERR_NIC};
  for (size_t i = 0; i < classes.size(); ++i) {
    EXPECT_GT(classes[i], MPI_ERR_LASTCODE) << "the class is one of MPI's";
    EXPECT_EQ(error_class(classes[i]), classes[i]);
    EXPECT_FALSE(error_text(classes[i]).empty());
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(classes[i], classes[j]);
  }
  EXPECT_EQ(MPIX_Error_class_of(static_cast<MPIX_Error_kind>(-1)), MPI_ERR_OTHER);
  EXPECT_EQ(MPIX_Error_class_of(static_cast<MPIX_Error_kind>(6)), MPI_ERR_OTHER);
}

// The program's own classes work beside Lanyard's, whether added before or after them.
TEST(ErrorCodes, LiveBesideTheProgramsOwn) {
  int before = -1, code = -1;
  ASSERT_TRUE(ok(MPI_Add_error_class(&before)));
  ASSERT_TRUE(ok(MPI_Add_error_code(before, &code)));
  ASSERT_TRUE(ok(MPI_Add_error_string(code, "the program's own")));
  EXPECT_TRUE(fails(MPIX_Queue_wait(MPIX_QUEUE_NULL), MPIX_ERR_QUEUE));
  EXPECT_EQ(error_class(code), before);
  EXPECT_EQ(error_text(code), "the program's own");
}

// A text with its terminator fits into MPI_MAX_ERROR_STRING; the length excludes the terminator.
TEST(ErrorCodes, HaveTextsThatFitMpisLimit) {
  MPI_Request none = MPI_REQUEST_NULL;
  for (const int code : {MPIX_ERR_QUEUE, MPIX_Queue_wait(MPIX_QUEUE_NULL), MPIX_Match(&none, MPI_STATUS_IGNORE)}) {
    std::array<char, MPI_MAX_ERROR_STRING + 8> text;
    text.fill('#');
    int length = -1;
    ASSERT_TRUE(ok(MPI_Error_string(code, text.data(), &length)));
    ASSERT_GT(length, 0);
    ASSERT_LT(length, MPI_MAX_ERROR_STRING);
    EXPECT_EQ(std::strlen(text.data()), static_cast<size_t>(length));
    EXPECT_EQ(text[MPI_MAX_ERROR_STRING], '#');
  }
}

// More errors than codes: a code keeps its text until as many other errors have occurred.
TEST(ErrorCodes, KeepTheirTextForAsManyOtherErrors) {
  constexpr int kCodes = 256;  // the value in api/errors.h
  constexpr int kErrors = 3 * kCodes;
  int value = 0;
  std::vector<int> codes;
  const auto expect_right = [&](int error) {
    const int code = codes[static_cast<size_t>(error)];
    if (error % 2 == 0) {
      EXPECT_TRUE(fails(code, MPI_ERR_REQUEST, {"tag " + std::to_string(error) + ",", "matched already"}));
    } else {
      EXPECT_TRUE(fails(code, MPI_ERR_TRUNCATE, {std::to_string(error + 1000), std::to_string(error + 999)}));
    }
  };
  std::vector<char> memory(kErrors + 1000);
  const auto err = [&](int error) {
    Requests requests;
    if (error % 2 == 0) {
      requests.receive(&value, sizeof value, 0, error, MPI_COMM_SELF);
      requests.send(&value, sizeof value, 0, error, MPI_COMM_SELF);
      requests.match();
      return MPIX_Match(requests.at(0), MPI_STATUS_IGNORE);
    }
    requests.receive(memory.data(), error + 999, 0, 1, MPI_COMM_SELF);
    requests.send(memory.data(), error + 1000, 0, 1, MPI_COMM_SELF);
    MPI_Request match = MPI_REQUEST_NULL;
    EXPECT_TRUE(ok(MPIX_Imatchall(2, requests.data(), &match)));
    return MPI_Wait(&match, MPI_STATUS_IGNORE);
  };
  for (int error = 0; error < kErrors; ++error) {
    codes.push_back(err(error));
    expect_right(error);
  }
  for (int error = kErrors - kCodes; error < kErrors; ++error)
    expect_right(error);
  std::vector<int> distinct = codes;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  EXPECT_LE(distinct.size(), static_cast<size_t>(kCodes));
  // An old error that occurs again keeps its code, and the code lives as long as a new one.
  const int oldest = kErrors - kCodes;
  EXPECT_EQ(err(oldest), codes[static_cast<size_t>(oldest)]);
  for (int error = kErrors; error < kErrors + kCodes - 1; ++error) {
    codes.push_back(err(error));
    expect_right(oldest);
  }
}

}  // namespace
}  // namespace lanyard::api_test
