// Config: a workload and the world it runs in, as one line of text: "2ranks,1req-each-way,2iter,depth=5".
#ifndef LANYARD_NICSIM_DETERMINISTIC_CONFIG_H_
#define LANYARD_NICSIM_DETERMINISTIC_CONFIG_H_

#include <memory>
#include <string>

#include "nicsim/deterministic/collectives.h"
#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/world.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

struct Config {
  HaloOptions halo;
  bool collectives = false;                 // in place of the halo, with its ranks, iterations, bytes, sync, free, gaps
  std::shared_ptr<const Scenario> program;  // in place of the halo, where there is one
  WorldOptions world;

  // What is to be run.
  Scenario scenario() const;

  // Items are separated by commas, in any order, each at most once; help() lists them. What is not named is as in the
  // structs. program=... (Scenario::parse()) stands in place of the halo's items.
  // kInvalidArgument names the item.
  static Result<Config> parse(const std::string& text);
  // What parse() takes; only what differs from the structs, but for ranks, requests and iterations.
  std::string to_string() const;
  // The items and what they mean, a line each, for a program's --help.
  static std::string help();
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_CONFIG_H_
