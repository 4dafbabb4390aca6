// Configurations as text. Random programs: valid, the same on every machine, of every kind, and
// without a finding.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "nicsim/deterministic/config.h"
#include "tests/engine/world_search.h"
#include "transport/core/transfer.h"

namespace lanyard::nicsim {
namespace {

TEST(Config, TextIsRestored) {
  for (const char* text :
       {"2ranks,1req-each-way,2iter", "1ranks,3req-one-way,1iter,bytes=0",
        "4ranks,1req-each-way,2iter,bytes=64,neighbours=2,queues=2,ready,sends-first,sync,depth=5,no-overflow,"
        "blocking-post,max-message=40,failures,lost-rings,no-room,scarce,stale-reads",
        "2ranks,1req-each-way,2iter,single-starts", "2ranks,2req-each-way,2iter,merged,gaps,depth=3",
        "2ranks,2req-each-way,3iter,free,two-sets", "3ranks,1req-each-way,2iter,sync,free,gaps,failures"}) {
    const Result<Config> config = Config::parse(text);
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config.value().to_string(), text);
  }
  for (const char* text :
       {"program=0-1:16/p0_s0_w0_y/s0r_w0r_u0_y",
        "program=0-0:0t3p8rsg/m0.0r_x0.0r_s0.0r-_q2_s0+_w0-_c0_f0_q0_y,depth=3",
        "program=0-1:8r_1-0:8/o1_a0/o0_a1,sender-flag,kills", "program=0-1:9t1h3g/m0_x0-_t0/m0r_x0r-",
        "program=0-1:8t1i1_1-0:8t2i2j1/s0.1r_w0.1r_y/s0r.1_w0r.1_y",
        "program=0-1:8t1i1aj2b_1-0:8t2i2bj1/s0.1r_w0.1r_y/s0r.1_w0r.1_y"}) {
    const Result<Config> config = Config::parse(text);
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config.value().to_string(), text);
  }
  EXPECT_EQ(Config::parse("2ranks").value().to_string(), "2ranks,1req-each-way,2iter");
  EXPECT_EQ(Config::parse("bytes=0,3iter").value().to_string(), "2ranks,1req-each-way,3iter,bytes=0");
}

TEST(Config, ErrorsAreNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"2ranks,fast", "fast"},
      {"0ranks", "0ranks"},
      {"2ranks,2ranks", "twice"},
      {"", "''"},
      {"2ranks,", "''"},
      {"depth=0", "depth=0"},
      {"depth=", "depth="},
      {"bytes=-1", "bytes=-1"},
      {"bytes=1x", "bytes=1x"},
      {"99999999999999999999iter", "iter"},
      {"ready,single-starts", "single-starts"},
      {"64ranks,1024req-each-way", "too large"},
      {"1req-each-way,bytes=1073741824", "too large"},
      {"program=", "no program"},
      {"program=0-1:16", "no program"},
      {"program=0-1:16/s0", "0-1:16"},
      {"program=0-0:16z/s0.0r_y", "0-0:16z"},
      {"program=0-0:16/s0.0r_z", "'z'"},
      {"program=0-0:16/s0.0r_w0-0r", "w0-0r"},
      {"program=0-0:16/s0.1", "no such request"},
      {"program=0-0:16/s0.0", "twice"},
      {"program=0-1:16/s0.0r/y", "belongs to another rank"},
      {"program=0-1:16/p0/p0", "other end"},
      {"program=0-0:16/s0.0r_w0.0r,2ranks", "says itself"},
      {"program=0-1:8i0/s0_w0/s0r_w0r", "0-1:8i0"},
      {"program=0-1:8h9/m0/m0r", "lacks no more"},
      {"program=0-1:8h1/m0_x0/m0r_x0r-", "cannot be matched"},
      {"program=0-1:8/m0_x0-/m0r_x0r", "is matched"},
      {"2ranks,cut-mail", "'mail-by-card'"},
      {"2ranks,mail-by-card,cut-mail", "'failures'"},
      {"2ranks,mail-by-card,max-message=500,uneven", "256"},
      {"merged,ready", "'merged'"},
      {"merged,queues=2", "'merged'"},
      {"two-sets,single-starts", "'two-sets'"},
      {"two-sets,age=1099511627777", "age=1099511627777"},
      {"2ranks,bytes=4096,max-message=8,age=1099511627776", "at most 2147483648"},
      {"program=0-1:8a/s0_w0/s0r_w0r", "0-1:8a"},
      {"program=0-1:8i1c/s0_w0/s0r_w0r", "0-1:8i1c"},
      {"program=0-1:8j1/s0_w0/s0r_w0r,age=1099511627777", "age=1099511627777"},
  };
  for (const auto& [text, what] : wrong) {
    const Result<Config> config = Config::parse(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_TRUE(has(config.status(), what));
    EXPECT_FALSE(has(config.status(), "\n"));
  }
}

