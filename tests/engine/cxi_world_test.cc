// The driver over libfabric (transport/cxi) in the deterministic world: the shipped core and driver
// over a fake libfabric with the CXI provider's rules. Each event waits until the driver reads it.
#include <gtest/gtest.h>

#include "nicsim/deterministic/explore.h"
#include "tests/engine/world_search.h"

namespace lanyard::nicsim {
namespace {

class CxiWorld : public testing::TestWithParam<const char*> {};

TEST_P(CxiWorld, IsCleanUnderEveryScheduler) {
  ASSERT_TRUE(Config::parse(GetParam()).value().world.driver);
  expect_clean_under_every_scheduler(GetParam(), 500, 300);
}

INSTANTIATE_TEST_SUITE_P(
    All, CxiWorld,
    testing::Values(
        "2ranks,2req-each-way,3iter,cxi-driver", "2ranks,2req-each-way,2iter,single-starts,queues=2,cxi-driver",
        "3ranks,1req-each-way,3iter,sync,cxi-driver", "1ranks,1req-each-way,2iter,cxi-driver",
        "2ranks,1req-each-way,2iter,bytes=24,cxi-driver,max-message=16",
        "2ranks,2req-each-way,2iter,sender-flag,cxi-driver,early-acks", "3ranks,1req-each-way,3iter,ready,cxi-driver",
        "2ranks,2req-each-way,2iter,depth=1,sender-flag,cxi-driver,no-room",
        "2ranks,1req-each-way,3iter,sync,sender-flag,cxi-driver,failures,late-events",
        // Few entries: the core overflows. The NIC's last entry is taken by others, or
        // the NIC refuses.
        "2ranks,2req-each-way,2iter,depth=1,cxi-driver", "2ranks,2req-each-way,2iter,depth=3,queues=2,cxi-driver",
        "2ranks,2req-each-way,2iter,depth=5,sender-flag,cxi-driver,no-room",
        "2ranks,2req-each-way,2iter,depth=4,cxi-driver,stale-reads,stolen-entries",
        "2ranks,2req-each-way,2iter,depth=4,cxi-driver,no-room,frozen-reads,stolen-entries",
        "2ranks,2req-each-way,3iter,depth=8,no-overflow,cxi-driver",
        // Failures and dead processes.
        "2ranks,1req-each-way,2iter,cxi-driver,failures", "2ranks,2req-each-way,3iter,sync,cxi-driver,failures",
        "2ranks,2req-each-way,2iter,sender-flag,cxi-driver,early-acks,failures",
        "2ranks,2req-each-way,2iter,depth=3,cxi-driver,failures", "3ranks,1req-each-way,2iter,cxi-driver,kills",
        "3ranks,1req-each-way,2iter,sender-flag,depth=4,cxi-driver,kills",
        // Objects that are freed and made again.
        "2ranks,1req-each-way,2iter,free,cxi-driver",
        "program=0-1:8t1/p0_s0_s0-_q1_w0-_q0_w0_w0-_y/s0r_s0r-_w0r_u0_y,cxi-driver",
        "2ranks,1req-each-way,2iter,cxi-driver,age=1000",
        "program=0-1:16t1_0-1:8t1/m0.1_x0.1_p0_p1_s0.1_w0.1_y_f0.1_m0.1_x0.1_p0_p1_s0.1_w0.1_y_f0.1/"
        "m0r.1r_x0r.1r_s0r.1r_w0r.1r_u0_u1_y_f0r.1r_m0r.1r_x0r.1r_s0r.1r_w0r.1r_u0_u1_y_f0r.1r,cxi-driver",
        "program=0-1:16t1_0-1:16t2/m0_x0_s0_w0_s0_w0_s0_w0_y_f0_m1_x1_s1_w1_y/"
        "m0r_x0r_s0r_w0r_s0r_w0r_s0r_w0r_m1r_x1r_s1r_w1r_y,cxi-driver,failures",
        // A refused operation comes due, and the driver learns of it late because it
        // reads old values.
        "program=0-1:16t1_0-1:16t2/m0.1_x0.1_s0.1_w0.1_s0_w0_s0.1_w0.1_y/"
        "m0r.1r_x0r.1r_s1r.0r_w1r.0r_s0r_w0r_s0r.1r_w0r.1r_y,cxi-driver,failures,stale-reads",
        // Requests are freed and matched again more often than an idle driver closes counters.
        "program=0-1:8t1/p0_s0_w0_f0_m0_x0_p0_s0_w0_f0_m0_x0_p0_s0_w0_f0_m0_x0_p0_s0_w0_y/"
        "s0r_w0r_u0_f0r_m0r_x0r_s0r_w0r_u0_f0r_m0r_x0r_s0r_w0r_u0_f0r_m0r_x0r_s0r_w0r_u0_y,cxi-driver,early-acks",
        // Operations that run at once and fail.
        "2ranks,2req-each-way,2iter,depth=5,cxi-driver,failures,no-room,stolen-entries",
        // Messages of no bytes.
        "2ranks,1req-each-way,2iter,bytes=0,free,cxi-driver,failures,scarce",
        // A receiver dies. Its buffer's key equals the key of the sender's done word.
        "program=2-0:9t1/m0r_x0r_s0r_w0r/y/"
        "m0_x0_s0_w0_y,sender-flag,cxi-driver,max-message=8,scarce,kills"));

TEST(CxiWorldRuns, UnsupportedConfigurationsAreRefused) {
  for (const char* text :
       {"2ranks,1req-each-way,2iter,blocking-post,cxi-driver", "2ranks,1req-each-way,2iter,cxi-driver,total-bells",
        "program=0-1:8t1/b_s0_w0_e_l_y_f0_y/s0r_w0r_y,cxi-driver"}) {
    const Result<Config> config = Config::parse(text);
    EXPECT_EQ(config.status().code(), Code::kInvalidArgument) << text;
  }
  const Config config = Config::parse("2ranks,1req-each-way,1iter,cxi-driver").value();
  EXPECT_EQ(Config::parse(config.to_string()).value().to_string(), config.to_string());
  Setting setting(config.to_string());
  EXPECT_EQ(explore(setting.world, {}).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace lanyard::nicsim
