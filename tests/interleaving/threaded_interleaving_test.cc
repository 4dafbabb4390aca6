// ThreadedNic and its shared-memory wire in orders that seeds choose: no thread sleeps while
// there is work, nothing is lost or done twice, and one thread at a time drives. README.md says how
// to print a schedule.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/interleaving/pair.h"
#include "tests/interleaving/scheduler.h"
#include "transport/base/check.h"

namespace lanyard::interleaving {
namespace {

constexpr uint64_t kSchedules = 4'000;  // per workload
constexpr unsigned kLongestHunt = 300;  // seconds

struct Workload {
  const char* name;
  // May need a nap of the NIC's own thread: doorbell words, and work that is due when posted, wake
  // no thread.
  bool naps;
  void (*run)();  // the first thread of a schedule
};

constexpr Workload kWorkloads[] = {
    {"posting", false, programs::posting},
    {"doorbell_words", true, programs::doorbell_words},
    {"arming_while_attending", true, programs::arming_while_attending},
    {"ringing", false, programs::ringing},
    {"full_ring", false, programs::full_ring},
    {"releasing", false, programs::releasing},
    {"listening", false, programs::listening},
    {"deregistering", true, programs::deregistering},
    {"canceling", false, programs::canceling},
    {"waiting", false, programs::waiting},
    {"full_inboxes", false, programs::full_inboxes},
    {"long_messages", true, programs::long_messages},
    {"due_when_posted", true, programs::due_when_posted},
    {"handing_over", false, programs::handing_over},
    {"going_to_sleep", false, programs::going_to_sleep},
    {"lanes_in_chunks", false, programs::lanes_in_chunks},
    {"lanes_waited_for_in_turn", false, programs::lanes_waited_for_in_turn},
};

// Result of running schedules with rising seeds, up to the first fault.
struct Find {
  uint64_t seed = 0;  // the last one run
  uint64_t schedules = 0;
  uint64_t steps = 0;
  char fault[1024] = {};  // empty: no fault
};

void write_down(char (&to)[1024], const std::string& text) { std::snprintf(to, sizeof to, "%s", text.c_str()); }

Outcome run(const Workload& workload, uint64_t seed, bool tells = false) {
  return Scheduler().run(seed, {.naps = workload.naps, .tells = tells}, workload.run);
}

// Runs in a child process: a fault may end it, and its leaked fibers go with it.
Find hunt(const Workload& workload, uint64_t first_seed) {
  void* memory = ::mmap(nullptr, sizeof(Find), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  LANYARD_CHECK(memory != MAP_FAILED, "no memory to share with the child process");
  auto* shared = new (memory) Find;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  LANYARD_CHECK(child >= 0, "fork() failed");
  if (child == 0) {
    ::alarm(kLongestHunt);
    Scheduler scheduler;
    while (shared->schedules < kSchedules && shared->fault[0] == 0) {
      shared->seed = first_seed + shared->schedules++;
      const Outcome outcome = scheduler.run(shared->seed, {.naps = workload.naps}, workload.run);
      shared->steps += outcome.steps;
      write_down(shared->fault, outcome.fault);
    }
    ::_exit(0);
  }
  int status = 0;
  LANYARD_CHECK(::waitpid(child, &status, 0) == child, "waitpid() failed for the child process");
  Find find = *shared;
  ::munmap(memory, sizeof(Find));
  if (WIFSIGNALED(status))
    write_down(find.fault, std::string("a signal ends the child process: ") + ::strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status) != 0)
    write_down(find.fault, "the child process exits with status " + std::to_string(WEXITSTATUS(status)));
  return find;
}

class Workloads : public ::testing::TestWithParam<Workload> {};
INSTANTIATE_TEST_SUITE_P(Interleaving, Workloads, ::testing::ValuesIn(kWorkloads),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Workloads, HaveNoFault) {
  const char* text = std::getenv("LANYARD_INTERLEAVING_SEED");
  const uint64_t seed = text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
  if (std::getenv("LANYARD_INTERLEAVING_STEPS") != nullptr) {
    EXPECT_EQ(run(GetParam(), seed, true).fault, "");
    return;
  }
  const Find find = hunt(GetParam(), seed);
  EXPECT_STREQ(find.fault, "") << "seed " << find.seed;
  std::printf("seeds %llu to %llu, %llu steps each\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(find.seed), static_cast<unsigned long long>(find.steps / find.schedules));
}

TEST_P(Workloads, RunAgainAsTheyRan) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Outcome first = run(GetParam(), seed), second = run(GetParam(), seed);
    EXPECT_EQ(first.hash, second.hash) << GetParam().name << ", seed " << seed;
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_NE(first.hash, run(GetParam(), seed + 20).hash);
  }
}

}  // namespace
}  // namespace lanyard::interleaving
