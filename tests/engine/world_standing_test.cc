// Starts that no host makes, in the deterministic world: captured graphs launched repeatedly, and
// starts by kernels.
#include <gtest/gtest.h>

#include <string>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/fuzz.h"

namespace lanyard::nicsim {
namespace {

Verdict fuzz_text(const std::string& text, uint64_t schedules) {
  const Result<Config> config = Config::parse(text);
  EXPECT_TRUE(config.ok()) << text << ": " << config.status().message();
  return config.ok() ? fuzz(config.value().scenario(), {.schedules = schedules, .world = config.value().world})
                     : Verdict();
}

// The captures begin with counts above 0. Standing requests are freed and matched again.
constexpr char kGraphs[] =
    "program=0-1:24t1_1-0:16t2/p0_s0.1r_w0.1r_u1_y_b_p0_s1r.0_w0.1r_u1_e_l_l_y_f0.1r_m0.1r_x0.1r_b_p0_s0_s1r_w0.1r_u1_"
    "e_l_l_y_f0.1r_y/s0r_p1_s1_w0r.1_u0_y_b_s0r_p1_s1_w0r_u0_w1_e_l_l_y_f0r.1_m0r.1_x0r.1_b_p1_s0r.1_w1_w0r_u0_e_l_l_y_"
    "f0r.1_y";

// Kernels and hosts start requests in turn. A set is made again after its requests were
// freed and matched.
constexpr char kKernels[] =
    "program=0-1:24t1_1-0:16t2/p0_s0.1r_w0.1r_u1_y_d1r.0_p0_k1r.0_v1r.0_u1_p0_k1r.0_v1r.0_u1_y_z1r.0_p0_s0.1r_w0.1r_u1_"
    "y_f0.1r_m0.1r_x0.1r_d0.1r_p0_k0.1r_v0.1r_u1_y/s0r_p1_s1_w0r.1_u0_y_d0r.1_p1_k0r.1_v0r.1_u0_p1_k0r.1_v0r.1_u0_y_"
    "z0r.1_s0r_p1_s1_w0r.1_u0_y_f0r.1_m0r.1_x0r.1_b_p1_s0r.1_w1_w0r_u0_e_l_y_f0r.1";

TEST(WorldStanding, IsCleanOnEveryNic) {
  for (const char* program : {kGraphs, kKernels})
    for (const char* bells : {"", ",register-bells", ",word-bells", ",total-bells"})
      for (const char* strategy : {"", ",sender-flag"})
        for (const char* entries :
             {"", ",depth=3", ",depth=5,stale-reads", ",no-overflow,no-room,stolen-entries", ",max-message=16"}) {
          const std::string text = std::string(program) + bells + strategy + entries;
          const Verdict verdict = fuzz_text(text, 60);
          EXPECT_TRUE(verdict.ok()) << text << "\n" << verdict.report.oracle << ": " << verdict.report.text;
        }
}

TEST(WorldKernels, HostsCannotStartRequestsOfASet) {
  const Verdict verdict = fuzz_text("program=0-1:8/d0_s0-_k0_w0-_v0_s0-_y_z0_s0_w0/s0r_w0r_s0r_w0r", 200);
  EXPECT_TRUE(verdict.ok()) << verdict.report.text;
}

TEST(WorldKernels, ASetInFlightIsNotDismissed) {
  const Verdict verdict = fuzz_text("program=0-1:8/d0_k0_z0/s0r_w0r", 20);
  EXPECT_EQ(verdict.report.finding, Finding::kUser);
  EXPECT_NE(verdict.report.text.find("take from kernels"), std::string::npos) << verdict.report.text;
}

TEST(WorldKernels, AKernelWithoutASetIsAUserError) {
  const Verdict verdict = fuzz_text("program=0-1:8/k0/s0r_w0r", 5);
  EXPECT_EQ(verdict.report.finding, Finding::kUser);
  EXPECT_NE(verdict.report.text.find("which is not the kernels'"), std::string::npos) << verdict.report.text;
}

// After the failure is reported, no launch waits for the request any more, and it can be freed.
TEST(WorldGraphs, ContinueWithoutAFailedRequest) {
  for (const char* strategy : {"", ",sender-flag"}) {
    const std::string text =
        std::string("program=0-1:24t1/b_p0_s0_w0_e_l_l_l_y_f0_y/b_s0r_w0r_u0_e_l_l_l_y_f0r_y,total-bells,failures") +
        strategy;
    const Verdict verdict = fuzz_text(text, 2'000);
    EXPECT_TRUE(verdict.ok()) << text << "\n" << verdict.report.oracle << ": " << verdict.report.text;
  }
}

// The receive has failed and its stream continues, so that entries of the kernels'
// starts fire early.
TEST(WorldKernels, EntriesMayFireEarlyAfterAFailure) {
  const Verdict verdict = fuzz_text(
      "program=1-0:8t1/q1_s0r_w0r_s0r_w0r_s0r_w0r_s0r_w0r_y/s0_w0_c0_d0_k0_v0_y_z0_s0_w0_c0_d0_k0_v0_y,failures",
      5'000);
  EXPECT_TRUE(verdict.ok()) << verdict.report.oracle << ": " << verdict.report.text;
}

// A graph still counts in the request's memory, so the request cannot be freed.
TEST(WorldGraphs, ARequestIsNotFreedUnderItsGraph) {
  const Verdict verdict = fuzz_text("program=0-1:24t1/b_s0_w0_e_l_l_f0/b_s0r_w0r_e_l_l_y_f0r,sender-flag", 200);
  EXPECT_EQ(verdict.report.finding, Finding::kUser);
  EXPECT_NE(verdict.report.text.find("has a graph or a kernel to run yet"), std::string::npos) << verdict.report.text;
}

// Only its graph starts a standing request. A refused start changes nothing.
TEST(WorldGraphs, HostsCannotStartStandingRequests) {
  const Verdict verdict = fuzz_text("program=0-1:8/b_s0_w0_e_s0-_l_w0-_s0-_y_f0/s0r_w0r", 200);
  EXPECT_TRUE(verdict.ok()) << verdict.report.text;
}

TEST(WorldGraphs, ALaunchAfterAFreeIsAUserError) {
  const Verdict verdict = fuzz_text("program=0-1:8/b_s0_w0_e_l_y_f0_l/s0r_w0r", 10);
  EXPECT_EQ(verdict.report.finding, Finding::kUser);
  EXPECT_NE(verdict.report.text.find("which was freed"), std::string::npos) << verdict.report.text;
}

TEST(WorldGraphs, OnlyWholeCapturesAreValid) {
  for (const auto& [program, why] : {
           std::pair{"b_s0_w0", "a capture does not end"},
           {"e", "no capture is under way"},
           {"b_b_e", "a capture is under way"},
           {"l", "nothing was captured"},
           {"b_s0_w0_e_q1_l", "nothing was captured"},
           {"b_s0_e_l", "a start without its wait"},
           {"b_w0_e", "no start of the request was captured"},
           {"b_s0_s0_w0_e", "has no wait"},
           {"b_y_e", "cannot be captured"},
           {"b_s0_w0-_e", "cannot be captured"},
           {"b_q1_s0_w0_q0_e", "cannot be captured"},
       }) {
    const Result<Config> config = Config::parse(std::string("program=0-1:8/") + program + "/s0r_w0r");
    ASSERT_FALSE(config.ok()) << program;
    EXPECT_NE(config.status().message().find(why), std::string::npos) << program << ": " << config.status().message();
  }
  EXPECT_FALSE(Config::parse("word-bells,total-bells").ok());
}

}  // namespace
}  // namespace lanyard::nicsim
