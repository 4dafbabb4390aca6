// The deterministic world: the shipped protocol under random schedules, with enough entries and
// with too few. Programs of a user. The driver over libfabric.
#include <gtest/gtest.h>

#include <string>

#include "nicsim/deterministic/explore.h"
#include "nicsim/deterministic/world.h"
#include "tests/engine/world_search.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {
namespace {

TEST(World, IsCleanUnderEveryScheduler) {
  for (const char* text : {"2ranks,1req-one-way,2iter", "2ranks,1req-each-way,2iter",
                           "3ranks,1req-each-way,2iter,ready", "2ranks,2req-each-way,2iter,single-starts,queues=2"})
    expect_clean_under_every_scheduler(text, 2'000);
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
  EXPECT_TRUE(has(report.text, "check failed: ++calls < 5: an invariant of the test"));
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
  Setting setting("2ranks,2req-each-way,2iter,torn,kills");
  World& world = setting.world;
  const auto scheduler = make_scheduler(SchedulerKind::kRandom, world, 250);
  Tearing tearing(*scheduler);
  for (uint64_t seed = 0; seed < 1'000; ++seed) {
    world.reset();
    scheduler->begin(seed);
    const Report& report = world.run(tearing);
    ASSERT_TRUE(clean(report)) << seed;
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
    expect_clean_under_every_scheduler(text, 300);
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
       })
    expect_clean(program, 1'000);
}

// A send moves to another stream before its last stream has seen it complete.
TEST(World, IsCleanWhenSendsChangeStreams) {
  const std::string program =
      "program=0-1:16t1_1-0:16t2/"
      "q1_p0_s0_w0_q0_s1r_w1r_u1_c0_q2_p0_s0_w0_q0_s1r_w1r_u1_c0_q1_p0_s0_w0_q0_s1r_w1r_u1_c0_y/"
      "q1_p1_s1_w1_q0_s0r_w0r_u0_c1_q2_p1_s1_w1_q0_s0r_w0r_u0_c1_q1_p1_s1_w1_q0_s0r_w0r_u0_c1_y";
  for (const char* world : {",failures", ",sender-flag,failures", ",cxi-driver,failures", ",kills", ",cxi-driver"})
    expect_clean(program + world, 1'000);
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
      EXPECT_TRUE(has(report.text, fact));
  }
}

TEST(World, AnOverflowSavesThePool) {
  const Scenario scenario = make_halo({.each_way = 2});
  for (uint32_t depth = 1; depth < 9; ++depth) {
    World world(scenario, {.depth = depth});
    const Report report = search(world, SchedulerKind::kRandom, 1'000);
    EXPECT_TRUE(clean(report)) << "depth " << depth;
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
          ASSERT_FALSE(has(report.text, "The program itself")) << seed;
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
  for (int i = 0; i < 2; ++i)
    scenario.rank(1).start({message.receive}).wait({message.receive}).unpack(message);
  scenario.rank(1).free({message.receive});
  ASSERT_TRUE(scenario.validate().ok());
  World world(scenario, {});
  const Report report = search(world, SchedulerKind::kRandom, 5'000);
  EXPECT_TRUE(clean(report));
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
  for (const char* strategy : {"", ",sender-flag"})
    expect_clean(std::string("program=0-1:16_1-0:16r/"
                             "m0.1r_x0.1r_p0_s0.1r_o1_w0.1r_u1_f0.1r_m0.1r_x0.1r_p0_s0.1r_o1_w0.1r_u1_y/"
                             "m0r.1_x0r.1_s0r_a1_p1_s1_w0r.1_u0_f0r.1_m0r.1_x0r.1_s0r_a1_p1_s1_w0r.1_u0_y") +
                     strategy,
                 3'000);
}

// One side may be at its third request when the other reads the result of its first match.
TEST(Matching, MayContinueBeforeTheOtherSideLooks) {
  expect_clean("program=0-1:8t1/f0_m0_x0_f0_m0_x0/f0r_m0r_x0r_f0r_m0r_x0r", 3'000);
}

// Equal tags match in order. If the orders differ, the messages go to the wrong requests.
TEST(Matching, PairsInOrder) {
  expect_clean("program=0-1:8_0-1:8/m0.1_x0.1/m0r.1r_x0r.1r", 3'000);
  const Verdict crossed = fuzz_text("program=0-1:8_0-1:8/m0.1_x0.1/m1r.0r_x0r.1r", 3'000);
  EXPECT_EQ(crossed.report.finding, Finding::kOrder);
  EXPECT_STREQ(crossed.report.oracle, "matching");
}

TEST(Matching, AMissingMatchIsExplained) {
  for (const char* fact :
       {"rank 0's program is at: be matched (send of 0 to 1, tag 0)", "rank 1 has ended its program"})
    expect_user_error("program=0-1:8/m0_x0_s0_w0_y/y", 10, fact);
}

// The first requests of ranks 0 and 1 have equal numbers: offers are identified by rank and number.
TEST(Matching, UnmatchedRequestsAreWithdrawn) {
  expect_clean(
      "program=0-2:8t1_1-2:8t2_2-0:8t3_0-1:8t4/m0_t0_m0_t0/m3r_m1_x1_s1_w1_y_t3r/m2_m1r_x1r_s1r_w1r_y_t2,scarce",
      3'000);
  EXPECT_EQ(fuzz_text("program=0-1:8/m0_t0/m0r_x0r", 100).report.finding, Finding::kUser);
}

// Each side withdraws or frees at any time, matched or not. The remaining side learns of it if no
// start of its own would.
TEST(Matching, MayBeWithdrawnAtAnyTime) {
  for (const char* option : {"", ",mail-by-card", ",sender-flag", ",cxi-driver"})
    for (const char* program : {"program=0-1:8t1/m0_t0_y/m0r_y_t0r", "program=0-1:8t1/m0_y/m0r_y_t0r",
                                "program=0-1:8t1r/m0_t0_y/m0r_y", "program=0-1:8t1r_1-0:8t2/m0.1r_y/m0r.1_t1.0r_y"})
      expect_clean(std::string(program) + option, 1'000);
}

// The slots of the control channel arrive in pieces. A late piece must not land in the
// slot's next use.
TEST(Matching, SurvivesTornSlots) { expect_clean("program=1-0:16t4/m0r_x0r_f0r/m0_x0_f0,mail-by-card,torn", 3'000); }

// Both sides learn that the message is too long for the receive. A new attempt queues behind
// later requests.
TEST(Matching, FailsWhenTheReceiveIsTooShort) {
  for (const char* option : {"", ",mail-by-card", ",sender-flag", ",cxi-driver"})
    expect_clean(std::string("program=0-1:16t1_0-1:9t1h3/m1_x1-_m0.1_x0_x1-_t1_p0_s0_w0_y/"
                             "m1r_x1r-_m0r.1r_x0r_x1r-_t1r_s0r_w0r_u0_y") +
                     option,
                 1'000);
  // The oracle rejects an expected failure that cannot happen: this receive is long enough.
  const Result<Config> fits = Config::parse("program=0-1:16t1/m0_x0-/m0r_x0r-");
  EXPECT_EQ(fits.status().code(), Code::kInvalidArgument);
}

// The path between two NICs fails while match cards travel on it. A rank that notices no longer
// matches with the other.
TEST(Matching, EndsWhenThePathIsCut) {
  Setting setting(
      "program=0-1:16t1_1-0:16t2_0-1:8t3/m0.1r_x0.1r_s0.1r_w0.1r_y_m2_x2_s2_w2_y/"
      "m0r.1_x0r.1_s0r.1_w0r.1_y_m2r_x2r_s2r_w2r_y,mail-by-card,failures,cut-mail");
  World& world = setting.world;
  uint32_t cut = 0;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    const auto scheduler = make_scheduler(SchedulerKind::kRandom, world, 400);
    world.reset();
    scheduler->begin(seed);
    const Report& report = world.run(*scheduler);
    ASSERT_TRUE(clean(report)) << seed;
    if (!world.are_cut(0, 1))
      continue;
    ++cut;
    for (uint32_t index = 0; index < 6; ++index) {
      const Side& side = world.side(RequestName{index});
      EXPECT_FALSE(world.process(side.rank).cut_off[1 - side.rank] && side.core != nullptr &&
                   side.core->state == core::Request::State::kMatching)
          << seed << ": " << setting.scenario.describe({index});
    }
  }
  EXPECT_GT(cut, 100u);
}

TEST(Matching, ARequestIsFreedFirst) {
  EXPECT_EQ(fuzz_text("program=0-0:8/m0.0r_x0.0r_m0", 10).report.finding, Finding::kUser);
}

// ---- Errors of the program itself

// Each rank waits for the other's message before it sends its own.
TEST(UserExchange, WaitsInADeadlockingOrder) {
  Scenario scenario(2);
  const auto there = scenario.message(0, 1, {.tag = 7}), back = scenario.message(1, 0, {.tag = 8});
  scenario.rank(0).start({back.receive}).wait({back.receive}).pack(there).start({there.send}).wait({there.send});
  scenario.rank(1).start({there.receive}).wait({there.receive}).pack(back).start({back.send}).wait({back.send});
  const Verdict verdict = fuzz(scenario, {.schedules = 100});
  EXPECT_EQ(verdict.report.finding, Finding::kUser) << verdict.report.text;
  for (const char* fact : {"(recv, peer 1, tag 8, 16 B) waits for iteration 1",
                           "(recv, peer 0, tag 7, 16 B) waits for iteration 1", "The program itself"})
    EXPECT_TRUE(has(verdict.report.text, fact));
}

// The send's buffer is filled again before the wait.
TEST(UserExchange, PacksABufferInFlight) {
  Scenario scenario(2);
  const auto message = scenario.message(0, 1, {.tag = 3});
  scenario.rank(0).pack(message).start({message.send}).pack(message).wait({message.send});
  scenario.rank(1).start({message.receive}).wait({message.receive}).unpack(message);
  const Verdict verdict = fuzz(scenario, {.schedules = 100});
  EXPECT_EQ(verdict.report.finding, Finding::kUser) << verdict.report.text;
  EXPECT_TRUE(has(verdict.report.text, "packed while"));
}

TEST(UserExchange, InvalidRequestsAreRefused) {
  Scenario scenario(2);
  scenario.message(0, 2);
  EXPECT_EQ(scenario.validate().code(), Code::kInvalidArgument);
  Scenario foreign(2);
  const auto message = foreign.message(0, 1);
  foreign.rank(1).start({message.send});
  EXPECT_TRUE(has(foreign.validate(), "another rank"));
}

// ---- The driver over libfabric (transport/cxi): the shipped core and driver over a fake libfabric
// with the CXI provider's rules. Each event waits until the driver reads it

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
