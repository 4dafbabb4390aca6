#include "nicsim/deterministic/random_world.h"

#include "nicsim/deterministic/card_mail.h"

namespace lanyard::nicsim {

WorldOptions draw_world(Random& random) {
  WorldOptions world;
  world.strategy = random.percent(50) ? core::Strategy::kTargetCounter : core::Strategy::kSenderFlag;
  world.early_acks = random.percent(50);
  world.in_order = random.percent(25);
  world.torn = random.percent(25);
  if (random.percent(50))
    world.max_message_bytes = random.one_of({uint64_t{8}, uint64_t{16}, uint64_t{24}, uint64_t{40}});
  world.uneven = world.max_message_bytes < WorldOptions().max_message_bytes && random.percent(25);
  if (random.percent(60))
    world.depth = 1 + random.below(10);
  else
    world.overflow = !random.percent(25);
  if (random.percent(15))
    world.in_flight = 1 + random.below(4);
  world.no_room = random.percent(15);
  world.scarce = random.percent(10);
  world.stale_reads = random.percent(15);
  world.frozen_reads = !world.stale_reads && random.percent(10);  // both together never end
  world.stolen_entries = random.percent(10);
  world.failures = random.percent(15);
  world.kills = !world.failures && random.percent(12);
  world.bells =
      random.one_of({Bells::kCalls, Bells::kCalls, Bells::kCalls, Bells::kRegisters, Bells::kWords, Bells::kTotals});
  world.timed = random.percent(5);
  world.slow = world.timed && random.percent(50);
  if (random.percent(5))
    world.age = random.next() % (uint64_t{1} << 40);
  return world;
}

void draw_carriers(Random& random, WorldOptions& world, bool stands) {
  world.driver = !stands && world.bells == Bells::kCalls && world.in_flight == 0 && random.percent(50);
  // What finds no room runs at once, and then fails.
  world.no_room = world.no_room || (world.driver && world.failures && random.percent(50));
  world.mail_by_card =
      !world.driver && !world.scarce && world.longest(0, 1) >= CardMail::kLeastMessageBytes && random.percent(60);
  world.cut_mail = world.mail_by_card && world.failures && random.percent(40);
}

}  // namespace lanyard::nicsim
