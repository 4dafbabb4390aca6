// Tests of the state before MPI_Init: programs that use little or nothing of Lanyard, wrong
// settings, a missing NIC, and ranks with different NICs. APART in BUILD.bazel has each test's
// environment. Also the main() of all suites.
#include <cstdlib>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

// If set, the program calls MPI_Init and not MPI_Init_thread.
constexpr const char* kPlain = "LANYARD_TEST_PLAIN";
// The longest message of the NICs of odd ranks.
constexpr const char* kOddMaxMessage = "LANYARD_TEST_ODD_MAX_MESSAGE";

// ---- MPI_Init without threads; MPI's persistent requests and communicators work as usual

int last_used_code() {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &found);
  return found ? *static_cast<int*>(value) : -1;
}

// Must run before any other use of Lanyard: until then MPI_LASTUSEDCODE belongs to the program.
TEST(Plain, ErrorClassesAreAddedAtTheirFirstUse) {
  const int before = last_used_code();
  int error_class = -1;
  EXPECT_TRUE(ok(MPI_Error_class(MPI_ERR_TRUNCATE, &error_class)));
  EXPECT_EQ(error_class, MPI_ERR_TRUNCATE);
  EXPECT_EQ(last_used_code(), before);
  const int queue_class = MPIX_ERR_QUEUE;
  EXPECT_GT(queue_class, before);
  const int after = last_used_code();
  EXPECT_GE(after, queue_class);
  EXPECT_EQ(MPIX_ERR_QUEUE, queue_class);
  EXPECT_NE(MPIX_ERR_NIC, queue_class);
  EXPECT_EQ(last_used_code(), after);
}

// Lanyard's own threads never call MPI, so no thread level is needed.
TEST(Plain, MpiInitIsEnough) {
  EXPECT_LT(mpi_suite::process().thread_level, MPI_THREAD_MULTIPLE);
  Stream stream;
  Queue queue(stream);
  verify_exchange(queue, stream, 200);
}

// ---- Wrong settings: the first call names the setting and the reason, and MPI works as usual

// Whether the error names this run's wrong setting.
::testing::AssertionResult fails_for_the_setting(int code) {
  if (std::getenv("LANYARD_DEADLINE") != nullptr)  // an unknown variable
    return fails(code, MPIX_ERR_NIC, {"LANYARD_DEADLINE is not known", "did you mean LANYARD_DEADLINE_S?"});
  return fails(code, MPIX_ERR_NIC, {"LANYARD_SIM_WIRE", "foo", "allowed is"});
}

TEST(Settings, AQueueNamesTheSetting) {
  Stream stream;
  for (int i = 0; i < 2; ++i) {
    MPIX_Queue queue = MPIX_QUEUE_NULL;
    EXPECT_TRUE(fails_for_the_setting(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream.handle())));
    EXPECT_EQ(queue, MPIX_QUEUE_NULL);
  }
}

TEST(Settings, AMatchNamesTheSetting) {
  int sent = 5, received = 0;
  Requests requests;
  requests.receive(&received, 1, partner(), 1, MPI_COMM_WORLD, MPI_INT);
  requests.send(&sent, 1, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  MPI_Request match = MPI_REQUEST_NULL;
  EXPECT_TRUE(fails_for_the_setting(MPIX_Matchall(2, requests.data(), MPI_STATUSES_IGNORE)));
  EXPECT_TRUE(fails_for_the_setting(MPIX_Match(requests.at(0), MPI_STATUS_IGNORE)));
  EXPECT_TRUE(fails_for_the_setting(MPIX_Imatch(requests.at(0), &match)));
  EXPECT_EQ(match, MPI_REQUEST_NULL);
  int flag = -1;
  EXPECT_TRUE(ok(MPIX_Is_matched(requests[0], &flag)));
  EXPECT_EQ(flag, 0);
  // The requests belong to MPI.
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(ok(MPI_Startall(2, requests.data())));
    EXPECT_TRUE(ok(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE)));
  }
  EXPECT_EQ(received, 5);
}

TEST(Settings, StreamsNeedNone) {
  Stream stream;
  int ran = 0;
  stream.launch([&] { ++ran; });
  stream.synchronize();
  EXPECT_EQ(ran, 1);
}

// ---- LANYARD_NIC=cxi without that NIC: MPIX_Queue_init says what to check, and MPI works

TEST(NoCard, AQueueNamesTheMissingNic) {
  Stream stream;
  for (int i = 0; i < 2; ++i) {
    MPIX_Queue queue = MPIX_QUEUE_NULL;
    const int code = MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream.handle());
    EXPECT_TRUE(fails(code, MPIX_ERR_NIC, {"provider \"cxi\"", "fi_info -p cxi"}));
    EXPECT_EQ(queue, MPIX_QUEUE_NULL);
  }
}

// A match of no requests needs no NIC.
TEST(NoCard, AMatchOfNothingCompletes) {
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(0, nullptr, &match)));
  int flag = 0;
  for (int i = 0; i < 1000 && !flag; ++i)
    ASSERT_TRUE(ok(MPI_Test(&match, &flag, MPI_STATUS_IGNORE)));
  EXPECT_TRUE(flag);
  EXPECT_EQ(match, MPI_REQUEST_NULL);
}

TEST(NoCard, ARequestTakesHintsAndRunsByTheMpi) {
  int number = 0;
  Requests requests;
  requests.receive(&number, 1, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_INT);
  EXPECT_TRUE(ok(hint(requests[0], "halo")));
  Facts facts = facts_of(requests[0]);
  EXPECT_EQ(facts["lanyard_route"], "mpi");
  EXPECT_FALSE(facts.contains("lanyard_strategy"));
}

// ---- Two ranks whose NICs differ in their longest message cut a message into the same pieces

TEST(UnlikeCards, CutAMessageAlike) {
  Stream stream;
  Queue queue(stream);
  for (const Mode mode : {Mode::kSend, Mode::kRsend}) {
    Messages pair;
    pair.add(1 << 20, partner(), 1, MPI_COMM_WORLD, mode);
    pair.requests.match();
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, pair.receive(0))));
      stream.synchronize();
      MPI_Barrier(MPI_COMM_WORLD);  // required for ready sends
      pair.fill(stream, i);
      ASSERT_TRUE(ok(MPIX_Enqueue_start(queue, pair.send(0))));
      pair.requests.wait(queue);
      pair.check(stream, i);
    }
    queue.wait();
    EXPECT_EQ(pair.wrong, 0u) << "mode " << static_cast<int>(mode);
  }
  verify_exchange(queue, stream);
}

int rank_before_init() {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const char* const value = std::getenv(name); value != nullptr)
      return std::atoi(value);
  return 0;
}

}  // namespace
}  // namespace lanyard::api_test

int main(int argc, char** argv) {
  using namespace lanyard::api_test;
  const char* const bytes = std::getenv(kOddMaxMessage);
  if (bytes != nullptr && rank_before_init() % 2 == 1)
    setenv("LANYARD_SIM_MAX_MESSAGE", bytes, 1);
  int provided = MPI_THREAD_SINGLE;
  if (std::getenv(kPlain) != nullptr)
    MPI_Init(&argc, &argv);
  else
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  return lanyard::mpi_suite::run_tests(&argc, &argv);
}
