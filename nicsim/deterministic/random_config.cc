#include "nicsim/deterministic/random_config.h"

#include <memory>
#include <utility>

#include "nicsim/deterministic/draw_merged.h"
#include "nicsim/deterministic/exchange.h"
#include "nicsim/deterministic/random.h"
#include "nicsim/deterministic/random_messages.h"
#include "nicsim/deterministic/random_program.h"
#include "nicsim/deterministic/random_world.h"

namespace lanyard::nicsim {

namespace {

Config draw(uint64_t seed) {
  constexpr uint32_t kMostEpochs = 4;
  Random random(seed);
  Config config;
  config.world = draw_world(random);
  const bool faulty = is_faulty(config.world);
  Exchange exchange(random.one_of({1u, 2u, 2u, 2u, 2u, 2u, 3u, 3u, 4u}));
  const bool stands = random.percent(25);
  RandomMessages messages(random, exchange.ranks(), stands);
  messages.draw(exchange, config.world);
  const uint32_t epochs = 1 + random.below(kMostEpochs);
  messages.draw_lives(epochs, faulty);
  RandomProgram program(random, messages, exchange, faulty);
  program.begin();
  messages.draw_idle(exchange, epochs, faulty);
  for (uint32_t epoch = 0; epoch < epochs; ++epoch)
    program.append_epoch(epoch);
  program.finish();
  config.program = std::make_shared<const Exchange>(std::move(exchange));
  draw_carriers(random, config.world, stands);
  return config;
}

}  // namespace

Config random_config(uint64_t seed) {
  constexpr uint64_t kAnother = 0x6d65726765;  // so that the programs are the same whether something is merged or not
  constexpr uint64_t kSets = 0x73657473;       // likewise
  constexpr uint32_t kMerges = 40, kTwoSets = 10;  // percent
  Config config = draw(seed);
  if (Random random(seed ^ kSets); may_merge(config.world) && random.below(100) < kTwoSets) {
    config.program = std::make_shared<const Exchange>(make_halo(draw_two_sets(random, config.world)));
    return config;
  }
  Random random(seed ^ kAnother);
  if (!may_merge(config.world) || random.below(100) >= kMerges)
    return config;
  Exchange merged = *config.program;
  draw_merged(merged, random, is_faulty(config.world));
  config.program = std::make_shared<const Exchange>(std::move(merged));
  return config;
}

}  // namespace lanyard::nicsim
