// Errors as MPI has them: handlers, classes, texts, and a failed call that has changed nothing.
// MPI 4.0, sections 3.9, 9.3, 9.3.1, 9.4, 9.5.
#include <cstring>
#include <set>
#include <string>

#include "tests/api/api_misuse.h"
#include "tests/conformance/conformance.h"

namespace lanyard::conformance {
namespace {

struct Heard {
  int count = 0;
  MPI_Comm communicator = MPI_COMM_NULL;
  int code = MPI_SUCCESS;
};
Heard heard_one, heard_two;
void hear_one(MPI_Comm* communicator, int* code, ...) { heard_one = {heard_one.count + 1, *communicator, *code}; }
void hear_two(MPI_Comm* communicator, int* code, ...) { heard_two = {heard_two.count + 1, *communicator, *code}; }

struct ErrorHandlers : Exchange {
  MPI_Comm one = MPI_COMM_NULL, two = MPI_COMM_NULL;
  MPI_Errhandler handler_one = MPI_ERRHANDLER_NULL, handler_two = MPI_ERRHANDLER_NULL;

  void SetUp() override {
    heard_one = heard_two = {};
    MPI_Comm_dup(MPI_COMM_SELF, &one);
    MPI_Comm_dup(MPI_COMM_SELF, &two);
    MPI_Comm_create_errhandler(hear_one, &handler_one);
    MPI_Comm_create_errhandler(hear_two, &handler_two);
    MPI_Comm_set_errhandler(one, handler_one);
    MPI_Comm_set_errhandler(two, handler_two);
  }
  void TearDown() override {
    MPI_Errhandler_free(&handler_one);
    MPI_Errhandler_free(&handler_two);
    MPI_Comm_free(&one);
    MPI_Comm_free(&two);
  }
};

TEST_F(ErrorHandlers, AreThoseOfTheRequestsCommunicators) {
  Requests requests;
  requests.receive(&in, 1, 0, 1, one, MPI_INT);
  requests.receive(&in, 1, 0, 1, two, MPI_INT);
  const int first = MPIX_Enqueue_start(queue, requests.at(0));
  EXPECT_EQ(heard_one.count, 1);
  EXPECT_EQ(heard_one.communicator, one);
  EXPECT_EQ(heard_one.code, first);
  EXPECT_EQ(heard_two.count, 0);
  const int second = MPIX_Enqueue_start(queue, requests.at(1));
  EXPECT_EQ(heard_one.count, 1);
  EXPECT_EQ(heard_two.count, 1);
  EXPECT_EQ(heard_two.communicator, two);
  EXPECT_EQ(heard_two.code, second);
}

TEST_F(ErrorHandlers, AreThoseAtTheTimeOfTheCall) {
  Requests requests;
  requests.receive(&in, 1, 0, 1, one, MPI_INT);
  MPI_Comm_set_errhandler(one, handler_two);
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST));
  EXPECT_EQ(heard_one.count, 0);
  EXPECT_EQ(heard_two.count, 1);
  MPI_Comm_set_errhandler(one, MPI_ERRORS_RETURN);
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST));
  EXPECT_EQ(heard_two.count, 1);
}

// A child inherits its parent's, as MPI has it for MPI_Comm_dup.
TEST_F(ErrorHandlers, AreInheritedByDuplicates) {
  MPI_Comm child = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Comm_dup(one, &child)));
  Requests requests;
  requests.receive(&in, 1, 0, 1, child, MPI_INT);
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST));
  EXPECT_EQ(heard_one.count, 1);
  EXPECT_EQ(heard_one.communicator, child);
  requests.free();
  MPI_Comm_free(&child);
}

TEST_F(ErrorHandlers, ReturnWhereTheyAreToldTo) {
  MPI_Comm_set_errhandler(one, MPI_ERRORS_RETURN);
  Requests requests;
  requests.receive(&in, 1, 0, 1, one, MPI_INT);
  EXPECT_TRUE(fails(MPIX_Enqueue_wait(queue, requests.at(0)), MPI_ERR_REQUEST));
  EXPECT_EQ(heard_one.count + heard_two.count, 0);
}

// The same handler hears of the MPI's own errors on the same communicator.
TEST_F(ErrorHandlers, HearTheMpisErrorsToo) {
  Requests requests;
  requests.receive(&in, 1, 0, 1, one, MPI_INT);
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST));
  MPI_Request none = MPI_REQUEST_NULL;
  EXPECT_TRUE(fails(MPI_Recv_init(&in, 1, MPI_INT, 5, 1, one, &none), MPI_ERR_RANK));
  EXPECT_EQ(heard_one.count, 2);
}

