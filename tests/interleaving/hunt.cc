#include "tests/interleaving/hunt.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "transport/base/check.h"

namespace lanyard::interleaving {

namespace {

constexpr unsigned kLongestHunt = 300;  // seconds

// What the child has found so far, in memory of both processes.
struct Slate {
  uint64_t seed = 0;
  uint64_t schedules = 0;
  uint64_t steps = 0;
  char fault[1024] = {};
  char tail[16 * 1024] = {};
};

template <size_t kBytes>
void write_down(char (&to)[kBytes], const std::string& text) {
  const size_t bytes = std::min(text.size(), kBytes - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = 0;
}

Rules rules_of(const Prey& prey) {
  Rules rules;
  rules.naps = prey.workload->naps;
  return rules;
}

void run_all(const Prey& prey, Slate& slate) {
  Scheduler scheduler;
  for (uint64_t i = 0; i < prey.schedules; ++i) {
    slate.seed = prey.seed + i;
    ++slate.schedules;
    const Outcome outcome = scheduler.run(slate.seed, rules_of(prey), prey.workload->run);
    slate.steps += outcome.steps;
    if (outcome.fault.empty())
      continue;
    write_down(slate.tail, outcome.tail);
    write_down(slate.fault, outcome.fault);
    return;
  }
}

std::string word_of(const Prey& prey, uint64_t seed) {
  char text[64];
  std::snprintf(text, sizeof text, ":%llx", static_cast<unsigned long long>(seed));
  return prey.workload->name + std::string(text);
}

}  // namespace

Find hunt(const Prey& prey) {
  void* memory = ::mmap(nullptr, sizeof(Slate), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  LANYARD_CHECK(memory != MAP_FAILED, "memory for a slate");
  auto* slate = new (memory) Slate;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  LANYARD_CHECK(child >= 0, "a child process");
  if (child == 0) {
    ::alarm(kLongestHunt);
    run_all(prey, *slate);
    ::_exit(0);
  }
  int status = 0;
  LANYARD_CHECK(::waitpid(child, &status, 0) == child, "the child's end");
  Find find{.fault = slate->fault,
            .tail = slate->tail,
            .word = word_of(prey, slate->seed),
            .schedules = slate->schedules,
            .steps = slate->steps};
  if (WIFSIGNALED(status))
    find.fault = std::string("the process ends: ") + ::strsignal(WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    find.fault = "the process exits";
  ::munmap(memory, sizeof(Slate));
  return find;
}

Outcome replay(const Prey& prey, bool tells) {
  Scheduler scheduler;
  Rules rules = rules_of(prey);
  rules.tells = tells;
  return scheduler.run(prey.seed, rules, prey.workload->run);
}

bool parse(const std::string& word, Prey& prey) {
  const size_t colon = word.find(':');
  if (colon == std::string::npos)
    return false;
  unsigned long long seed = 0;
  prey.workload = find_workload(word.substr(0, colon));
  const int read = std::sscanf(word.c_str() + colon, ":%llx", &seed);
  prey.seed = seed;
  return prey.workload != nullptr && read == 1;
}

}  // namespace lanyard::interleaving
