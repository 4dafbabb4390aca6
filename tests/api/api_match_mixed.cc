// Failed matches: both sides get an error, and both requests stay usable. At any place of an array,
// a completion call reports which request failed and why, and invokes the right communicator's
// error handler.
#include <algorithm>
#include <array>
#include <vector>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Truncation : OnAQueue {
  Buffer shorter{100}, longer{200};

  void SetUp() override {
    NEEDS_A_PARTNER();
    shorter.poison();
    longer.poison();
  }
};

TEST_F(Truncation, IsAnErrorOnBothSidesAndLeavesBothRequestsUsable) {
  // The sender has a long and a short message, the receiver a short and a long buffer.
  Requests requests;
  if (sends()) {
    requests.send(longer.data(), longer.count(), partner(), 1);
    requests.send(shorter.data(), shorter.count(), partner(), 1);
  } else {
    requests.receive(shorter.data(), shorter.count(), partner(), 1);
    requests.receive(longer.data(), longer.count(), partner(), 1);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(fails(MPIX_Match(requests.at(0), MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, {"200", "100"}));
    int flag = -1;
    ASSERT_TRUE(ok(MPIX_Is_matched(requests[0], &flag)));
    EXPECT_EQ(flag, 0);
    EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, requests.at(0)), MPI_ERR_REQUEST, {"not matched"}));
  }
  // The MPI may start a request that is not matched.
  if (sends()) {
    ASSERT_TRUE(ok(MPI_Start(requests.at(0))));
    ASSERT_TRUE(ok(MPI_Wait(requests.at(0), MPI_STATUS_IGNORE)));
  } else {
    EXPECT_TRUE(ok(MPI_Recv(longer.data(), longer.count(), MPI_BYTE, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
  }
  // Each request matches with a fitting one.
  ASSERT_TRUE(ok(MPIX_Match(requests.at(sends() ? 0 : 1), MPI_STATUS_IGNORE)));
  ASSERT_TRUE(ok(MPIX_Match(requests.at(sends() ? 1 : 0), MPI_STATUS_IGNORE)));
  if (sends()) {
    longer.fill(1);
    shorter.fill(2);
  }
  requests.run(queue);
  EXPECT_EQ(longer.mistakes(1), 0u);
  EXPECT_EQ(shorter.mistakes(2), 0u);
}

// ---- Among requests that succeed

// How often each handler was called, and its last code.
struct Heard {
  int count = 0;
  int code = MPI_SUCCESS;
};
Heard heard_first, heard_second, heard_world;

void hear_first(MPI_Comm*, int* code, ...) { heard_first = {heard_first.count + 1, *code}; }
void hear_second(MPI_Comm*, int* code, ...) { heard_second = {heard_second.count + 1, *code}; }
void hear_world(MPI_Comm*, int* code, ...) { heard_world = {heard_world.count + 1, *code}; }

// Five requests: a receive and a send of MPI, a match that succeeds, and two failing matches on
// different communicators.
struct FailedMatches : ::testing::TestWithParam<int> {
  static constexpr int kCount = 5;
  enum Kind { kReceive, kSend, kMatched, kFirst, kSecond };

  MPI_Comm first = MPI_COMM_NULL, second = MPI_COMM_NULL;
  std::array<MPI_Errhandler, 3> handlers{};
  std::array<char, 30> memory{};
  int message_in = -1, message_out = 44;
  Requests requests;
  std::array<MPI_Request, kCount> all{};
  std::array<Kind, kCount> kinds{};
  std::array<MPI_Status, kCount> statuses{};

  void SetUp() override {
    heard_first = heard_second = heard_world = {};
    MPI_Comm_dup(MPI_COMM_SELF, &first);
    MPI_Comm_dup(MPI_COMM_SELF, &second);
    MPI_Comm_create_errhandler(hear_first, &handlers[0]);
    MPI_Comm_create_errhandler(hear_second, &handlers[1]);
    MPI_Comm_create_errhandler(hear_world, &handlers[2]);
    MPI_Comm_set_errhandler(first, handlers[0]);
    MPI_Comm_set_errhandler(second, handlers[1]);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handlers[2]);
    for (MPI_Status& status : statuses)
      status.MPI_ERROR = MPI_ERR_OTHER;  // the value before the call
    for (int k = 0; k < kCount; ++k)
      kinds[static_cast<size_t>((k + GetParam()) % kCount)] = static_cast<Kind>(k);
    for (size_t i = 0; i < kCount; ++i)
      all[i] = begin(kinds[i]);
  }
  void TearDown() override {
    for (const MPI_Request request : all)
      EXPECT_EQ(request, MPI_REQUEST_NULL);
    EXPECT_EQ(message_in, 44);
    requests.free();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (MPI_Errhandler& handler : handlers)
      MPI_Errhandler_free(&handler);
    MPI_Comm_free(&first);
    MPI_Comm_free(&second);
  }

  MPI_Request begin(Kind kind) {
    MPI_Request request = MPI_REQUEST_NULL;
    switch (kind) {
      case kReceive: MPI_Irecv(&message_in, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &request); break;
      case kSend: MPI_Isend(&message_out, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &request); break;
      case kMatched: request = match(MPI_COMM_SELF, 10); break;
      case kFirst: request = match(first, 20); break;
      case kSecond: request = match(second, 30); break;
    }
    return request;
  }
  // A match of the rank with itself: a message of `bytes` bytes, with room for 10.
  MPI_Request match(MPI_Comm communicator, int bytes) {
    const int at = requests.receive(memory.data(), 10, 0, 1, communicator);
    requests.send(memory.data(), bytes, 0, 1, communicator);
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_TRUE(ok(MPIX_Imatchall(2, requests.at(at), &request)));
    return request;
  }

  static bool has_failed(Kind kind) { return kind == kFirst || kind == kSecond; }
  static Heard& heard_of(Kind kind) { return kind == kFirst ? heard_first : heard_second; }
  static int calls() { return heard_first.count + heard_second.count + heard_world.count; }
  static ::testing::AssertionResult fails_as(Kind kind, int code) {
    return fails(code, MPI_ERR_TRUNCATE, {kind == kFirst ? "20" : "30", "10"});
  }

  // Checks the result of a call that completed the requests `done`, in the order of its statuses.
  void expect_several(int code, const std::vector<int>& done) {
    int calls_before = calls_so_far_;
    const auto failed = std::find_if(done.begin(), done.end(), [&](int i) { return has_failed(kind(i)); });
    if (failed == done.end()) {
      EXPECT_TRUE(ok(code));
      EXPECT_EQ(calls(), calls_before);
      return;
    }
    EXPECT_TRUE(fails(code, MPI_ERR_IN_STATUS));
    EXPECT_EQ(calls(), calls_before + 1);
    EXPECT_EQ(heard_of(kind(*failed)).code, code) << "expected the first failed request's code";
    calls_so_far_ = calls();
    for (size_t k = 0; k < done.size(); ++k) {
      if (has_failed(kind(done[k])))
        EXPECT_TRUE(fails_as(kind(done[k]), statuses[k].MPI_ERROR)) << "status " << k;
      else
        EXPECT_EQ(statuses[k].MPI_ERROR, MPI_SUCCESS) << "status " << k;
    }
  }
  void expect_one(int code, int index) {
    if (!has_failed(kind(index))) {
      EXPECT_TRUE(ok(code));
    } else {
      EXPECT_TRUE(fails_as(kind(index), code));
      EXPECT_EQ(heard_of(kind(index)).count, 1);
      EXPECT_EQ(heard_of(kind(index)).code, code);
      ++calls_so_far_;
    }
    EXPECT_EQ(calls(), calls_so_far_);
  }
  Kind kind(int index) const { return kinds[static_cast<size_t>(index)]; }

  int calls_so_far_ = 0;
};

// By MPI_Wait* or MPI_Test*, depending on the parameter.
TEST_P(FailedMatches, All) {
  int flag = 0, code = MPI_SUCCESS;
  while (GetParam() % 2 == 1 && !flag && code == MPI_SUCCESS)
    code = MPI_Testall(kCount, all.data(), &flag, statuses.data());
  if (GetParam() % 2 == 0)
    code = MPI_Waitall(kCount, all.data(), statuses.data());
  expect_several(code, {0, 1, 2, 3, 4});
}

TEST_P(FailedMatches, WaitallWithoutStatuses) {
  const int code = MPI_Waitall(kCount, all.data(), MPI_STATUSES_IGNORE);
  EXPECT_TRUE(fails(code, MPI_ERR_IN_STATUS));
  EXPECT_EQ(calls(), 1);
}

TEST_P(FailedMatches, Some) {
  const auto some = GetParam() % 2 == 0 ? MPI_Waitsome : MPI_Testsome;
  for (int total = 0, count = 0; total < kCount; total += count) {
    std::array<int, kCount> indices;
    const int code = some(kCount, all.data(), &count, indices.data(), statuses.data());
    ASSERT_GE(count, 0);
    expect_several(code, {indices.begin(), indices.begin() + count});
  }
}

TEST_P(FailedMatches, Any) {
  for (int i = 0; i < kCount; ++i) {
    int index = -1, flag = 0, code = MPI_SUCCESS;
    while (GetParam() % 2 == 1 && !flag && code == MPI_SUCCESS)
      code = MPI_Testany(kCount, all.data(), &index, &flag, &statuses[0]);
    if (GetParam() % 2 == 0)
      code = MPI_Waitany(kCount, all.data(), &index, &statuses[0]);
    ASSERT_TRUE(index >= 0 && index < kCount);
    expect_one(code, index);
  }
}

TEST_P(FailedMatches, OneByOne) {
  for (int i = 0; i < kCount; ++i) {
    MPI_Request& request = all[static_cast<size_t>(i)];
    int flag = 0, code = MPI_SUCCESS;
    while (GetParam() % 2 == 1 && !flag && code == MPI_SUCCESS)
      code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    if (request != MPI_REQUEST_NULL)
      code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect_one(code, i);
  }
}

INSTANTIATE_TEST_SUITE_P(TurnedBy, FailedMatches, ::testing::Range(0, FailedMatches::kCount));

// Whether the MPI reports that a message from the rank to itself is too long (Open MPI
// 4.1 does not).
bool reports_truncation() {
  int received = 0, sent[2] = {1, 2};
  std::array<MPI_Request, 2> requests;
  MPI_Irecv(&received, 1, MPI_INT, 0, 8, MPI_COMM_SELF, &requests[0]);
  MPI_Isend(sent, 2, MPI_INT, 0, 8, MPI_COMM_SELF, &requests[1]);
  const bool tells = PMPI_Wait(&requests[0], MPI_STATUS_IGNORE) != MPI_SUCCESS;
  PMPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  return tells;
}

// A request of MPI fails in the same call: the statuses have both errors.
TEST(FailedMatch, BesideAFailedReceive) {
  int message[2] = {1, 2};
  std::array<char, 20> memory{};
  Requests requests;
  requests.receive(memory.data(), 10, 0, 1, MPI_COMM_SELF);
  requests.send(memory.data(), 20, 0, 1, MPI_COMM_SELF);
  std::array<MPI_Request, 3> all;
  std::array<MPI_Status, 3> statuses;
  MPI_Irecv(message, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &all[0]);
  ASSERT_TRUE(ok(MPIX_Imatchall(2, requests.data(), &all[1])));
  int long_message[2] = {3, 4};
  MPI_Isend(long_message, 2, MPI_INT, 0, 9, MPI_COMM_SELF, &all[2]);
  EXPECT_TRUE(fails(MPI_Waitall(3, all.data(), statuses.data()), MPI_ERR_IN_STATUS));
  if (reports_truncation()) {
    EXPECT_TRUE(fails(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE));
  }
  // The MPI may return at its own error before the match completes.
  const int code = all[1] == MPI_REQUEST_NULL ? statuses[1].MPI_ERROR : MPI_Wait(&all[1], MPI_STATUS_IGNORE);
  EXPECT_TRUE(fails(code, MPI_ERR_TRUNCATE, {"20", "10"}));
  for (MPI_Request& request : all)
    if (request != MPI_REQUEST_NULL) {
      EXPECT_TRUE(ok(MPI_Wait(&request, MPI_STATUS_IGNORE)));
    }
}

// Requests of several communicators, with the failing pairs at each place: by MPIX_Matchall and by
// one match request.
struct MatchallOverCommunicators : FailedMatches {
  void SetUp() override {
    FailedMatches::SetUp();
    EXPECT_NE(MPI_Waitall(kCount, all.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
    heard_first = heard_second = heard_world = {};
  }
};

TEST_P(MatchallOverCommunicators, ReportsTheFirstFailure) {
  const std::array<Kind, 3> pairs{kFirst, kMatched, kSecond};
  for (const bool by_match_request : {false, true}) {
    heard_first = heard_second = heard_world = {};
    std::array<Kind, 3> order;
    Requests made;
    for (size_t i = 0; i < 3; ++i) {
      order[i] = pairs[(i + static_cast<size_t>(GetParam())) % 3];
      const MPI_Comm communicator = order[i] == kFirst ? first : order[i] == kSecond ? second : MPI_COMM_SELF;
      made.receive(memory.data(), 10, 0, 2, communicator);
      made.send(memory.data(), order[i] == kFirst ? 20 : order[i] == kSecond ? 30 : 10, 0, 2, communicator);
    }
    const Kind told = order[0] == kMatched ? order[1] : order[0];
    int code = MPI_SUCCESS;
    if (by_match_request) {
      MPI_Request match = MPI_REQUEST_NULL;
      ASSERT_TRUE(ok(MPIX_Imatchall(6, made.data(), &match)));
      code = MPI_Wait(&match, MPI_STATUS_IGNORE);
      EXPECT_TRUE(fails_as(told, code));
    } else {
      std::array<MPI_Status, 6> six;
      code = MPIX_Matchall(6, made.data(), six.data());
      EXPECT_TRUE(fails(code, MPI_ERR_IN_STATUS, {"4 of the matches failed"}));
      for (size_t i = 0; i < 6; ++i) {
        int flag = -1;
        EXPECT_TRUE(ok(MPIX_Is_matched(made[static_cast<int>(i)], &flag)));
        EXPECT_EQ(flag, order[i / 2] == kMatched);
        if (order[i / 2] == kMatched)
          EXPECT_EQ(six[i].MPI_ERROR, MPI_SUCCESS);
        else
          EXPECT_TRUE(fails_as(order[i / 2], six[i].MPI_ERROR));
      }
    }
    EXPECT_EQ(heard_of(told).code, code);
    EXPECT_EQ(calls(), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(TurnedBy, MatchallOverCommunicators, ::testing::Range(0, 3));

}  // namespace
}  // namespace lanyard::api_test
