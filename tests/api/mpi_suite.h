// MpiSuite: GoogleTest in an MPI program. Every rank runs every test, in lock step; rank 0 reports,
// the others only their failures. suites_main.cc has the main() of most.
//
// Errors of MPI_COMM_WORLD and MPI_COMM_SELF are returned. A test that fails on one rank fails on
// all. A test that takes longer than patience() is named, with each rank's stack, and ends the job.
#ifndef LANYARD_TESTS_MPI_SUITE_H_
#define LANYARD_TESTS_MPI_SUITE_H_

#include <execinfo.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lanyard::mpi_suite {

// How long one test may take: four minutes, or LANYARD_TEST_PATIENCE_S.
inline std::chrono::seconds patience() {
  const char* const seconds = std::getenv("LANYARD_TEST_PATIENCE_S");
  return std::chrono::seconds(seconds == nullptr ? 240 : std::max(1, std::atoi(seconds)));
}

// Checks to run after MPI_Finalize. Each returns false when something is wrong.
inline std::vector<bool (*)()>& after_finalize() {
  static std::vector<bool (*)()> checks;
  return checks;
}

struct Process {
  int rank = 0;
  int ranks = 1;
  int thread_level = MPI_THREAD_SINGLE;
  std::atomic<const char*> step{""};
};

// MPI has one world a process, and so has the suite.
inline Process& process() {
  static Process the_process;
  return the_process;
}
inline int rank() { return process().rank; }
inline int ranks() { return process().ranks; }
// The other of a pair of ranks; the last of an odd number is its own.
inline int partner() { return (rank() ^ 1) < ranks() ? (rank() ^ 1) : rank(); }
// Says where the running test is, for the watchdog. `what` is a literal.
inline void step(const char* what) { process().step = what; }

// Ends the process when a test takes longer than patience(), because no test can end a deadlock itself.
class Watchdog {
 public:
  Watchdog() : watched_(pthread_self()) {
    void* frames[1];
    backtrace(frames, 1);  // loads what it needs, which a signal handler must not do
    struct sigaction action = {};
    action.sa_handler = print_stack;
    sigaction(SIGUSR2, &action, nullptr);
    thread_ = std::thread([this] { run(); });
  }
  ~Watchdog() {
    watch("");
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Gives `what` patience() from now on. "" ends it.
  void watch(const std::string& what) {
    {
      std::lock_guard lock(mutex_);
      what_ = what;
      step("");
      ++changes_;
    }
    changed_.notify_one();
  }

 private:
  static void print_stack(int) {
    void* frames[32];
    const int count = backtrace(frames, 32);
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
  }

  void run() {
    std::unique_lock lock(mutex_);
    uint64_t seen = 0;
    while (seen == 0 || !what_.empty()) {
      seen = changes_;
      // The system clock: gcc's thread sanitizer does not know the other one's wait.
      if (changed_.wait_until(lock, std::chrono::system_clock::now() + patience(), [&] { return changes_ != seen; }))
        continue;
      if (what_.empty())
        continue;
      std::fprintf(stderr, "[rank %d] %s hangs (last step: \"%s\"). Main thread:\n", rank(), what_.c_str(),
                   process().step.load());
      pthread_kill(watched_, SIGUSR2);
      // The other ranks want to be heard as well.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      _exit(3);
    }
  }

  const pthread_t watched_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  uint64_t changes_ = 0;
  std::thread thread_;
};

// Keeps the ranks in lock step and tells each the others' failures.
class LockStep final : public ::testing::EmptyTestEventListener {
 public:
  LockStep(MPI_Comm communicator, Watchdog& watchdog) : communicator_(communicator), watchdog_(watchdog) {}

  void OnTestStart(const ::testing::TestInfo& test) override {
    watchdog_.watch(std::string(test.test_suite_name()) + "." + test.name());
    MPI_Barrier(communicator_);
  }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (rank() != 0 && result.failed())
      std::fprintf(stderr, "[rank %d] %s:%d: failure\n%s\n", rank(), result.file_name(), result.line_number(),
                   result.message());
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    step("the end of the test, waiting for the other ranks");
    int failed = test.result()->Failed() ? 1 : 0;
    const bool failed_here = failed != 0;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, communicator_);
    if (failed != 0 && !failed_here && rank() == 0)
      ADD_FAILURE() << "on another rank";
  }

 private:
  MPI_Comm communicator_;
  Watchdog& watchdog_;
};

// The tests of an initialised MPI program. The result is the same on every rank.
inline int run_tests(int* argc, char*** argv) {
  MPI_Comm_rank(MPI_COMM_WORLD, &process().rank);
  MPI_Comm_size(MPI_COMM_WORLD, &process().ranks);
  MPI_Query_thread(&process().thread_level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  // By PMPI, so that no test depends on a communicator of the suite's.
  MPI_Comm communicator;
  PMPI_Comm_dup(MPI_COMM_WORLD, &communicator);

  // Files that the tests' runner asks for are rank 0's business.
  if (rank() != 0)
    unsetenv("TEST_PREMATURE_EXIT_FILE");
  ::testing::InitGoogleTest(argc, *argv);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (rank() != 0) {
    GTEST_FLAG_SET(output, "");
    delete listeners.Release(listeners.default_result_printer());
  }
  int result = 0;
  {
    Watchdog watchdog;
    listeners.Append(new LockStep(communicator, watchdog));
    result = RUN_ALL_TESTS();
    watchdog.watch("the end of the program");
    MPI_Allreduce(MPI_IN_PLACE, &result, 1, MPI_INT, MPI_MAX, communicator);
    PMPI_Comm_free(&communicator);
    MPI_Finalize();
  }
  for (const auto check : after_finalize())
    if (!check()) {
      std::fprintf(stderr, "[rank %d] a check after MPI_Finalize failed\n", rank());
      result = 1;
    }
  return result;
}

inline int run(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  return run_tests(argc, argv);
}

}  // namespace lanyard::mpi_suite

#endif  // LANYARD_TESTS_MPI_SUITE_H_
