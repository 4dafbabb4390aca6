#include "tools/lanyard/portfolio.h"

#include <memory>
#include <utility>
#include <vector>

#include "nicsim/deterministic/scenario.h"

namespace lanyard::tools {

namespace {

// So many messages, started together and received one after the other, the last one first: what is to go out then
// stands at the end of an overflow of more operations than are looked at together.
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
  // Small ones: a schedule of them is short, and what can go wrong shows with few messages and iterations.
  static constexpr const char* kTexts[] = {
      "2ranks,1req-one-way,2iter",
      "2ranks,1req-each-way,3iter",
      "2ranks,2req-each-way,2iter,in-order",
      "2ranks,1req-each-way,3iter,ready",
      "2ranks,3req-each-way,2iter,queues=2",
      "2ranks,2req-each-way,2iter,single-starts,sync",
      "2ranks,2req-each-way,2iter,sends-first,depth=1",
      "2ranks,1req-each-way,3iter,depth=2",
      "2ranks,2req-each-way,2iter,single-starts,depth=3",
      "2ranks,2req-each-way,2iter,queues=2,depth=5",
      "2ranks,2req-each-way,2iter,ready,depth=8",
      // A start has 8 entries: one fits, and the next one waits.
      "2ranks,2req-each-way,3iter,depth=8,no-overflow,no-room",
      // With 5 entries both hosts can be held up for ever; 6 are enough.
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
      "2ranks,2req-each-way,3iter,timed,slow",
      "2ranks,2req-each-way,2iter,early-acks",
      "2ranks,2req-each-way,2iter,sender-flag,early-acks",
      "2ranks,1req-each-way,3iter,sender-flag,early-acks,ready,depth=4",
      "2ranks,1req-each-way,2iter,sender-flag,early-acks,bytes=100,max-message=40,failures,free",
      "3ranks,1req-each-way,2iter,sender-flag,early-acks,kills,free",
      "2ranks,1req-each-way,2iter,sender-flag,depth=1,free",
      "2ranks,1req-each-way,2iter,sender-flag,depth=2,free,stale-reads",
      "2ranks,2req-each-way,2iter,in-order,early-acks",
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
      "3ranks,1req-each-way,2iter,collectives",
      "3ranks,1req-each-way,2iter,collectives,depth=3,sender-flag,early-acks,torn",
      "3ranks,1req-each-way,2iter,free,collectives,cxi-driver,failures",
  };
  std::vector<nicsim::Config> configs;
  for (const char* text : kTexts)
    configs.push_back(nicsim::Config::parse(text).value());
  configs.push_back(last_first(140));
  return configs;
}

}  // namespace lanyard::tools