TEST(Config, ASingleRankSendsToItself) {
  const Scenario scenario = make_halo(Config::parse("1ranks,2req-each-way,1iter").value().halo);
  ASSERT_EQ(scenario.messages().size(), 2u);
  EXPECT_EQ(scenario.messages()[0].from, 0u);
  EXPECT_EQ(scenario.messages()[0].to, 0u);
}

// ---- Random programs

TEST(RandomConfig, ItsTextIsParsedBack) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const std::string text = random_config(seed).to_string();
    const Result<Config> parsed = Config::parse(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
    ASSERT_EQ(parsed.value().to_string(), text);
    ASSERT_EQ(random_config(seed).to_string(), text);
    ASSERT_TRUE(parsed.value().scenario().validate().ok());
  }
}

// The generator draws everything that it promises.
TEST(RandomConfig, IsOfEveryKind) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Config config = random_config(seed);
    const Scenario& scenario = *config.program;
    ++seen["ranks " + std::to_string(scenario.ranks())];
    ++seen[core::strategy_name(config.world.strategy)];
    for (const Scenario::Message& message : scenario.messages()) {
      const MessageOptions& options = message.options;
      seen["ready"] += options.ready;
      seen["longer receive"] += options.room > 0;
      seen["any source"] += options.any_source;
      seen["any tag"] += options.any_tag;
      seen["empty"] += options.bytes == 0;
      seen["whole pieces"] += options.bytes > 0 && options.bytes % config.world.max_message_bytes == 0;
      seen["one byte more"] += options.bytes > 1 && options.bytes % config.world.max_message_bytes == 1;
      seen["to itself"] += message.from == message.to;
      seen["of two sets"] += options.send_set > 0;
    }
    for (uint32_t rank = 0; rank < scenario.ranks(); ++rank)
      for (const Action& action : scenario.program(rank).actions()) {
        seen["match"] += action.kind == Action::Kind::kMatch;
        seen["free"] += action.kind == Action::Kind::kFree;
        seen["complete"] += action.kind == Action::Kind::kComplete;
        seen["sync"] += action.kind == Action::Kind::kSync;
        seen["refused start"] += action.refused && action.kind == Action::Kind::kStart;
        seen["refused wait"] += action.refused && action.kind == Action::Kind::kWait;
        seen["repeated"] += action.repeated;
        seen["captured"] += action.kind == Action::Kind::kCapture;
        seen["launched"] += action.kind == Action::Kind::kLaunch;
        seen["withdrawn"] += action.kind == Action::Kind::kWithdraw;
        seen["stands"] += action.kind == Action::Kind::kStand;
        seen["by a kernel"] += action.kind == Action::Kind::kKernelStart;
        seen["dismissed"] += action.kind == Action::Kind::kDismiss;
        seen["several at once"] += action.kind == Action::Kind::kStart && action.requests.size() > 1;
      }
    const WorldOptions& world = config.world;
    seen["few entries"] += world.depth > 0;
    seen["no overflow"] += !world.overflow;
    seen["scarce"] += world.scarce;
    seen["failures"] += world.failures;
    seen["kills"] += world.kills;
    seen["early acks"] += world.early_acks;
    seen["aged"] += world.age > 0;
    seen["driver"] += world.driver;
    ++seen["bells " + std::to_string(static_cast<int>(world.bells))];
  }
  EXPECT_EQ(seen.size(), 2u + 4u + 9u + 14u + 8u + 4u);
  for (const auto& [what, times] : seen)
    EXPECT_GE(times, 5) << what;
}

TEST(RandomConfig, FindsNothing) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Config config = random_config(seed);
    const Verdict verdict = fuzz(config.scenario(), {.seed = seed, .schedules = 16, .world = config.world});
    ASSERT_TRUE(clean(verdict.report)) << config.to_string();
  }
}

}  // namespace
}  // namespace lanyard::nicsim
