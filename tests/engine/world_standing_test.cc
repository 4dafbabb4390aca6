// Starts that no host makes, in the deterministic world: captured graphs launched repeatedly, and
// starts by kernels.
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/world_search.h"

namespace lanyard::nicsim {
namespace {

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
             {"", ",depth=3", ",depth=5,stale-reads", ",no-overflow,no-room,stolen-entries", ",max-message=16"})
          expect_clean(std::string(program) + bells + strategy + entries, 60);
}

TEST(WorldKernels, HostsCannotStartRequestsOfASet) {
  expect_clean("program=0-1:8/d0_s0-_k0_w0-_v0_s0-_y_z0_s0_w0/s0r_w0r_s0r_w0r", 200);
}

TEST(WorldKernels, ASetInFlightIsNotDismissed) {
  expect_user_error("program=0-1:8/d0_k0_z0/s0r_w0r", 20, "take from kernels");
}

TEST(WorldKernels, AKernelWithoutASetIsAUserError) {
  expect_user_error("program=0-1:8/k0/s0r_w0r", 5, "which is not the kernels'");
}

// After the failure is reported, no launch waits for the request any more, and it can be freed.
TEST(WorldGraphs, ContinueWithoutAFailedRequest) {
  for (const char* strategy : {"", ",sender-flag"})
    expect_clean(
        std::string("program=0-1:24t1/b_p0_s0_w0_e_l_l_l_y_f0_y/b_s0r_w0r_u0_e_l_l_l_y_f0r_y,total-bells,failures") +
            strategy,
        2'000);
}

// The receive has failed and its stream continues, so that entries of the kernels'
// starts fire early.
TEST(WorldKernels, EntriesMayFireEarlyAfterAFailure) {
  expect_clean(
      "program=1-0:8t1/q1_s0r_w0r_s0r_w0r_s0r_w0r_s0r_w0r_y/s0_w0_c0_d0_k0_v0_y_z0_s0_w0_c0_d0_k0_v0_y,failures",
      5'000);
}

// A graph still counts in the request's memory, so the request cannot be freed.
TEST(WorldGraphs, ARequestIsNotFreedUnderItsGraph) {
  expect_user_error("program=0-1:24t1/b_s0_w0_e_l_l_f0/b_s0r_w0r_e_l_l_y_f0r,sender-flag", 200,
                    "has a graph or a kernel to run yet");
}

// Only its graph starts a standing request. A refused start changes nothing.
TEST(WorldGraphs, HostsCannotStartStandingRequests) {
  expect_clean("program=0-1:8/b_s0_w0_e_s0-_l_w0-_s0-_y_f0/s0r_w0r", 200);
}

TEST(WorldGraphs, ALaunchAfterAFreeIsAUserError) {
  expect_user_error("program=0-1:8/b_s0_w0_e_l_y_f0_l/s0r_w0r", 10, "which was freed");
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
    EXPECT_TRUE(has(config.status(), why)) << program;
  }
  EXPECT_FALSE(Config::parse("word-bells,total-bells").ok());
}

}  // namespace
}  // namespace lanyard::nicsim
