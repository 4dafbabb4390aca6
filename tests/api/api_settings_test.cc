// Settings that make no sense: Lanyard says which and why where it is first used, and MPI works as
// if it were not there.
//
//   api_settings_test NAME=VALUE    the value is wrong; or the name is, LANYARD_DEADLINE
#include <cstdlib>
#include <string>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

std::string name, value;

// The facts of the message on this rank.
::testing::AssertionResult fails_for_the_setting(int code) {
  if (name == "LANYARD_DEADLINE")
    return fails(code, MPIX_ERR_NIC, {"LANYARD_DEADLINE is not known", "did you mean LANYARD_DEADLINE_S?"});
  return fails(code, MPIX_ERR_NIC, {name, value, "allowed is"});
}

TEST(Settings, AQueueSaysWhatIsWrong) {
  Stream stream;
  for (int i = 0; i < 2; ++i) {
    MPIX_Queue queue = MPIX_QUEUE_NULL;
    EXPECT_TRUE(fails_for_the_setting(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream.handle())));
    EXPECT_EQ(queue, MPIX_QUEUE_NULL);
  }
}

TEST(Settings, AMatchSaysWhatIsWrong) {
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
  // The requests are MPI's.
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

}  // namespace
}  // namespace lanyard::api_test

int main(int argc, char** argv) {
  using namespace lanyard::api_test;
  const std::string setting = argc > 1 && argv[1][0] != '-' ? argv[1] : "LANYARD_SIM_WIRE=foo";
  name = setting.substr(0, setting.find('='));
  value = setting.substr(setting.find('=') + 1);
  setenv(name.c_str(), value.c_str(), 1);
  return lanyard::mpi_suite::run(&argc, &argv);
}
