// The options that say which patterns are meant, for every program that takes patterns. No MPI.
#ifndef LANYARD_BENCH_PATTERNS_OPTIONS_H_
#define LANYARD_BENCH_PATTERNS_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/patterns/pattern.h"
#include "transport/base/status.h"

namespace lanyard::bench::patterns {

struct PatternOptions {
  std::vector<std::string> patterns = {"rail"};  // families, collectives, files
  std::vector<std::string> directions = {"out"};
  std::vector<int> subgroups;   // none: the group
  std::vector<uint64_t> bytes;  // none: 65536, and 4 of a file's count
  int nodes = 2;
  int group = 1;
  bool divide = false;
  bool stripes = false;
  enum class Order : uint8_t { kApart, kSequence, kConcurrent };
  Order order = Order::kApart;  // of several patterns
};

// --pattern, --direction, --subgroup, --divide, --stripe.
inline void add_pattern_options(CLI::App& app, PatternOptions& o) {
  app.add_option("--pattern", o.patterns,
                 "rail, fan, dense, self, broadcast, scatter, gather, reduce, alltoall, or a file; a comma list "
                 "(default: rail)")
      ->delimiter(',')
      ->type_name("NAME|FILE,...");
  app.add_option("--direction", o.directions, "out, in, bi, omni; a comma list (default: out)")
      ->delimiter(',')
      ->check(CLI::IsMember({"out", "in", "bi", "omni"}).description(""))
      ->type_name("NAME,...");
  app.add_option("--subgroup", o.subgroups, "places of a node that take part, a comma list (default: all)")
      ->delimiter(',')
      ->check(CLI::Range(1, Pattern::kMostRanks).description(""))
      ->type_name("N,...");
  app.add_flag("--divide", o.divide, "--bytes are divided among a rank's messages: rail, fan and dense");
  app.add_flag("--stripe", o.stripes, "messages between nodes go in parts over all places of both nodes");
}

// One plan that the options ask for.
struct PatternCase {
  std::string name;
  std::string direction = "-";  // "-": it has none, and no subgroup
  int subgroup = 0;
  uint64_t bytes = 0;       // of a message, or of a file's count
  uint64_t data_bytes = 0;  // of all messages before striping
  Plan plan;
};

inline const std::map<std::string, Family> kFamilies = {
    {"rail", Family::kRail}, {"fan", Family::kFan}, {"dense", Family::kDense}, {"self", Family::kSelf}};
inline const std::map<std::string, Direction> kDirections = {
    {"out", Direction::kOut}, {"in", Direction::kIn}, {"bi", Direction::kBi}, {"omni", Direction::kOmni}};
inline const std::map<std::string, Collective> kCollectives = {{"broadcast", Collective::kBroadcast},
                                                               {"scatter", Collective::kScatter},
                                                               {"gather", Collective::kGather},
                                                               {"reduce", Collective::kReduce},
                                                               {"alltoall", Collective::kAllToAll}};

inline bool is_file(const std::string& name) { return !kFamilies.contains(name) && !kCollectives.contains(name); }

// One pattern or collective, whole. `bytes`: 0 for the usual ones.
inline Result<PatternCase> make_case(const PatternOptions& o, const std::string& name, const std::string& direction,
                                     int subgroup, uint64_t bytes) {
  PatternCase made{.name = name, .bytes = bytes > 0 ? bytes : is_file(name) ? 4 : 65536, .plan = {}};
  if (kCollectives.contains(name)) {
    if (o.stripes)
      return Status(Code::kInvalidArgument, "a collective has no stripes");
    LANYARD_ASSIGN_OR_RETURN(made.plan, make_collective(kCollectives.at(name), o.nodes, o.group, made.bytes));
  } else {
    Shape shape;
    if (!is_file(name)) {
      made.direction = direction;
      made.subgroup = subgroup;
      shape = {kFamilies.at(name), kDirections.at(direction), o.nodes, o.group, subgroup, made.bytes, o.divide};
    }
    LANYARD_ASSIGN_OR_RETURN(const Pattern pattern,
                             is_file(name) ? read_pattern(name, made.bytes) : make_pattern(shape));
    made.plan = Plan({pattern});
  }
  made.data_bytes = made.plan.bytes();
  if (o.stripes)
    made.plan = striped(made.plan.steps().front(), o.group);
  return made;
}

// Every combination of the lists, as far as it makes a difference. kInvalidArgument, and why.
inline Result<std::vector<PatternCase>> make_cases(const PatternOptions& o) {
  const std::vector<uint64_t> all_bytes = o.bytes.empty() ? std::vector<uint64_t>{0} : o.bytes;
  const std::vector<int> subgroups = o.subgroups.empty() ? std::vector<int>{o.group} : o.subgroups;
  const bool is_apart = o.order == PatternOptions::Order::kApart;
  const bool is_at_once = o.order == PatternOptions::Order::kConcurrent;
  std::vector<PatternCase> cases;
  for (const uint64_t bytes : all_bytes)
    for (const std::string& direction : o.directions)
      for (const int subgroup : subgroups) {
        const size_t known = cases.size();
        for (const std::string& name : o.patterns) {
          const bool is_first = direction == o.directions.front() && subgroup == subgroups.front();
          if (is_apart && !is_first && !kFamilies.contains(name))
            continue;
          Result<PatternCase> one = make_case(o, name, direction, subgroup, bytes);
          if (!one.ok())
            return is_file(name) ? one.status() : Status(Code::kInvalidArgument, name + ": " + one.status().message());
          if (is_apart || cases.size() == known) {
            cases.push_back(std::move(one.value()));
            continue;
          }
          PatternCase& all = cases.back();
          all.name += (is_at_once ? " | " : " ; ") + name;
          all.data_bytes += one.value().data_bytes;
          all.plan = is_at_once ? all.plan.beside(one.value().plan) : all.plan.then(one.value().plan);
        }
      }
  return cases;
}

}  // namespace lanyard::bench::patterns

#endif  // LANYARD_BENCH_PATTERNS_OPTIONS_H_
