#include "nicsim/deterministic/random_config.h"

#include <memory>
#include <utility>

#include "nicsim/deterministic/exchange.h"
#include "nicsim/deterministic/random.h"
#include "nicsim/deterministic/random_messages.h"
#include "nicsim/deterministic/random_program.h"
#include "nicsim/deterministic/random_world.h"

namespace lanyard::nicsim {

Config random_config(uint64_t seed) {
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
  messages.draw_unmatched(exchange, epochs, faulty);
  for (uint32_t epoch = 0; epoch < epochs; ++epoch)
    program.append_epoch(epoch);
  program.finish();
  config.program = std::make_shared<const Exchange>(std::move(exchange));
  draw_carriers(random, config.world, stands);
  return config;
}

}  // namespace lanyard::nicsim
