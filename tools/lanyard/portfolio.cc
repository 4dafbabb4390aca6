#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nicsim/deterministic/scenario.h"
#include "tools/lanyard/campaign.h"

namespace lanyard::tools {

namespace {

// The collectives of api/collective.h on three processes, twice: an allgather with two sets of
// messages in turn, a broadcast from the first rank, and one from the last.
constexpr char kCollectives[] =
    "program=0-1:16i1aj1a_0-2:16t1i1aj1a_1-0:16t2i1aj1a_1-2:16t3i1aj1a_2-0:16t4i1aj1a_2-1:16t5i1aj1a_0-1:16t6i1bj"
    "1b_0-2:16t7i1bj1b_1-0:16t8i1bj1b_1-2:16t9i1bj1b_2-0:16t10i1bj1b_2-1:16t11i1bj1b_0-1:16t12i2j2_0-2:16t13i2j2_"
    "2-0:16t14i3j3_2-1:16t15i3j3/p0_p1_s0.1.2r.4r_w0.1.2r.4r_u2_u4_p12_p13_s12.13_w12.13_s14r_w14r_u14_p6_p7_s6.7"
    ".8r.10r_w6.7.8r.10r_u8_u10_p12_p13_s12.13_w12.13_s14r_w14r_u14_y/p2_p3_s2.3.0r.5r_w2.3.0r.5r_u0_u5_s12r_w12r"
    "_u12_s15r_w15r_u15_p8_p9_s8.9.6r.11r_w8.9.6r.11r_u6_u11_s12r_w12r_u12_s15r_w15r_u15_y/p4_p5_s4.5.1r.3r_w4.5."
    "1r.3r_u1_u3_s13r_w13r_u13_p14_p15_s14.15_w14.15_p10_p11_s10.11.7r.9r_w10.11.7r.9r_u7_u9_s13r_w13r_u13_p14_p1"
    "5_s14.15_w14.15_y";

// Starts `count` messages together and receives them one after another, the last one
// first. So the entries needed first are at the end of an overflow with more operations
// than are looked at together.
nicsim::Config last_first(uint32_t count) {
  nicsim::Scenario scenario(2);
  std::vector<nicsim::RequestName> sends;
  std::vector<nicsim::MessageName> messages;
  for (uint32_t i = 0; i < count; ++i) {
    messages.push_back(scenario.message(0, 1, {.bytes = 8, .tag = static_cast<int>(i)}));
    sends.push_back(messages.back().send);
  }
  scenario.rank(0).start(sends).wait(sends).sync();
  for (; !messages.empty(); messages.pop_back())
    scenario.rank(1).start({messages.back().receive}).wait({messages.back().receive}).sync();
  nicsim::Config config;
  config.world.depth = 4;
  config.program = std::make_shared<const nicsim::Scenario>(std::move(scenario));
  return config;
}

}  // namespace

std::vector<nicsim::Config> portfolio() {
  // Small configurations: their schedules are short, and few messages and iterations
  // suffice to show mistakes.
  static constexpr const char* kTexts[] = {
      "2ranks,1req-one-way,2iter",
      "2ranks,1req-each-way,3iter",
      "2ranks,2req-each-way,2iter",
      "2ranks,1req-each-way,3iter,ready",
      "2ranks,3req-each-way,2iter,queues=2",
      "2ranks,2req-each-way,2iter,single-starts,sync",
      "2ranks,2req-each-way,2iter,sends-first,depth=1",
      "2ranks,1req-each-way,3iter,depth=2",
      "2ranks,2req-each-way,2iter,single-starts,depth=3",
      "2ranks,2req-each-way,2iter,queues=2,depth=5",
      "2ranks,2req-each-way,2iter,ready,depth=8",
      // A start has 8 entries: one start fits, and the next one waits.
      "2ranks,2req-each-way,3iter,depth=8,no-overflow,no-room",
      // With 5 entries both hosts can block for ever; 6 are enough.
      "2ranks,2req-each-way,2iter,sends-first,depth=6,blocking-post",
      "2ranks,1req-each-way,2iter,bytes=100,max-message=40",
      "2ranks,1req-each-way,2iter,bytes=0",
      "1ranks,2req-each-way,2iter",
      "3ranks,1req-each-way,2iter,depth=4",
      "4ranks,1req-each-way,1iter,neighbours=2",
      "2ranks,2req-each-way,3iter,failures",
      "2ranks,2req-each-way,2iter,depth=3,no-room,stale-reads",
      "2ranks,2req-each-way,2iter,depth=4,frozen-reads,stolen-entries",
      "2ranks,2req-each-way,3iter,depth=10,no-overflow,stolen-entries",
      "3ranks,1req-each-way,3iter,kills,depth=4",
      "2ranks,2req-each-way,2iter,early-acks",
      "2ranks,2req-each-way,2iter,sender-flag,early-acks",
      "2ranks,1req-each-way,3iter,sender-flag,early-acks,ready,depth=4",
      "2ranks,1req-each-way,2iter,sender-flag,early-acks,bytes=100,max-message=40,failures,free",
      "3ranks,1req-each-way,2iter,sender-flag,early-acks,kills,free",
      "2ranks,1req-each-way,2iter,sender-flag,depth=1,free",
      "2ranks,1req-each-way,2iter,sender-flag,depth=2,free,stale-reads",
      "2ranks,2req-each-way,3iter,cxi-driver",
      "2ranks,2req-each-way,2iter,depth=3,sender-flag,cxi-driver,early-acks,no-room,stolen-entries",
      "2ranks,1req-each-way,2iter,cxi-driver,failures,free",
      "2ranks,1req-each-way,2iter,free,mail-by-card",
      "3ranks,1req-one-way,1iter,early-acks,in-flight=2,mail-by-card",
      "3ranks,1req-each-way,1iter,kills,mail-by-card",
      "2ranks,2req-each-way,2iter,depth=5,cxi-driver,failures,no-room,stolen-entries",
      "2ranks,1req-each-way,2iter,sync,cxi-driver,failures,late-events",
      "2ranks,1req-each-way,2iter,bytes=0,cxi-driver,failures,free",
      "3ranks,1req-each-way,2iter,sender-flag,cxi-driver,early-acks,kills",
      "2ranks,2req-each-way,3iter,two-sets",
      "3ranks,1req-each-way,4iter,depth=3,stale-reads,two-sets",
      "3ranks,1req-each-way,3iter,cxi-driver,failures,two-sets",
  };
  std::vector<nicsim::Config> configs;
  for (const char* text : kTexts)
    configs.push_back(nicsim::Config::parse(text).value());
  for (const char* world : {"", ",depth=3,sender-flag,early-acks,torn", ",cxi-driver,failures"})
    configs.push_back(nicsim::Config::parse(std::string(kCollectives) + world).value());
  configs.push_back(last_first(140));
  return configs;
}

}  // namespace lanyard::tools
