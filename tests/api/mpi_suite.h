// MpiSuite: GoogleTest in an MPI program. Every rank runs every test, in lock step. Rank 0 reports;
// the others print only their failures. suites_main.cc has the main() of most programs.
//
// Errors on MPI_COMM_WORLD and MPI_COMM_SELF are returned. A test that fails on one rank fails on
// all. If a test takes longer than patience(), the watchdog prints its name and each rank's stack
// and ends the job.
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

// The longest time that one test may take: four minutes, or LANYARD_TEST_PATIENCE_S.
inline std::chrono::seconds patience() {
  const char* const seconds = std::getenv("LANYARD_TEST_PATIENCE_S");
  return std::chrono::seconds(seconds == nullptr ? 240 : std::max(1, std::atoi(seconds)));
}

// Checks to run after MPI_Finalize. Each returns false on failure.
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

// One per process, like MPI_COMM_WORLD.
inline Process& process() {
  static Process the_process;
  return the_process;
}
#define NEEDS_THREADS()                                        \
  if (mpi_suite::process().thread_level < MPI_THREAD_MULTIPLE) \
  GTEST_SKIP() << "the MPI has no MPI_THREAD_MULTIPLE"
inline int rank() { return process().rank; }
inline int ranks() { return process().ranks; }
// The other rank of a pair. With an odd number of ranks, the last is its own partner.
inline int partner() { return (rank() ^ 1) < ranks() ? (rank() ^ 1) : rank(); }
// Tells the watchdog the running test's step. `what` must be a literal.
inline void step(const char* what) { process().step = what; }

// Ends the process when a test takes longer than patience(): a test cannot end a deadlock itself.
class Watchdog {
 public:
  Watchdog() : watched_(pthread_self()) {
    void* frames[1];
    backtrace(frames, 1);  // loads libgcc now, which a signal handler must not do
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

  // Starts a new period of patience() for `what`. "" stops the watchdog.
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
      // Uses the system clock, because gcc's thread sanitizer does not support waits on
      // the steady clock.
      if (changed_.wait_until(lock, std::chrono::system_clock::now() + patience(), [&] { return changes_ != seen; }))
        continue;
      if (what_.empty())
        continue;
      std::fprintf(stderr, "[rank %d] %s hangs (last step: \"%s\"). Main thread:\n", rank(), what_.c_str(),
                   process().step.load());
      pthread_kill(watched_, SIGUSR2);
      // Lets the other ranks report too.
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

// Keeps the ranks in lock step and reports a failure of one rank on all.
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
      ADD_FAILURE() << "the test failed on another rank";
  }

 private:
  MPI_Comm communicator_;
  Watchdog& watchdog_;
};

// Runs the tests of an initialized MPI program. The result is the same on every rank.
inline int run_tests(int* argc, char*** argv) {
  MPI_Comm_rank(MPI_COMM_WORLD, &process().rank);
  MPI_Comm_size(MPI_COMM_WORLD, &process().ranks);
  MPI_Query_thread(&process().thread_level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  // Uses PMPI, so that Lanyard does not see the suite's communicator.
  MPI_Comm communicator;
  PMPI_Comm_dup(MPI_COMM_WORLD, &communicator);

  // Only rank 0 writes the files that the test runner requests.
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
