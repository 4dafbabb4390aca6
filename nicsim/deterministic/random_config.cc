#include "nicsim/deterministic/random_config.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "nicsim/deterministic/draw_merged.h"
#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/random.h"
#include "nicsim/deterministic/random_messages.h"
#include "nicsim/deterministic/random_program.h"
#include "nicsim/deterministic/random_world.h"

namespace lanyard::nicsim {

namespace {

// Entries that every rank's requests need for one start of each.
uint32_t entries_of(const Scenario& scenario, const WorldOptions& world) {
  std::vector<uint64_t> entries(scenario.ranks());
  for (const Scenario::Message& message : scenario.messages()) {
    const uint64_t pieces = core::pieces_of(message.options.bytes, world.longest(message.from, message.to));
    entries[message.from] += 2 + pieces;
    entries[message.to] += 2;
  }
  return static_cast<uint32_t>(*std::max_element(entries.begin(), entries.end()));
}

Config draw(uint64_t seed) {
  constexpr uint32_t kMostEpochs = 4;
  Random random(seed);
  Config config;
  config.world = draw_world(random);
  const bool faulty = is_faulty(config.world);
  Scenario scenario(random.one_of({1u, 2u, 2u, 2u, 2u, 2u, 3u, 3u, 4u}));
  const bool stands = random.percent(25);
  RandomMessages messages(random, scenario.ranks(), stands);
  messages.draw(scenario, config.world);
  const uint32_t epochs = 1 + random.below(kMostEpochs);
  messages.draw_lives(epochs, faulty);
  messages.draw_short(scenario);
  // Without overflow, where no queue keeps entries of a request that has gone to another, so many are enough.
  const bool tight = !config.world.overflow && !faulty && !stands && random.percent(60);
  RandomProgram program(random, messages, scenario, faulty, !tight);
  program.begin();
  messages.draw_idle(scenario, epochs, faulty);
  if (tight)
    config.world.depth = entries_of(scenario, config.world);
  for (uint32_t epoch = 0; epoch < epochs; ++epoch)
    program.append_epoch(epoch);
  program.finish();
  config.program = std::make_shared<const Scenario>(std::move(scenario));
  draw_carriers(random, config.world, stands);
  return config;
}

}  // namespace

Config random_config(uint64_t seed) {
  constexpr uint64_t kAnother = 0x6d65726765;  // so that the programs are the same whether something is merged or not
  constexpr uint64_t kSets = 0x73657473;       // likewise
  constexpr uint64_t kLate = 0x6c617465;       // likewise
  constexpr uint32_t kMerges = 40, kTwoSets = 10;  // percent
  Config config = draw(seed);
  config.world.late_events = config.world.driver && Random(seed ^ kLate).percent(30);
  if (Random random(seed ^ kSets); random.below(100) < kTwoSets) {
    Scenario sets = make_halo(draw_two_sets(random));
    draw_parts(sets, random, is_faulty(config.world));
    config.program = std::make_shared<const Scenario>(std::move(sets));
    if (!config.world.overflow && config.world.depth > 0)
      config.world.depth = entries_of(*config.program, config.world);
    return config;
  }
  Random random(seed ^ kAnother);
  if (random.below(100) >= kMerges)
    return config;
  Scenario merged = *config.program;
  draw_merged(merged, random, is_faulty(config.world));
  config.program = std::make_shared<const Scenario>(std::move(merged));
  return config;
}

}  // namespace lanyard::nicsim
