// Wild calls of every function of the simulated libfabric provider: an error, never a crash, a leak, a hang, or an
// object that cannot be closed any more.
//
// Each seed is a process of its own, with settings of its own. LANYARD_FI_FUZZ_SEED=n runs that seed alone and
// prints its calls, LANYARD_FI_FUZZ_SECONDS=n new seeds for so long; without either it is a fixed list of them.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "tests/fi_fuzz_history.h"
#include "tests/fi_fuzz_world.h"

namespace lanyard {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr uint64_t kSeeds = 24;
constexpr int kCalls = 600;
// A flush alone waits for seconds where a peer never answers.
constexpr seconds kPatience{120};

uint64_t variable(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void draw_settings(uint64_t seed) {
  const auto choose = [&seed](const char* name, const char* first, const char* second) {
    ::setenv(name, seed % 2 == 0 ? first : second, 1);
    seed /= 2;
  };
  choose("LANYARD_SIM_WIRE", "shm", "tcp");
  choose("LANYARD_FI_POOL", "stall", "enospc");
  // To wait for a counter's word while the queue stalls is what `fresh` is for: this process would wait for itself.
  const bool stalls = std::string(std::getenv("LANYARD_FI_POOL")) == "stall";
  choose("LANYARD_FI_CNTR_READ", "cached", stalls ? "cached" : "fresh");
  choose("LANYARD_FI_MMIO", "refused", "trap");
  choose("LANYARD_FI_VISIBILITY", "ordered", "late");
  choose("LANYARD_FI_DWQ_DEPTH", "504", "8");
  choose("LANYARD_FI_HMEM", "refused", "accepted");
  choose("LANYARD_FI_TIES", "oldest", "newest");
  choose("LANYARD_FI_FAILURES", "trigger", "ignored");
  choose("LANYARD_FI_AMO_CNTRS", "optional", "required");
  choose("LANYARD_SIM_CMA", "on", "off");
  if (seed % 4 == 0)
    ::setenv("LANYARD_FI_SHARED_DEPTH", "16", 1);
  ::setenv("LANYARD_SIM_MAX_MESSAGE", std::to_string(FuzzWorld::kMaxMessage).c_str(), 1);
}

// As good as new: a write is counted and arrives.
void expect_alive() {
  Loner node;
  uint64_t from = 7, to = 0;
  const auto trigger = node.counter(), completion = node.counter();
  const auto region = node.region(&to, sizeof to);
  ASSERT_EQ(defer_write(node, &from, sizeof from, {0, fi_mr_key(region.get())}, {trigger.get(), 1, completion.get()}),
            0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return successes(completion) == 1; }));
  EXPECT_EQ(to, 7u);
}

[[noreturn]] void run_child(uint64_t seed, History& history) {
  draw_settings(seed * 0x9e3779b97f4a7c15 >> 20);
  {
    FuzzWorld world(seed, history);
    open_world(world);
    for (int call = 0; call < kCalls && !testing::Test::HasFailure(); ++call)
      make_wild_call(world);
    world.close_all();
  }
  history.begin("expect_alive()");
  expect_alive();
  history.begin("exit()");
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

// Nothing where it ended well, else what happened.
std::string run_seed(uint64_t seed, History& history) {
  history.clear();
  const pid_t child = ::fork();
  if (child == 0)
    run_child(seed, history);
  const steady_clock::time_point end = steady_clock::now() + kPatience;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (steady_clock::now() < end) {
      ::usleep(1000);
      continue;
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return "hangs";
  }
  if (WIFSIGNALED(status))
    return "dies of signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "exits with " + std::to_string(WEXITSTATUS(status));
}

TEST(FiFuzz, NoCallCrashesHangsOrLeaks) {
  use_provider();
  const uint64_t first = variable("LANYARD_FI_FUZZ_SEED", 0);
  const uint64_t limit = variable("LANYARD_FI_FUZZ_SECONDS", 0);
  const uint64_t seeds = limit > 0 ? UINT64_MAX - first : std::getenv("LANYARD_FI_FUZZ_SEED") != nullptr ? 1 : kSeeds;
  const steady_clock::time_point end = steady_clock::now() + seconds(limit);
  History history;
  uint64_t calls = 0, done = 0;
  for (; done < seeds && (limit == 0 || steady_clock::now() < end); ++done) {
    const std::string what = run_seed(first + done, history);
    EXPECT_EQ(what, "") << "seed " << first + done << ", last calls:\n" << history.text();
    calls += history.count();
    if (!what.empty())
      break;
  }
  if (seeds == 1)
    std::printf("%s", history.text().c_str());
  RecordProperty("seeds", std::to_string(done));
  std::printf("%llu seeds, %llu calls\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(calls));
}

}  // namespace
}  // namespace lanyard
