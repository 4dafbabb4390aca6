#include "bench/patterns/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

namespace lanyard::bench::patterns {
namespace {

constexpr std::pair<const char*, Family> kFamilies[] = {
    {"rail", Family::kRail}, {"fan", Family::kFan}, {"dense", Family::kDense}, {"self", Family::kSelf}};
constexpr std::pair<const char*, Direction> kDirections[] = {
    {"out", Direction::kOut}, {"in", Direction::kIn}, {"bi", Direction::kBi}, {"omni", Direction::kOmni}};
constexpr std::pair<const char*, Collective> kCollectives[] = {{"broadcast", Collective::kBroadcast},
                                                               {"scatter", Collective::kScatter},
                                                               {"gather", Collective::kGather},
                                                               {"reduce", Collective::kReduce},
                                                               {"alltoall", Collective::kAllToAll}};

template <class T, size_t kCount>
std::optional<T> named(const std::pair<const char*, T> (&table)[kCount], const std::string& name) {
  const auto at = std::find_if(std::begin(table), std::end(table), [&](const auto& row) { return row.first == name; });
  return at == std::end(table) ? std::nullopt : std::optional(at->second);
}

constexpr uint64_t kMessageBytes = 65536, kCountBytes = 4;

Status invalid(const std::string& what) { return {Code::kInvalidArgument, what}; }

using Read = std::function<Result<std::string>(const std::string&)>;

// One pattern or collective, whole.
Result<PatternCase> make_case(const PatternOptions& o, const std::string& name, const std::string& direction,
                              int subgroup, std::optional<uint64_t> bytes, const Read& read) {
  PatternCase made{name, "-", 0, bytes.value_or(kMessageBytes), 0, Plan()};
  if (const auto collective = named(kCollectives, name)) {
    if (o.stripes)
      return invalid("a collective has no stripes");
    LANYARD_ASSIGN_OR_RETURN(made.plan, make_collective(*collective, o.nodes, o.group, made.bytes));
  } else if (const auto family = named(kFamilies, name)) {
    made.direction = direction;
    made.subgroup = subgroup;
    LANYARD_ASSIGN_OR_RETURN(const Pattern pattern, make_pattern({*family, *named(kDirections, direction), o.nodes,
                                                                  o.group, subgroup, made.bytes, o.divide}));
    made.plan = Plan({pattern});
  } else {
    made.bytes = bytes.value_or(kCountBytes);
    LANYARD_ASSIGN_OR_RETURN(const std::string text, read(name));
    LANYARD_ASSIGN_OR_RETURN(const Pattern pattern, parse_pattern(text, name, made.bytes));
    made.plan = Plan({pattern});
  }
  made.data_bytes = made.plan.bytes();
  if (o.stripes)
    made.plan = striped(made.plan.steps().front(), o.group);
  return made;
}

// Two cases of one composition.
PatternCase joined(PatternCase a, const PatternCase& b, PatternOptions::Order order) {
  const bool at_once = order == PatternOptions::Order::kConcurrent;
  a.name += (at_once ? " | " : " ; ") + b.name;
  a.data_bytes += b.data_bytes;
  a.plan = at_once ? a.plan.beside(b.plan) : a.plan.then(b.plan);
  return a;
}

}  // namespace

void add_pattern_options(CLI::App& app, PatternOptions& o) {
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

Result<std::vector<PatternCase>> make_cases(const PatternOptions& o, const Read& read) {
  std::vector<std::optional<uint64_t>> all_bytes(o.bytes.begin(), o.bytes.end());
  if (all_bytes.empty())
    all_bytes.emplace_back();
  const std::vector<int> subgroups = o.subgroups.empty() ? std::vector<int>{o.group} : o.subgroups;
  const bool apart = o.order == PatternOptions::Order::kApart;
  std::vector<PatternCase> cases;
  for (const auto& bytes : all_bytes)
    for (const std::string& direction : o.directions)
      for (const int subgroup : subgroups) {
        const size_t known = cases.size();
        for (const std::string& name : o.patterns) {
          const bool is_first = direction == o.directions.front() && subgroup == subgroups.front();
          if (apart && !is_first && !named(kFamilies, name))
            continue;
          Result<PatternCase> one = make_case(o, name, direction, subgroup, bytes, read);
          if (!one.ok())
            return one.status().code() == Code::kInvalidArgument &&
                           (named(kFamilies, name) || named(kCollectives, name))
                       ? invalid(name + ": " + one.status().message())
                       : one.status();
          if (apart || cases.size() == known)
            cases.push_back(std::move(one.value()));
          else
            cases.back() = joined(std::move(cases.back()), one.value(), o.order);
        }
      }
  return cases;
}

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // To insert nothing would count as a failure.
  if (file.peek() != std::ifstream::traits_type::eof())
    text << file.rdbuf();
  if (!file.is_open() || file.bad() || !text)
    return Status(Code::kNotFound, path + ": cannot be read");
  return std::move(text).str();
}

}  // namespace lanyard::bench::patterns