// Of the request in error, not of the first of the call, where one of them alone is refused.
TEST_F(ErrorHandlers, AreThoseOfTheRequestInError) {
  Requests requests;
  add_pair(requests, 1, one, 0);
  requests.match();
  requests.receive(&in, 1, 0, 2, two, MPI_INT);
  EXPECT_TRUE(fails(MPIX_Enqueue_startall(queue, 3, requests.data()), MPI_ERR_REQUEST, {"request 2"}));
  EXPECT_EQ(heard_one.count, 0);
  EXPECT_EQ(heard_two.count, 1);
}

MPI_Request* for_handler = nullptr;
int handlers_result = MPI_SUCCESS;
void handler_that_calls(MPI_Comm*, int*, ...) {
  int flag = 0;
  handlers_result = MPIX_Is_matched(*for_handler, &flag);
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

// No lock is held while a handler runs.
TEST_F(ErrorHandlers, MayCallMpiAndLanyard) {
  MPI_Errhandler calling = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(handler_that_calls, &calling);
  MPI_Comm_set_errhandler(one, calling);
  Requests requests;
  requests.receive(&in, 1, 0, 1, one, MPI_INT);
  for_handler = requests.at(0);
  handlers_result = kUntouched;
  EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST));
  EXPECT_EQ(handlers_result, MPI_SUCCESS);
  MPI_Errhandler_free(&calling);
}

// ---- Classes and texts

constexpr std::array<MPIX_Error_kind, 6> kKinds{MPIX_ERROR_QUEUE,  MPIX_ERROR_BUSY,    MPIX_ERROR_NO_ENTRIES,
                                                MPIX_ERROR_FAILED, MPIX_ERROR_STALLED, MPIX_ERROR_NIC};

TEST(ErrorClasses, OfLanyardAreTheirOwnClasses) {
  std::set<int> classes;
  for (const MPIX_Error_kind kind : kKinds) {
    const int value = MPIX_Error_class_of(kind);
    int of_class = kUntouched;
    ASSERT_TRUE(ok(MPI_Error_class(value, &of_class)));
    EXPECT_EQ(of_class, value);
    EXPECT_TRUE(classes.insert(value).second);
  }
  EXPECT_EQ(classes.size(), kKinds.size());
}

// The MPI's classes are constants that a switch takes; Lanyard's are known when the program runs, so a switch is over
// their kinds.
TEST(ErrorClasses, CanBeSwitchedOn) {
  const auto name_of_class = [](int code) -> std::string {
    const int value = error_class(code);
    switch (value) {
      case MPI_ERR_REQUEST: return "request";
      case MPI_ERR_TRUNCATE: return "truncate";
      case MPI_ERR_ARG: return "argument";
      default: break;
    }
    for (const MPIX_Error_kind kind : kKinds) {
      if (MPIX_Error_class_of(kind) != value)
        continue;
      switch (kind) {
        case MPIX_ERROR_QUEUE: return "queue";
        case MPIX_ERROR_BUSY: return "busy";
        case MPIX_ERROR_NO_ENTRIES: return "entries";
        case MPIX_ERROR_FAILED: return "failed";
        case MPIX_ERROR_STALLED: return "stalled";
        case MPIX_ERROR_NIC: return "nic";
      }
    }
    return "another";
  };
  Stream stream;
  Queue queue(stream);
  MPIX_Queue again = MPIX_QUEUE_NULL;
  MPI_Request none = MPI_REQUEST_NULL;
  EXPECT_EQ(name_of_class(MPIX_Queue_wait(MPIX_QUEUE_NULL)), "queue");
  EXPECT_EQ(name_of_class(MPIX_Queue_init(&again, MPIX_QUEUE_HOST, &stream.handle())), "busy");
  EXPECT_EQ(name_of_class(MPIX_Match(&none, MPI_STATUS_IGNORE)), "request");
  EXPECT_EQ(name_of_class(MPIX_Queue_init(nullptr, MPIX_QUEUE_HOST, &stream.handle())), "argument");
  EXPECT_EQ(name_of_class(MPIX_ERR_NO_ENTRIES), "entries");
  EXPECT_EQ(name_of_class(MPIX_ERR_FAILED), "failed");
  EXPECT_EQ(name_of_class(MPIX_ERR_STALLED), "stalled");
  EXPECT_EQ(name_of_class(MPIX_ERR_NIC), "nic");
  EXPECT_EQ(name_of_class(MPI_ERR_COMM), "another");
}

// Classes of the program's own live beside them, made before or after.
TEST(ErrorClasses, OfTheProgramLiveBesideThem) {
  int before = kUntouched, code = kUntouched;
  ASSERT_TRUE(ok(MPI_Add_error_class(&before)));
  ASSERT_TRUE(ok(MPI_Add_error_code(before, &code)));
  ASSERT_TRUE(ok(MPI_Add_error_string(code, "the program's own")));
  EXPECT_TRUE(fails(MPIX_Queue_wait(MPIX_QUEUE_NULL), MPIX_ERR_QUEUE));
  for (const MPIX_Error_kind kind : kKinds)
    EXPECT_NE(MPIX_Error_class_of(kind), before);
  EXPECT_EQ(error_class(code), before);
  EXPECT_EQ(error_text(code), "the program's own");
}

