// MPI's default error handler ends the job. Lanyard must print the reason first, because the MPI
// does not always print it. The dying process is a child, an MPI job of its own.
//
//   api_fatal_test          runs the tests, as one rank
//   api_fatal_test --die N  makes mistake number N and dies of it
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include <lanyard/lanyard.h>

namespace {

// Like a program whose calls of MPI_Init the linker has bound to the MPI.
int die_unseen() {
  PMPI_Init(nullptr, nullptr);
  for (int i = 0; i < 1000; ++i) {
    MPIX_Queue queue = MPIX_QUEUE_NULL;
    MPIX_Host_stream stream = MPIX_HOST_STREAM_NULL;
    MPIX_Queue_wait(queue);
    MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream);
  }
  std::printf("still alive\n");
  PMPI_Finalize();
  return 0;
}

// Calls before MPI_Init and after MPI_Finalize: errors that are reported once per process,
// otherwise harmless.
int call_outside() {
  MPI_Request none = MPI_REQUEST_NULL;
  bool right = true;
  const auto call_often = [&] {
    for (int i = 0; i < 1000; ++i)
      right &= MPIX_Match(&none, MPI_STATUS_IGNORE) == MPI_ERR_OTHER;
    right &= MPIX_Queue_wait(MPIX_QUEUE_NULL) == MPI_ERR_OTHER && MPIX_ERR_QUEUE == MPI_ERR_OTHER;
  };
  call_often();
  MPI_Init(nullptr, nullptr);
  MPIX_Host_stream stream = MPIX_HOST_STREAM_NULL;
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  MPIX_Host_stream_create(&stream);
  MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream);
  right &= MPIX_Queue_free(&queue) == MPI_SUCCESS && MPIX_Host_stream_free(&stream) == MPI_SUCCESS;
  MPI_Finalize();
  call_often();
  std::printf(right ? "still alive\n" : "wrong codes\n");
  return 0;
}

int die_of(int mistake) {
  if (mistake == 3)
    return die_unseen();
  if (mistake == 4)
    return call_outside();
  MPI_Init(nullptr, nullptr);
  int value = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Recv_init(&value, 1, MPI_INT, 0, 77, MPI_COMM_SELF, &request);
  switch (mistake) {
    case 0: MPIX_Queue_wait(MPIX_QUEUE_NULL); break;
    case 1: {
      MPIX_Host_stream stream = MPIX_HOST_STREAM_NULL;
      MPIX_Queue queue = MPIX_QUEUE_NULL;
      MPIX_Host_stream_create(&stream);
      MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream);
      MPIX_Enqueue_start(queue, &request);
      break;
    }
    case 2: {
      MPI_Request match = MPI_REQUEST_NULL;
      MPIX_Imatch(&request, &match);
      MPI_Cancel(&match);
      break;
    }
    default: break;
  }
  std::printf("still alive\n");
  MPI_Finalize();
  return 0;
}

// Runs this program as a job of one process, apart from the launcher. Returns its output and
// its wait status.
std::string run_child(int mistake, int* status) {
  std::array<char, 4096> self{};
  if (readlink("/proc/self/exe", self.data(), self.size() - 1) < 0)
    return "";
  const std::string command =
      "env -u MPI_LOCALNRANKS -u MPI_LOCALRANKID $(env | sed -n "
      "'s/^\\(PMI[A-Z]*_[^=]*\\|OMPI_COMM[^=]*\\|OMPI_MCA_ess[^=]*\\|OMPI_MCA_orte[^=]*\\|"
      "OMPI_UNIVERSE[^=]*\\)=.*/-u \\1/p') '" +
      std::string(self.data()) + "' --die " + std::to_string(mistake) + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr)
    return "";
  std::string text;
  std::array<char, 512> part;
  while (const size_t bytes = fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), bytes);
  *status = pclose(pipe);
  return text;
}

size_t count(const std::string& text, const std::string& words) {
  size_t times = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + words.size()))
    ++times;
  return times;
}

struct Last : ::testing::TestWithParam<std::pair<int, const char*>> {};

TEST_P(Last, WordsNameTheMistake) {
  const auto& [mistake, words] = GetParam();
  int status = 0;
  const std::string text = run_child(mistake, &status);
  EXPECT_EQ(count(text, "lanyard: "), 1u) << text;
  EXPECT_EQ(count(text, "lanyard: rank 0: "), 1u) << text;
  EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_EQ(text.find("still alive"), std::string::npos) << text;
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
}

INSTANTIATE_TEST_SUITE_P(Of, Last,
                         ::testing::Values(std::pair(0, "not a queue of this process"), std::pair(1, "not matched"),
                                           std::pair(2, "cannot be cancelled"),
                                           std::pair(3, "on the link line of the program itself")),
                         [](const auto& info) { return "Mistake" + std::to_string(info.param.first); });

TEST(AChild, WithoutAMistakeLives) {
  int status = 1;
  EXPECT_EQ(run_child(99, &status), "still alive\n");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(AChild, ThatCallsOutsideOfInitAndFinalizeGetsOneMessage) {
  int status = 1;
  const std::string text = run_child(4, &status);
  EXPECT_EQ(count(text, "lanyard: "), 1u) << text;
  EXPECT_EQ(count(text, "not initialised, or is finalised"), 1u) << text;
  EXPECT_EQ(count(text, "still alive"), 1u) << text;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], "--die") == 0)
    return die_of(std::atoi(argv[2]));
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  // The launcher expects this process to be a rank.
  MPI_Init(&argc, &argv);
  MPI_Finalize();
  return result;
}
