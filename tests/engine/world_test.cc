// The deterministic world: the shipped protocol under random schedules, with enough entries
// and with too few.
#include "nicsim/deterministic/world.h"

#include <gtest/gtest.h>

#include <string>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/fuzz.h"
#include "nicsim/deterministic/schedulers.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {
namespace {

// Returns the first finding within `schedules` schedules, or a clean report.
Report search(World& world, SchedulerKind kind, uint64_t schedules) {
  const auto scheduler = make_scheduler(kind, world, 100);
  for (uint64_t seed = 0; seed < schedules; ++seed) {
    world.reset();
    scheduler->begin(seed);
    if (const Report& report = world.run(*scheduler); !report.ok())
      return report;
  }
  return {};
}

Verdict fuzz_program(const char* text, uint64_t schedules = 3'000) {
  const Config config = Config::parse(text).value();
  return fuzz(config.scenario(), {.schedules = schedules, .world = config.world});
}

TEST(World, IsCleanUnderEveryScheduler) {
  for (const char* text : {"2ranks,1req-one-way,2iter", "2ranks,1req-each-way,2iter",
                           "3ranks,1req-each-way,2iter,ready", "2ranks,2req-each-way,2iter,single-starts,queues=2"}) {
    const Config config = Config::parse(text).value();
    const Scenario scenario = config.scenario();
    World world(scenario, config.world);
    for (uint32_t kind = 0; kind < kSchedulerKinds; ++kind) {
      const Report report = search(world, static_cast<SchedulerKind>(kind), 2'000);
      EXPECT_TRUE(report.ok()) << text << ": " << report.oracle << ": " << report.text;
    }
  }
}

// A failed check, which would end a process, becomes a finding with its schedule.
TEST(World, AFailedCheckIsAFinding) {
  struct FailingChooser final : Chooser {
    uint32_t choose(uint32_t, ChoiceKind, const uint32_t*) override {
      LANYARD_CHECK(++calls < 5, "an invariant of the test");
      return 0;
    }
    int calls = 0;
  };
  const Scenario scenario = make_halo({});
  World world(scenario, {});
  FailingChooser chooser;
  const Report& report = world.run(chooser);
  EXPECT_EQ(report.finding, Finding::kOrder);
  EXPECT_STREQ(report.oracle, "invariant");
  EXPECT_NE(report.text.find("check failed: ++calls < 5: an invariant of the test"), std::string::npos) << report.text;
  world.reset();
  chooser.calls = -1'000'000;
  EXPECT_TRUE(world.run(chooser).ok()) << report.text;
}

// Each message is read and lands in two steps, cut at any place. No rank sees half a message.
TEST(World, MessagesMayBeTorn) {
  struct Tearing final : Chooser {
    explicit Tearing(Chooser& inner) : inner(inner) {}
    uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) override {
      if (kind != ChoiceKind::kTorn)
        return inner.choose(n, kind, agents);
      ++torn;
      return 1 + torn % (n - 1);
    }
    Chooser& inner;
    uint32_t torn = 0;
  };
  const Config config = Config::parse("2ranks,2req-each-way,2iter,torn,kills").value();
  const Scenario scenario = config.scenario();
  World world(scenario, config.world);
  const auto scheduler = make_scheduler(SchedulerKind::kRandom, world, 250);
  Tearing tearing(*scheduler);
  for (uint64_t seed = 0; seed < 1'000; ++seed) {
    world.reset();
    scheduler->begin(seed);
    const Report& report = world.run(tearing);
    ASSERT_TRUE(report.ok()) << seed << ": " << report.oracle << ": " << report.text;
  }
  EXPECT_GT(tearing.torn, 1'000u);
}

// A send to MPI_PROC_NULL and its receive complete when they start, alone and in an exchange.
TEST(World, ProcNullCompletesAtOnce) {
  for (const char* text :
       {"program=0-1:16n/p0_s0_w0_p0_s0_w0_y_f0/s0r_w0r_u0_s0r_w0r_u0_y_f0r",
        "program=0-1:16t1i1j1_0-1:16t2ni1j1/p0_s0.1_w0.1_p0_s0.1_w0.1_y_f0.1_m0.1_x0.1_p0_s0.1_w0.1_y/"
        "s0r.1r_w0r.1r_u0_u1_s0r.1r_w0r.1r_u0_u1_y_f0r.1r_m0r.1r_x0r.1r_s0r.1r_w0r.1r_u0_u1_y",
        "program=0-1:16n/b_p0_s0_w0_e_l_l_y_f0/d0r_k0r_v0r_u0_k0r_v0r_u0_y_z0r_f0r"}) {
    const Result<Config> config = Config::parse(text);
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config.value().to_string(), text);
    const Scenario scenario = config.value().scenario();
    World world(scenario, config.value().world);
    for (uint32_t kind = 0; kind < kSchedulerKinds; ++kind) {
      const Report report = search(world, static_cast<SchedulerKind>(kind), 300);
      EXPECT_TRUE(report.ok()) << text << ": " << report.oracle << ": " << report.text;
    }
  }
  for (const char* wrong : {"program=0-1:16nr/y/y", "program=0-1:16ns/y/y", "program=0-1:16nx/y/y"})
    EXPECT_FALSE(Config::parse(wrong).ok()) << wrong;
}

// Unusual worlds and programs.
TEST(World, IsCleanInUnusualPrograms) {
  for (const char* program : {
           // NICs of two kinds: the pieces of a message fit both.
           "program=0-1:33_1-0:33/p0_s0.1r_w0.1r_u1_p0_s0.1r_w0.1r_u1_y/p1_s1.0r_w1.0r_u0_p1_s1.0r_w1.0r_u0_y,"
           "max-message=8,uneven",
           "program=0-1:33/p0_s0_w0_y/s0r_w0r_u0_y,max-message=16,uneven,cxi-driver",
           "2ranks,1req-each-way,2iter,bytes=100,max-message=40,uneven,sender-flag,cxi-driver",
           // A capture without a wait: its request is freed and another one is captured.
           "program=0-1:8t1_0-1:8t2/m0.1_x0_b_s0_e_f0_x1_b_s1_w1_e_l_y/m0r.1r_x1r_s1r_w1r_u1_y",
           // Entries for one start of each request, on several queues without overflow.
           "program=0-1:8t1_0-1:8t2/p0_s0_w0_q1_p1_s1_w1_q0_p0_s0_w0_q1_p1_s1_w1_y_q0_y/"
           "s0r_w0r_u0_q1_s1r_w1r_u1_q0_s0r_w0r_u0_q1_s1r_w1r_u1_y_q0_y,depth=6,no-overflow",
           // More equal requests than the match table holds at first.
           "program=0-1:8_0-1:8_0-1:8_0-1:8_0-1:8_0-1:8_0-1:8_0-1:8_0-1:8_0-1:8/"
           "m0.1.2.3.4.5.6.7.8.9_x0.1.2.3.4.5.6.7.8.9/"
           "m0r.1r.2r.3r.4r.5r.6r.7r.8r.9r_x0r.1r.2r.3r.4r.5r.6r.7r.8r.9r",
       }) {
    const Verdict verdict = fuzz_program(program, 1'000);
    EXPECT_TRUE(verdict.ok()) << program << ": " << verdict.report.oracle << ": " << verdict.report.text;
  }
}

// A send moves to another stream before its last stream has seen it complete.
TEST(World, IsCleanWhenSendsChangeStreams) {
  const std::string program =
      "program=0-1:16t1_1-0:16t2/"
      "q1_p0_s0_w0_q0_s1r_w1r_u1_c0_q2_p0_s0_w0_q0_s1r_w1r_u1_c0_q1_p0_s0_w0_q0_s1r_w1r_u1_c0_y/"
      "q1_p1_s1_w1_q0_s0r_w0r_u0_c1_q2_p1_s1_w1_q0_s0r_w0r_u0_c1_q1_p1_s1_w1_q0_s0r_w0r_u0_c1_y";
  for (const char* world : {",failures", ",sender-flag,failures", ",cxi-driver,failures", ",kills", ",cxi-driver"}) {
    const Verdict verdict = fuzz_program((program + world).c_str(), 1'000);
    EXPECT_TRUE(verdict.ok()) << world << ": " << verdict.report.oracle << ": " << verdict.report.text;
  }
}

TEST(World, AResetWorldIsAFreshOne) {
  const Scenario scenario = make_halo({});
  World world(scenario, {}), fresh(scenario, {});
  EXPECT_EQ(world.fingerprint(), fresh.fingerprint());
  search(world, SchedulerKind::kRandom, 10);
  EXPECT_NE(world.fingerprint(), fresh.fingerprint());
  world.reset();
  EXPECT_EQ(world.fingerprint(), fresh.fingerprint());
}

// Each rank has two sends and two receives, sends first, without reservation: five entries always
// deadlock, six never.
TEST(World, FindsThePoolDeadlock) {
  const Scenario scenario = make_halo({.each_way = 2, .sends_first = true});
  for (uint32_t depth = 4; depth < 8; ++depth) {
    World world(scenario, {.depth = depth, .blocking_post = true});
    const Report report = search(world, SchedulerKind::kRandom, 1'000);
    ASSERT_EQ(report.finding, depth <= 5 ? Finding::kDeadlock : Finding::kNone) << depth << report.text;
    if (depth > 5)
      continue;
    for (const char* fact : {"too few deferred-work entries", "rank 0's program",
                             "clear-to-send 1 from rank 1 has not arrived", "rank 1's program"})
      EXPECT_NE(report.text.find(fact), std::string::npos) << fact << " in\n" << report.text;
  }
}

TEST(World, AnOverflowSavesThePool) {
  const Scenario scenario = make_halo({.each_way = 2});
  for (uint32_t depth = 1; depth < 9; ++depth) {
    World world(scenario, {.depth = depth});
    const Report report = search(world, SchedulerKind::kRandom, 1'000);
    EXPECT_TRUE(report.ok()) << "depth " << depth << ": " << report.oracle << ": " << report.text;
  }
}

// A start after the other side was freed gets an error, whenever the news arrives. Nothing
// waits forever.
TEST(World, AnEarlyFreeIsReported) {
  for (const core::Strategy strategy : core::kStrategies)
    for (const bool sender_first : {true, false})
      for (const bool ready : {true, false}) {
        Scenario scenario(2);
        const auto message = scenario.message(0, 1, {.ready = ready});
        const auto first = sender_first ? message.send : message.receive;
        const auto second = sender_first ? message.receive : message.send;
        scenario.rank(1).start({message.receive}).promise(message);
        scenario.rank(0).await(message).start({message.send});
        scenario.rank(sender_first ? 0 : 1).wait({first}).free({first});
        scenario.rank(sender_first ? 1 : 0).wait({second}).start({second}).wait({second}).sync();
        World world(scenario, {.strategy = strategy});
        const auto scheduler = make_scheduler(SchedulerKind::kRandom, world, 100);
        for (uint64_t seed = 0; seed < 1'000; ++seed) {
          world.reset();
          scheduler->begin(seed);
          const Report report = world.run(*scheduler);
          ASSERT_EQ(report.finding, Finding::kUser) << seed << ": " << report.oracle << ": " << report.text;
          ASSERT_EQ(report.text.find("The program itself"), std::string::npos) << seed << ": " << report.text;
        }
      }
}

// Only the stream knows its own progress; still a completed request may move to another
// queue or be freed.
TEST(World, ACompletedRequestMayMoveOrBeFreed) {
  Scenario scenario(2);
  const auto message = scenario.message(0, 1);
  scenario.rank(0).on(0).pack(message).start({message.send}).wait({message.send}).complete({message.send});
  scenario.rank(0).on(1).pack(message).start({message.send}).wait({message.send}).free({message.send});
  scenario.rank(1).repeat(
      2, [&](HostProgram& host) { host.start({message.receive}).wait({message.receive}).unpack(message); });
  scenario.rank(1).free({message.receive});
  ASSERT_TRUE(scenario.validate().ok());
  World world(scenario, {});
  const Report report = search(world, SchedulerKind::kRandom, 5'000);
  EXPECT_TRUE(report.ok()) << report.oracle << ": " << report.text;
}

TEST(World, AMissingRefusalIsFound) {
  Scenario scenario(2);
  const auto message = scenario.message(0, 1);
  scenario.rank(0).start({message.send}).refused().wait({message.send});
  scenario.rank(1).start({message.receive}).wait({message.receive});
  World world(scenario, {});
  const Report report = search(world, SchedulerKind::kRandom, 100);
  EXPECT_STREQ(report.oracle, "refusal") << report.text;
}

// ---- Matching as steps

// Requests are freed on both sides and matched again twice. They reuse words, counters and keys.
TEST(Matching, ReusesResourcesInNewRequests) {
  for (const char* strategy : {"", ",sender-flag"}) {
    const Verdict verdict =
        fuzz_program((std::string("program=0-1:16_1-0:16r/"
                                  "m0.1r_x0.1r_p0_s0.1r_o1_w0.1r_u1_f0.1r_m0.1r_x0.1r_p0_s0.1r_o1_w0.1r_u1_y/"
                                  "m0r.1_x0r.1_s0r_a1_p1_s1_w0r.1_u0_f0r.1_m0r.1_x0r.1_s0r_a1_p1_s1_w0r.1_u0_y") +
                      strategy)
                         .c_str());
    EXPECT_TRUE(verdict.ok()) << strategy << ": " << verdict.report.oracle << ": " << verdict.report.text;
  }
}

// One side may be at its third request when the other reads the result of its first match.
TEST(Matching, MayContinueBeforeTheOtherSideLooks) {
  const Verdict verdict = fuzz_program("program=0-1:8t1/f0_m0_x0_f0_m0_x0/f0r_m0r_x0r_f0r_m0r_x0r");
  EXPECT_TRUE(verdict.ok()) << verdict.report.text;
}

// Equal tags match in order. If the orders differ, the messages go to the wrong requests.
TEST(Matching, PairsInOrder) {
  EXPECT_TRUE(fuzz_program("program=0-1:8_0-1:8/m0.1_x0.1/m0r.1r_x0r.1r").ok());
  const Verdict crossed = fuzz_program("program=0-1:8_0-1:8/m0.1_x0.1/m1r.0r_x0r.1r");
  EXPECT_EQ(crossed.report.finding, Finding::kOrder);
  EXPECT_STREQ(crossed.report.oracle, "matching");
}

TEST(Matching, AMissingMatchIsExplained) {
  const Verdict verdict = fuzz_program("program=0-1:8/m0_x0_s0_w0_y/y", 10);
  EXPECT_EQ(verdict.report.finding, Finding::kUser);
  EXPECT_NE(verdict.report.text.find("rank 0's program is at: be matched (send of 0 to 1, tag 0)"), std::string::npos)
      << verdict.report.text;
  EXPECT_NE(verdict.report.text.find("rank 1 has ended its program"), std::string::npos) << verdict.report.text;
}

// The first requests of ranks 0 and 1 have equal numbers: offers are identified by rank and number.
TEST(Matching, UnmatchedRequestsAreWithdrawn) {
  const Verdict verdict = fuzz_program(
      "program=0-2:8t1_1-2:8t2_2-0:8t3_0-1:8t4/m0_t0_m0_t0/m3r_m1_x1_s1_w1_y_t3r/m2_m1r_x1r_s1r_w1r_y_t2,scarce");
  EXPECT_TRUE(verdict.ok()) << verdict.report.oracle << ": " << verdict.report.text;
  const Verdict matched = fuzz_program("program=0-1:8/m0_t0/m0r_x0r", 100);
  EXPECT_EQ(matched.report.finding, Finding::kUser);
}

// Each side withdraws or frees at any time, matched or not. The remaining side learns of it if no
// start of its own would.
TEST(Matching, MayBeWithdrawnAtAnyTime) {
  for (const char* option : {"", ",mail-by-card", ",sender-flag", ",cxi-driver"})
    for (const char* program : {"program=0-1:8t1/m0_t0_y/m0r_y_t0r", "program=0-1:8t1/m0_y/m0r_y_t0r",
                                "program=0-1:8t1r/m0_t0_y/m0r_y", "program=0-1:8t1r_1-0:8t2/m0.1r_y/m0r.1_t1.0r_y"}) {
      const Verdict verdict = fuzz_program((std::string(program) + option).c_str(), 1'000);
      EXPECT_TRUE(verdict.ok()) << program << option << ": " << verdict.report.oracle << ": " << verdict.report.text;
    }
}

// The slots of the control channel arrive in pieces. A late piece must not land in the
// slot's next use.
TEST(Matching, SurvivesTornSlots) {
  const Verdict verdict = fuzz_program("program=1-0:16t4/m0r_x0r_f0r/m0_x0_f0,mail-by-card,torn");
  EXPECT_TRUE(verdict.ok()) << verdict.report.oracle << ": " << verdict.report.text;
}

// Both sides learn that the message is too long for the receive. A new attempt queues behind
// later requests.
TEST(Matching, FailsWhenTheReceiveIsTooShort) {
  for (const char* option : {"", ",mail-by-card", ",sender-flag", ",cxi-driver"}) {
    const Verdict verdict = fuzz_program((std::string("program=0-1:16t1_0-1:9t1h3/m1_x1-_m0.1_x0_x1-_t1_p0_s0_w0_y/"
                                                      "m1r_x1r-_m0r.1r_x0r_x1r-_t1r_s0r_w0r_u0_y") +
                                          option)
                                             .c_str(),
                                         1'000);
    EXPECT_TRUE(verdict.ok()) << option << ": " << verdict.report.oracle << ": " << verdict.report.text;
  }
  // The oracle rejects an expected failure that cannot happen: this receive is long enough.
  const Result<Config> fits = Config::parse("program=0-1:16t1/m0_x0-/m0r_x0r-");
  EXPECT_EQ(fits.status().code(), Code::kInvalidArgument);
}

// The path between two NICs fails while match cards travel on it. A rank that notices no longer
// matches with the other.
TEST(Matching, EndsWhenThePathIsCut) {
  const char* program =
      "program=0-1:16t1_1-0:16t2_0-1:8t3/m0.1r_x0.1r_s0.1r_w0.1r_y_m2_x2_s2_w2_y/"
      "m0r.1_x0r.1_s0r.1_w0r.1_y_m2r_x2r_s2r_w2r_y,mail-by-card,failures,cut-mail";
  const Config config = Config::parse(program).value();
  const Scenario scenario = config.scenario();
  World world(scenario, config.world);
  uint32_t cut = 0;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    const auto scheduler = make_scheduler(SchedulerKind::kRandom, world, 400);
    world.reset();
    scheduler->begin(seed);
    const Report& report = world.run(*scheduler);
    ASSERT_TRUE(report.ok()) << seed << ": " << report.oracle << ": " << report.text;
    if (!world.are_cut(0, 1))
      continue;
    ++cut;
    for (uint32_t index = 0; index < 6; ++index) {
      const Side& side = world.side(RequestName{index});
      EXPECT_FALSE(world.process(side.rank).cut_off[1 - side.rank] && side.core != nullptr &&
                   side.core->state == core::Request::State::kMatching)
          << seed << ": " << scenario.describe({index});
    }
  }
  EXPECT_GT(cut, 100u);
}

TEST(Matching, ARequestIsFreedFirst) {
  EXPECT_EQ(fuzz_program("program=0-0:8/m0.0r_x0.0r_m0", 10).report.finding, Finding::kUser);
}

}  // namespace
}  // namespace lanyard::nicsim
