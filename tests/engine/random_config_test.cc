// Random programs: valid, the same on every machine, of every kind, and without a finding.
#include "nicsim/deterministic/config.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "nicsim/deterministic/fuzz.h"
#include "transport/core/transfer.h"

namespace lanyard::nicsim {
namespace {

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
    ASSERT_TRUE(verdict.ok()) << config.to_string() << "\n" << verdict.report.oracle << ": " << verdict.report.text;
  }
}

}  // namespace
}  // namespace lanyard::nicsim
