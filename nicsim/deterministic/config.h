// Config: a workload and the world it runs in, as one line of text: "2ranks,1req-each-way,2iter,depth=5".
#ifndef LANYARD_NICSIM_DETERMINISTIC_CONFIG_H_
#define LANYARD_NICSIM_DETERMINISTIC_CONFIG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nicsim/deterministic/scenario.h"
#include "nicsim/deterministic/world.h"
#include "transport/base/status.h"

namespace lanyard::nicsim {

struct Config {
  HaloOptions halo;
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
  // Configurations that differ in an item, which says less or is left out. The most promising come first.
  std::vector<Config> simpler() const;
  // The items and what they mean, a line each, for a program's --help.
  static std::string help();
};

// A random program in a random world: what nobody thought of. It is a valid MPI program that cannot deadlock on a NIC
// that keeps its rules, so whatever is found in it is a mistake of the protocol, of the model or of an oracle. Follows
// from the seed alone, whatever compiled it. Up to 4 ranks, some messages (regular and ready; empty, whole pieces and
// one byte off; equal tags, wildcards, longer receives), 3 queues a rank and 4 epochs, in each of which some of the
// messages go: started together or one by one, waited for at once or later, on this queue or another; freed and matched
// anew on the way; with calls that must be refused; under any strategy, with few entries or many, and with faults.
Config random_config(uint64_t seed);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_CONFIG_H_
