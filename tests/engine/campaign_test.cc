// Campaigns of `lanyard fuzz`: threads, shares of the schedules, and findings.
#include "tools/lanyard/campaign.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace lanyard::tools {
namespace {

using namespace std::chrono_literals;

nicsim::Config config_of(const char* text) { return nicsim::Config::parse(text).value(); }

void look_away(const Progress&) {}

TEST(Campaign, RunsExactlyTheRequestedSchedules) {
  Progress alone;
  for (const uint32_t jobs : {1u, 3u}) {
    CampaignOptions options;
    options.configs = {config_of("2ranks,1req-one-way,1iter"),
                       config_of("2ranks,1req-each-way,1iter,depth=1"),
                       config_of("1ranks,1req-each-way,2iter,no-room,stale-reads"),
                       config_of("2ranks,1req-one-way,1iter,kills"),
                       config_of("2ranks,1req-one-way,1iter,sender-flag"),
                       config_of("2ranks,1req-one-way,1iter,cxi-driver"),
                       config_of("program=0-1:8/m0_x0_s0_w0_y/m0r_x0r_s0r_w0r_y"),
                       config_of("program=0-1:8/b_s0_w0_e_l_l_y/b_s0r_w0r_e_l_l_y")};
    options.schedules = 2'000;
    options.jobs = jobs;
    Campaign campaign(options);
    const auto found = campaign.run(1s, look_away);
    ASSERT_FALSE(found) << found->report.text;
    const Progress progress = campaign.progress();
    EXPECT_EQ(progress.schedules, 2'000u);
    EXPECT_GT(progress.different_runs, 1'000u);
    EXPECT_LE(progress.different_runs, 2'000u);
    for (const uint64_t steps : progress.coverage.steps)
      EXPECT_GT(steps, 0u);
    // The work does not depend on the number of threads.
    if (jobs == 1)
      alone = progress;
    EXPECT_EQ(progress.steps, alone.steps);
    EXPECT_EQ(progress.different_runs, alone.different_runs);
    EXPECT_EQ(progress.coverage.steps, alone.coverage.steps);
    EXPECT_EQ(progress.coverage.choices, alone.coverage.choices);
  }
}

// Half of the schedules belong to random programs, 64 each.
TEST(Campaign, RandomProgramsComeAfterTheOthers) {
  CampaignOptions options;
  options.configs = {config_of("2ranks,1req-one-way,1iter")};
  options.random_programs = true;
  options.schedules = 2'048;
  Campaign campaign(options);
  const auto found = campaign.run(1s, look_away);
  ASSERT_FALSE(found) << found->config.to_string() << found->report.text;
  EXPECT_EQ(campaign.progress().schedules, 2'048u);
  EXPECT_EQ(campaign.progress().programs, 16u);
}

// Every fourth seed is of one scheduler.
TEST(Canary, IsFoundByEveryScheduler) {
  const nicsim::Config config = config_of(kCanary);
  const nicsim::Scenario scenario = config.scenario();
  nicsim::Fuzzer fuzzer(scenario, config.world);
  for (uint64_t kind = 0; kind < nicsim::kSchedulerKinds; ++kind)
    for (uint64_t seed = kind; seed < uint64_t{20} << 32; seed += uint64_t{1} << 32) {
      uint64_t next = seed;
      while (fuzzer.run(next).ok() && next < seed + nicsim::kSchedulerKinds * kCanarySchedules)
        next += nicsim::kSchedulerKinds;
      EXPECT_EQ(fuzzer.world().report().finding, nicsim::Finding::kDeadlock)
          << nicsim::scheduler_name(nicsim::Fuzzer::scheduler_of(seed)) << ", seed " << seed;
    }
}

TEST(Canary, IsMissedIfNothingIsWrong) { EXPECT_TRUE(watch_canary("2ranks,1req-one-way,1iter", 1).ok()); }

// The code under test crashes. The note goes to stdout, and a death test sees only stderr.
TEST(CrashNoteDeathTest, SaysThatTheCodeUnderTestCrashed) {
  EXPECT_EXIT(
      {
        ::dup2(STDERR_FILENO, STDOUT_FILENO);
        CrashNote::install();
        CrashNote note("lanyard fuzz --config C");
        note.runs(17);
        ::raise(SIGSEGV);
      },
      testing::KilledBySignal(SIGSEGV), "lanyard fuzz --config C --schedules 1 --seed 17  # crashes\n.*with signal 11");
}

}  // namespace
}  // namespace lanyard::tools
