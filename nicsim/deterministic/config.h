// Config: a workload and the world it runs in, as one line of text: "2ranks,1req-each-way,2iter,depth=5".
#ifndef LANYARD_NICSIM_DETERMINISTIC_CONFIG_H_
#define LANYARD_NICSIM_DETERMINISTIC_CONFIG_H_

#include <memory>
#include <string>

#include "nicsim/deterministic/collectives.h"
#include "nicsim/deterministic/exchange.h"
#include "nicsim/deterministic/world.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

struct Config {
  HaloOptions halo;
  bool collectives = false;                 // in place of the halo, with its ranks, iterations, bytes, sync, free, gaps
  std::shared_ptr<const Exchange> program;  // in place of the halo, where there is one
  WorldOptions world;

  // What is to be run.
  Exchange exchange() const;

  // Items are separated by commas, in any order, each at most once; what is not named is as in the structs:
  //   2ranks 1req-each-way 1req-one-way 2iter bytes=0 neighbours=1 queues=1 ready single-starts sends-first sync
  //   roam free misuse merged two-sets gaps collectives beyond age=7
  //   depth=5 no-overflow blocking-post sender-flag cxi-driver early-acks late-data torn in-order max-message=64 uneven
  //   mail-by-card lanes failures cut-mail no-way lost-rings no-room scarce stale-reads frozen-reads late-events
  //   stolen-entries stale-lines kills timed slow
  // or, in place of the first two lines, program=... (Exchange::parse()).
  // kInvalidArgument names the item.
  static Result<Config> parse(const std::string& text);
  // What parse() takes; only what differs from the structs, but for ranks, requests and iterations.
  std::string to_string() const;
  // The items and what they mean, a line each, for a program's --help.
  static std::string help();
};

// Whether the pairs of such a world may go by lanes.
bool may_have_lanes(const Config& config);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_CONFIG_H_