TEST(ErrorTexts, OfClassesSayWhatTheyAre) {
  std::set<std::string> texts;
  for (const MPIX_Error_kind kind : kKinds) {
    const std::string text = error_text(MPIX_Error_class_of(kind));
    EXPECT_GT(text.size(), 10u);
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), kKinds.size());
}

TEST(ErrorTexts, OfCodesSayWhatHappened) {
  Stream stream;
  Queue queue(stream);
  int value = 0;
  Requests requests;
  requests.receive(&value, 1, 0, 11, MPI_COMM_SELF, MPI_INT);
  const int code = MPIX_Enqueue_start(queue, requests.at(0));
  EXPECT_NE(code, error_class(code));
  EXPECT_NE(error_text(code), error_text(MPI_ERR_REQUEST));
  EXPECT_TRUE(fails(code, MPI_ERR_REQUEST, {"not matched"}));
}

// A text ends within MPI_MAX_ERROR_STRING, and its length is without the end.
TEST(ErrorTexts, FitTheMpisRoom) {
  MPI_Request none = MPI_REQUEST_NULL;
  for (const int code : {MPIX_ERR_QUEUE, MPIX_Queue_wait(MPIX_QUEUE_NULL), MPIX_Match(&none, MPI_STATUS_IGNORE)}) {
    std::array<char, MPI_MAX_ERROR_STRING + 8> text;
    text.fill('#');
    int length = kUntouched;
    ASSERT_TRUE(ok(MPI_Error_string(code, text.data(), &length)));
    ASSERT_GT(length, 0);
    ASSERT_LT(length, MPI_MAX_ERROR_STRING);
    EXPECT_EQ(std::strlen(text.data()), static_cast<size_t>(length));
    EXPECT_EQ(text[MPI_MAX_ERROR_STRING], '#');
  }
}

// ---- A failed call has changed nothing

struct FailedCalls : Misuse {};

TEST_F(FailedCalls, OfMatchingLeaveRequestsUnmatched) {
  Requests pair;
  add_pair(pair);
  std::array<MPI_Request, 3> bad{pair[0], pair[1], MPI_REQUEST_NULL};
  MPI_Request match = MPI_REQUEST_NULL;
  refused([&] { return MPIX_Matchall(3, bad.data(), MPI_STATUSES_IGNORE); }, MPI_ERR_REQUEST, {"request 2"});
  refused([&] { return MPIX_Imatchall(3, bad.data(), &match); }, MPI_ERR_REQUEST, {"request 2"});
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  for (int i = 0; i < 2; ++i) {
    int flag = 1;
    ASSERT_TRUE(ok(MPIX_Is_matched(pair[i], &flag)));
    EXPECT_FALSE(flag);
  }
  ASSERT_TRUE(ok(MPI_Startall(2, pair.data())));
  ASSERT_TRUE(ok(MPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE)));
  pair.match();
  verify_pair(pair);
}

TEST_F(FailedCalls, OfEnqueuingLeaveQueueAndRequests) {
  Requests pair;
  add_pair(pair);
  pair.match();
  std::array<MPI_Request, 3> bad{pair[0], pair[1], MPI_REQUEST_NULL};
  refused([&] { return MPIX_Enqueue_startall(queue, 3, bad.data()); }, MPI_ERR_REQUEST, {"request 2"});
  refused([&] { return MPIX_Enqueue_waitall(queue, 2, pair.data()); }, MPI_ERR_REQUEST);
  refused([&] { return MPIX_Enqueue_startall(MPIX_QUEUE_NULL, 2, pair.data()); }, MPIX_ERR_QUEUE);
  verify_pair(pair);
}

TEST_F(FailedCalls, OfRequestFreeLeaveTheHandle) {
  Requests pair;
  add_pair(pair);
  pair.match();
  pair.start(queue);
  queue.wait();
  const MPI_Request before = pair[0];
  refused([&] { return MPI_Request_free(pair.at(0)); }, MPI_ERR_REQUEST);
  EXPECT_EQ(pair[0], before);
  pair.wait(queue);
  queue.wait();
  verify_pair(pair);
}

TEST_F(FailedCalls, OfTheMpiMakeNoRequest) {
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_TRUE(fails(MPI_Send_init(out.data(), -1, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request), MPI_ERR_COUNT));
  int flag = kUntouched;
  EXPECT_TRUE(fails(MPIX_Is_matched(request, &flag), MPI_ERR_REQUEST));
  EXPECT_EQ(flag, kUntouched);
}

}  // namespace
}  // namespace lanyard::conformance
