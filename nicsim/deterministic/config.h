// Config: a workload and its world, as one line of text: "2ranks,1req-each-way,2iter,depth=5".
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
  std::shared_ptr<const Scenario> program;  // replaces the halo; null: none
  WorldOptions world;

  // Returns the scenario to run: the program, or else the halo.
  Scenario scenario() const;

  // Takes items separated by commas, in any order, each at most once; help() lists them. All others
  // keep the defaults of the structs. program=... (Scenario::parse()) replaces the halo's items.
  // kInvalidArgument says what is wrong.
  static Result<Config> parse(const std::string& text);
  // Returns text for parse(): ranks, requests, iterations, and all that differs from the defaults.
  std::string to_string() const;
  // Returns configurations in which an item is smaller or left out, the most promising first.
  std::vector<Config> simpler() const;
  // Lists the items and their meaning, one a line, for a program's --help.
  static std::string help();
};

// Makes a random program in a random world. It is a valid MPI program that cannot deadlock on a NIC
// that keeps its rules, so every finding is a bug of the protocol, of the model or of an oracle. It
// depends on the seed alone, with every compiler. It has up to 4 ranks, 3 queues a rank and 4
// epochs. Messages: regular and ready; empty, whole pieces and one byte off; with equal tags,
// wildcards and longer receives. Each epoch starts some of them together or one by one, and waits
// at once or later, on the same or another queue. Requests are freed and matched anew, and some
// calls must be refused. The strategy, the number of entries and the faults vary.
Config random_config(uint64_t seed);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_CONFIG_H_
