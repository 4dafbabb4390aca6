#include "tools/lanyard/provider_report.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "tests/cxi_rules/rule.h"

namespace lanyard::tools {

namespace {

using cxi_rules::Group;
using cxi_rules::Like;
using cxi_rules::Outcome;
using cxi_rules::Rule;
using cxi_rules::Verdict;

std::vector<Group> chosen(const std::string& pattern) {
  std::vector<Group> groups = cxi_rules::all_groups();
  for (Group& group : groups)
    std::erase_if(group.rules, [&](const Rule& rule) { return ::fnmatch(pattern.c_str(), rule.name, 0) != 0; });
  std::erase_if(groups, [](const Group& group) { return group.rules.empty(); });
  return groups;
}

void list_rules(const std::vector<Group>& groups) {
  size_t count = 0;
  for (const Group& group : groups) {
    fmt::print("{}\n", group.name);
    for (const Rule& rule : group.rules)
      fmt::print("  {:26} {}\n  {:26} {}; {}\n", rule.name, rule.text, "", rule.source, rule.versions);
    count += group.rules.size();
  }
  fmt::print("\n{} rows\n", count);
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed: return "passed";
    case Verdict::kFailed: return "FAILED";
    case Verdict::kNotOffered: return "not offered";
  }
  return "";
}

}  // namespace

int report_provider(const ProviderReport& report) {
  const std::vector<Group> groups = chosen(report.rows);
  if (report.list) {
    list_rules(groups);
    return groups.empty() ? 1 : 0;
  }
  // The simulated provider follows the version that is asked for; others do not know the variable.
  if (!report.like.empty())
    ::setenv("LANYARD_FI_LIKE", report.like.c_str(), 1);
  const Like like = cxi_rules::like_of_this_machine();
  const Outcome facts = cxi_rules::describe_provider();
  if (facts.verdict != Verdict::kPassed) {
    fmt::print(stderr, "lanyard: {}\n", facts.observed);
    return 1;
  }
  utsname system{};
  uname(&system);
  fmt::print("lanyard conformance --provider cxi --like {}\n", cxi_rules::name_of(like));
  fmt::print("system    {} {} {}\n{}\n", system.sysname, system.release, system.machine, facts.observed);
  std::map<Verdict, int> counts;
  for (const Group& group : groups) {
    fmt::print("{}\n", group.name);
    for (const Rule& rule : group.rules) {
      const Outcome outcome = cxi_rules::run(rule, like);
      ++counts[outcome.verdict];
      fmt::print("  {:26} {:11}  {}  [{}]\n", rule.name, name_of(outcome.verdict), outcome.observed, rule.source);
      std::fflush(stdout);
    }
  }
  fmt::print("\n{} passed, {} failed, {} not offered\n", counts[Verdict::kPassed], counts[Verdict::kFailed],
             counts[Verdict::kNotOffered]);
  return counts[Verdict::kFailed] > 0 || counts[Verdict::kPassed] == 0 ? 1 : 0;
}

}  // namespace lanyard::tools
