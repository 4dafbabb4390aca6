// LANYARD_NIC=cxi on a machine without that card: a queue says so and what to look at, and MPI goes on.
#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

TEST(NoCard, AQueueSaysWhatIsMissing) {
  Stream stream;
  for (int i = 0; i < 2; ++i) {
    MPIX_Queue queue = MPIX_QUEUE_NULL;
    const int code = MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream.handle());
    EXPECT_TRUE(fails(code, MPIX_ERR_NIC, {"provider \"cxi\"", "fi_info -p cxi"}));
    EXPECT_EQ(queue, MPIX_QUEUE_NULL);
  }
}

// There is nothing in it that would need one.
TEST(NoCard, AMatchOfNothingCompletes) {
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatchall(0, nullptr, &match)));
  int flag = 0;
  for (int i = 0; i < 1000 && !flag; ++i)
    ASSERT_TRUE(ok(MPI_Test(&match, &flag, MPI_STATUS_IGNORE)));
  EXPECT_TRUE(flag);
  EXPECT_EQ(match, MPI_REQUEST_NULL);
}

TEST(NoCard, ARequestTakesHintsAndGoesByTheMpi) {
  int number = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPI_Recv_init(&number, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request)));
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "lanyard_exchange", "halo");
  EXPECT_TRUE(ok(MPIX_Request_set_info(request, info)));
  MPI_Info_free(&info);
  ASSERT_TRUE(ok(MPIX_Request_get_info(request, &info)));
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  MPI_Info_get(info, "lanyard_route", MPI_MAX_INFO_VAL, value, &found);
  EXPECT_TRUE(found && std::string(value) == "mpi");
  MPI_Info_get(info, "lanyard_strategy", MPI_MAX_INFO_VAL, value, &found);
  EXPECT_FALSE(found);
  MPI_Info_free(&info);
  EXPECT_TRUE(ok(MPI_Request_free(&request)));
}

}  // namespace
}  // namespace lanyard::api_test
