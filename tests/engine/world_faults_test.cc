// Faults of the deterministic world that concern more than one operation.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/world_search.h"

namespace lanyard::nicsim {
namespace {

// Always runs the first agent. Lets one kind of fault occur at every chance, or at one of them.
class FaultChooser final : public Chooser {
 public:
  static constexpr uint64_t kAlways = UINT64_MAX;
  explicit FaultChooser(ChoiceKind kind, uint64_t which = kAlways) : kind_(kind), which_(which) {}
  uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) override {
    if (agents != nullptr)
      return static_cast<uint32_t>(std::min_element(agents, agents + n) - agents);
    if (kind != kind_)
      return 0;
    const uint64_t asked = asked_++;
    return which_ == kAlways || which_ == asked ? 1 : 0;
  }
  // Whether the one chance has come.
  bool came() const { return asked_ > which_; }

 private:
  const ChoiceKind kind_;
  const uint64_t which_;
  uint64_t asked_ = 0;
};

// A process dies before any possible step. The others keep their state consistent, their NICs
// detect the death, and a caller in MPIX_Queue_wait gets an error and continues.
TEST(WorldFaults, AProcessMayDieAtAnyMoment) {
  for (const char* text : {"2ranks,2req-each-way,2iter,kills", "2ranks,1req-each-way,2iter,ready,kills",
                           "3ranks,1req-each-way,2iter,depth=2,kills,sync", "2ranks,1req-each-way,2iter,kills,free"}) {
    Setting setting(text);
    World& world = setting.world;
    for (uint64_t moment = 0;; ++moment) {
      world.reset();
      FaultChooser chooser(ChoiceKind::kKill, moment);
      const Report report = world.run(chooser);
      ASSERT_TRUE(clean(report)) << text << ", moment " << moment;
      if (!chooser.came())
        break;
      ASSERT_EQ(world.deaths(), 1u) << moment;
      const bool by_others = setting.config.halo.ready || setting.config.halo.free || setting.scenario.ranks() > 2;
      EXPECT_TRUE(world.finished() || by_others) << text << ", moment " << moment;
    }
    EXPECT_TRUE(world.finished()) << "the last run has no death";
  }
}

// A start is refused because its stream waits for a peer that has given up. Completions do
// not change that.
TEST(WorldFaults, ARefusedStartIsExcusedAfterAPeerGaveUp) {
  for (const char* text :
       {"program=0-1:33t2ry_0-1:15t3p6rx_0-0:1/q1_a1_s1_w1_a1_a0_p0_s1_s0_w0.1_y_m2.2r_x2.2r_q0_p2_s2_q1_s2r_a0_p0_s0_"
        "q0_w2_q1_w2r_u2_w0_q0_y_q1_y/s1r_o1_w1r_y_s0r.1r_o0_o1_w0r_u0_s0r_o0_w0r_u0_w1r_y,no-overflow,sender-flag,"
        "failures",
        "program=1-1:15t1p7_0-1:0t3s_0-0:1t4p5rxy_1-0:16t5p2/s3r_w3r_u3_p1_s2r_s1_o2_q1_a2_p2_s2_q0_w1.2r_u2_q1_w2_q0_"
        "p1_s2r_s3r_s1_o2_q1_a2_p2_s2_q0_w1.2r.3r_u2_u3_q1_w2_q0_y_y_q1_y_f1.2.2r.3r_q0_y_q1_y/"
        "q1_p0_p3_q0_s0r_q1_s0_s3_"
        "q0_w0r_u0_q1_w3_w0_p0_q0_s0r.1r_q1_s0_q0_w1r.0r_u1_u0_q1_w0_p3_p0_q0_s0r_s1r_q1_s3_s0_q0_w1r.0r_u1_u0_q1_w0.3_"
        "q0_y_q1_y_f0.0r.1r.3_q0_y_q1_y,no-overflow,failures"}) {
    expect_clean(text, 3'000);
  }
}

// A refused operation comes due. It fails once, also if the driver reports the failure later.
TEST(WorldFaults, ARefusedOperationFailsOnce) {
  expect_clean("program=1-0:16t4p4/s0r_w0r_y/s0_w0_y,depth=1,cxi-driver,failures,no-room", 40'000);
}

// A death must not hide a fault with another cause.
TEST(WorldFaults, ADeathHidesNoLostRing) {
  EXPECT_EQ(fuzz_text("3ranks,1req-one-way,1iter,kills,lost-rings", 5'000).report.finding, Finding::kDeadlock);
}

TEST(WorldFaults, FrozenCountersDelayTheOverflowOnlyWhileFrozen) {
  Setting setting("2ranks,2req-each-way,2iter,depth=2,frozen-reads");
  FaultChooser chooser(ChoiceKind::kFreeze);
  const Report report = setting.world.run(chooser);
  EXPECT_TRUE(clean(report));
  EXPECT_TRUE(setting.world.finished());
  EXPECT_TRUE(setting.world.faults_have_ended()) << "no rank read a frozen counter, so the run proves nothing";
}

TEST(WorldFaults, StolenEntriesDelayAStartOnlyUntilReturned) {
  for (const char* text : {"2ranks,2req-each-way,2iter,depth=10,no-overflow,stolen-entries",
                           "2ranks,2req-each-way,2iter,depth=8,sends-first,blocking-post,stolen-entries"}) {
    Setting setting(text);
    FaultChooser chooser(ChoiceKind::kSteal);
    const Report report = setting.world.run(chooser);
    EXPECT_TRUE(clean(report)) << text;
    EXPECT_TRUE(setting.world.finished());
    EXPECT_TRUE(setting.world.faults_have_ended()) << text << ": no rank lacked an entry, so the run proves nothing";
  }
}

}  // namespace
}  // namespace lanyard::nicsim
