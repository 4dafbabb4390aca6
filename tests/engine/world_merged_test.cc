// Exchanges in the deterministic engine, in orders that a fuzzer finds.
#include <gtest/gtest.h>

#include <string>

#include "nicsim/deterministic/explore.h"
#include "tests/engine/world_search.h"

namespace lanyard::nicsim {
namespace {

struct WorldMerged : ::testing::TestWithParam<const char*> {};

TEST_P(WorldMerged, HasNoFinding) { expect_clean(GetParam(), 2'000); }

// Each send also raises a flag, which takes one more entry.
TEST_P(WorldMerged, HasNoFindingWithFlags) {
  const std::string text = GetParam();
  if (text.find("no-overflow") != std::string::npos)
    return;  // these starts fit only with target counters
  expect_clean(text + ",sender-flag", 500);
}

constexpr const char* kConfigs[] = {
    "2ranks,2req-each-way,3iter,merged",
    "1ranks,2req-each-way,3iter,merged",
    "3ranks,1req-each-way,3iter,merged",
    "2ranks,1req-each-way,2iter,merged,bytes=24,max-message=16,early-acks",
    "2ranks,2req-each-way,2iter,merged,depth=2,stale-reads",
    "2ranks,2req-each-way,2iter,merged,depth=5,blocking-post,frozen-reads,stolen-entries",
    "2ranks,2req-each-way,2iter,merged,gaps,free",
    "2ranks,1req-each-way,3iter,merged,register-bells,age=1000",
    "2ranks,1req-each-way,2iter,merged,mail-by-card",
    "2ranks,2req-each-way,2iter,merged,cxi-driver",
    // Failures of an exchange, of an exchange with one freed member, and of two exchanges.
    "2ranks,2req-each-way,2iter,merged,free,failures,register-bells",
    "2ranks,1req-each-way,2iter,merged,failures,cxi-driver,no-room",
    "3ranks,1req-each-way,2iter,merged,kills,mail-by-card",
    "program=0-1:16t1i1_1-0:16t2j1_0-1:8t3i2_1-0:8t4j2/s0.1r_s2.3r_w2.3r_w0.1r_y_f0_f2_y_f1r.3r_y/"
    "s0r.1_w0r.1_s2r.3_w2r.3_y_f0r.1.2r.3_y,failures",
    // An exchange on one side only; with ready sends; refused parts; requests matched
    // and merged again.
    "program=0-1:16t1i1_1-0:16t2j1/p0_s0.1r_w1r.0_u1_p0_s1r.0_w0.1r_u1_y/s0r_w0r_u0_p1_s1_w1_s0r_p1_s1_w0r.1_u0_y",
    "program=0-1:16t1ri1_1-0:16t2j1_0-1:16t3i1/a0_p0_p2_s0.1r.2_w0.1r.2_u1_a0_p0_p2_s2.0.1r_w0.1r.2_u1_y/"
    "s0r_o0_p1_s1.2r_w0r.1.2r_u0_u2_s0r_o0_p1_s1.2r_w0r.1.2r_u0_u2_y",
    "program=0-1:16t1i1_1-0:16t2j1/p0_s0-_s0.1r_w1r-_w0.1r_u1_p0_s1r-_s1r.0_w0-_w0.1r_u1_y/"
    "s0r_p1_s1_w0r.1_u0_s0r_p1_s1_w0r.1_u0_y",
    "program=0-1:16t1i1j1_1-0:16t2i1j1/m0.1r_x0.1r_p0_s0.1r_w0.1r_u1_f0.1r_m0.1r_x0.1r_p0_s0.1r_w0.1r_u1_y/"
    "m0r.1_x0r.1_p1_s0r.1_w0r.1_u0_f0r.1_m0r.1_x0r.1_p1_s0r.1_w0r.1_u0_y",
    // On another queue after completion; two exchanges of a rank.
    "program=0-1:16t1i1_1-0:16t2j1/s0.1r_w0.1r_q1_s0.1r+_w0.1r_q0_y_q1_y/s0r.1_w0r.1_s0r.1_w0r.1_y",
    "program=0-1:16t1i1j1_1-0:16t2i1j1_0-1:8t3i2j2_1-0:8t4i2j2/s0.1r_s2.3r_w2.3r_w0.1r_s0.1r.2.3r_w0.2.1r.3r_y/"
    "s0r.1.2r.3_w0r.1.2r.3_s2r.3_s0r.1_w0r.1.2r.3_y",
    // Exchanges with two sets.
    "1ranks,2req-each-way,4iter,two-sets",
    "3ranks,1req-each-way,4iter,two-sets",
    "2ranks,2req-one-way,3iter,two-sets",
    "3ranks,1req-one-way,4iter,two-sets,sync",
    "2ranks,1req-each-way,4iter,two-sets,bytes=24,max-message=16,early-acks,torn",
    "2ranks,2req-each-way,3iter,two-sets,depth=5,no-overflow,no-room",
    "2ranks,2req-each-way,3iter,two-sets,depth=6,blocking-post,frozen-reads,stolen-entries",
    "2ranks,2req-each-way,3iter,two-sets,gaps,free",
    "2ranks,1req-each-way,4iter,two-sets,total-bells,sync,scarce",
    "2ranks,1req-each-way,4iter,two-sets,register-bells,age=1000",
    "2ranks,1req-each-way,3iter,two-sets,mail-by-card",
    "2ranks,2req-each-way,3iter,two-sets,cxi-driver",
    "2ranks,2req-each-way,3iter,two-sets,free,failures,register-bells",
    "2ranks,1req-each-way,4iter,two-sets,failures,cxi-driver,no-room",
    "3ranks,1req-each-way,5iter,two-sets,failures,cxi-driver,sync",
    "3ranks,1req-each-way,5iter,two-sets,failures,depth=4",
    "3ranks,1req-each-way,3iter,two-sets,kills,mail-by-card",
    // ... on one side only, which makes two exchanges; a rank that has two sets with one peer only.
    "program=0-1:16t1i1a_1-0:16t2j1a_0-1:16t3i1b_1-0:16t4j1b/p0_s0.1r_w0.1r_u1_p2_s2.3r_w2.3r_u3_p2_s2.3r_w2.3r_u3_y/"
    "p1_s0r.1_w0r.1_u0_p3_s2r.3_w2r.3_u2_p3_s2r.3_w2r.3_u2_y",
    "program=0-1:16t1i1aj1a_1-0:16t2i1aj1a_0-1:16t3i1bj1b_1-0:16t4i1bj1b_0-2:16t5i1a_2-0:16t6j1a_0-2:16t7i1b/"
    "p0_p4_s0.1r.4.5r_w0.1r.4.5r_u1_u5_p2_p6_s2.3r.6_w2.3r.6_u3_p0_p4_s0.1r.4.5r_w0.1r.4.5r_u1_u5_y/"
    "p1_s0r.1_w0r.1_u0_p3_s2r.3_w2r.3_u2_p1_s0r.1_w0r.1_u0_y/p5_s4r.5_w4r.5_u4_s6r_w6r_u6_p5_s4r.5_w4r.5_u4_y",
    // ... started out of turn; with ready sends; matched and merged again; on another queue.
    "program=0-1:16t1i1aj1a_1-0:16t2i1aj1a_0-1:16t3i1bj1b_1-0:16t4i1bj1b/p0_s2.3r-_s0.1r_s2.3r-_w0.1r_u1_s0.1r-_p2_"
    "s2.3r_w2.3r_u3_s2.3r-_y/p1_s0r.1_w0r.1_u0_p3_s2r.3_w2r.3_u2_y",
    "program=0-1:16t1ri1aj1a_1-0:16t2ri1aj1a_0-1:16t3ri1bj1b_1-0:16t4i1bj1b/p0_s0.1r_w0.1r_u1_p2_s2.3r_w2.3r_u3_p0_"
    "s0.1r_w0.1r_u1_y/p1_s0r.1_w0r.1_u0_p3_s2r.3_w2r.3_u2_p1_s0r.1_w0r.1_u0_y",
    "program=0-1:16t1i1aj1a_1-0:16t2i1aj1a_0-1:16t3i1bj1b_1-0:16t4i1bj1b/m0.1r.2.3r_x0.1r.2.3r_p0_s0.1r_w0.1r_u1_p2_"
    "s2.3r_w2.3r_u3_f0.1r.2.3r_m0.1r.2.3r_x0.1r.2.3r_p0_s0.1r_w0.1r_u1_y/m0r.1.2r.3_x0r.1.2r.3_p1_s0r.1_w0r.1_u0_p3_"
    "s2r.3_w2r.3_u2_f0r.1.2r.3_m0r.1.2r.3_x0r.1.2r.3_p1_s0r.1_w0r.1_u0_y",
    "program=0-1:16t1i1aj1a_1-0:16t2i1aj1a_0-1:16t3i1bj1b_1-0:16t4i1bj1b/s0.1r_w0.1r_q1_s2.3r+_w2.3r_q0_s0.1r+_w0.1r_y_"
    "q1_y/s0r.1_w0r.1_s2r.3_w2r.3_s0r.1_w0r.1_y",
};
INSTANTIATE_TEST_SUITE_P(World, WorldMerged, ::testing::ValuesIn(kConfigs));

constexpr const char* kFlagConfigs[] = {
    "2ranks,2req-each-way,2iter,merged,depth=7,no-overflow,no-room,sender-flag",
    "2ranks,2req-each-way,3iter,two-sets,depth=9,no-overflow,no-room,sender-flag",
    "2ranks,2req-each-way,3iter,merged,bytes=40,max-message=16,uneven,early-acks,torn,sender-flag",
    "3ranks,1req-each-way,3iter,merged,sync,failures,sender-flag",
    "2ranks,1req-each-way,4iter,two-sets,sync,failures,sender-flag,bytes=24,max-message=16",
    "3ranks,1req-each-way,3iter,merged,sync,failures,cxi-driver,sender-flag,late-events",
    "3ranks,1req-each-way,3iter,two-sets,sync,kills,sender-flag",
    // A member that has never started fails with its exchange.
    "program=0-1:0t3i1bj1b_1-0:0t7i1bj1b/s1r.0_w1r.0_y/y_s0r.1_w0r.1,age=10,failures,sender-flag",
    // A receiver asks whether the send succeeded before it does what the sender's exchange waits
    // for. The send uses the exchange's word; over the driver each of its operations is confirmed.
    "program=0-1:16t1i1_1-0:16t2j1/p0_s0.1r_w0.1r_u1_p0_s0.1r_w0.1r_u1_y/s0r_w0r_y_u0_p1_s1_w1_s0r_w0r_y_u0_p1_s1_w1_y,"
    "sender-flag",
    "program=0-1:16t1i1_1-0:16t2j1/p0_s0.1r_w0.1r_u1_p0_s0.1r_w0.1r_u1_y/s0r_w0r_y_u0_p1_s1_w1_s0r_w0r_y_u0_p1_s1_w1_y,"
    "sender-flag,cxi-driver,failures,late-events",
};
struct WorldMergedFlags : ::testing::TestWithParam<const char*> {};
TEST_P(WorldMergedFlags, HasNoFinding) { expect_clean(GetParam(), 2'000); }
INSTANTIATE_TEST_SUITE_P(World, WorldMergedFlags, ::testing::ValuesIn(kFlagConfigs));

// The messages of collectives: see tools/lanyard/campaign.cc. At the end all requests are freed.
TEST(WorldCollectives, HaveNoFinding) {
  const std::string program =
      "program=0-1:16i1aj1a_0-2:16t1i1aj1a_1-0:16t2i1aj1a_1-2:16t3i1aj1a_2-0:16t4i1aj1a_2-1:16t5i1aj1a_0-1:16t6i1"
      "bj1b_0-2:16t7i1bj1b_1-0:16t8i1bj1b_1-2:16t9i1bj1b_2-0:16t10i1bj1b_2-1:16t11i1bj1b_0-1:16t12i2j2_0-2:16t13i"
      "2j2_2-0:16t14i3j3_2-1:16t15i3j3/p0_p1_s0.1.2r.4r_w0.1.2r.4r_u2_u4_p12_p13_s12.13_w12.13_s14r_w14r_u14_p6_p"
      "7_s6.7.8r.10r_w6.7.8r.10r_u8_u10_p12_p13_s12.13_w12.13_s14r_w14r_u14_f0.1.2r.4r_f6.7.8r.10r_f12.13_f14r_y/"
      "p2_p3_s2.3.0r.5r_w2.3.0r.5r_u0_u5_s12r_w12r_u12_s15r_w15r_u15_p8_p9_s8.9.6r.11r_w8.9.6r.11r_u6_u11_s12r_w1"
      "2r_u12_s15r_w15r_u15_f2.3.0r.5r_f8.9.6r.11r_f12r_f15r_y/p4_p5_s4.5.1r.3r_w4.5.1r.3r_u1_u3_s13r_w13r_u13_p1"
      "4_p15_s14.15_w14.15_p10_p11_s10.11.7r.9r_w10.11.7r.9r_u7_u9_s13r_w13r_u13_p14_p15_s14.15_w14.15_f4.5.1r.3r"
      "_f10.11.7r.9r_f13r_f14.15_y";
  for (const char* world :
       {"", ",depth=3,stale-reads", ",max-message=8,early-acks,torn,cxi-driver", ",failures,register-bells",
        ",failures,cxi-driver,no-room", ",kills,mail-by-card", ",failures,sender-flag", ",kills,sender-flag"})
    expect_clean(program + world, 1'000);
}

// Every order of the smallest configurations.
struct WorldMergedExplored : ::testing::TestWithParam<const char*> {};
TEST_P(WorldMergedExplored, HasNoFinding) {
  Setting setting(GetParam());
  const Result<Exploration> exploration = explore(setting.world, {.reduced = true});
  ASSERT_TRUE(works(exploration.status()));
  EXPECT_TRUE(exploration.value().report.ok()) << exploration.value().report.text;
  EXPECT_TRUE(exploration.value().complete);
  EXPECT_GT(exploration.value().states, 500u);
}

INSTANTIATE_TEST_SUITE_P(World, WorldMergedExplored,
                         ::testing::Values("2ranks,1req-each-way,1iter,merged",
                                           "2ranks,1req-one-way,2iter,merged,sender-flag",
                                           "2ranks,1req-each-way,2iter,two-sets"));

}  // namespace
}  // namespace lanyard::nicsim
