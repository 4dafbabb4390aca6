// The rules of HPE's CXI provider (tests/cxi_rules) over the simulated one, each in a process of its own. A row that
// differs is named below with the reason; one that no longer does fails here until it is taken off the list.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/cxi_rules/rule.h"
#include "tests/cxi_rules/trial.h"
#include "tests/cxi_rules_differences.h"

namespace lanyard::cxi_rules {
namespace {

struct Case {
  Like like;
  Rule rule;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << name_of(c.like) << " " << c.rule.name; }

// All rows as 1.22 has them, and those that differ elsewhere.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Group& group : all_groups()) {
    for (const Rule& rule : group.rules) {
      all.push_back({Like::k1_22, rule});
      if (std::string_view(rule.versions) != kAll) {
        all.push_back({Like::k1_15, rule});
        all.push_back({Like::k2, rule});
      }
    }
  }
  return all;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.rule.name) + "_" + name_of(info.param.like);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

// Null: the row is kept.
const Difference* difference_of(const Rule& rule, Like like) {
  for (const Difference& difference : kDifferences) {
    if (difference.row == std::string_view(rule.name) &&
        (*difference.version == '\0' || difference.version == std::string_view(name_of(like))))
      return &difference;
  }
  return nullptr;
}

class CxiRule : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string folder = std::filesystem::current_path() / "nicsim" / "fi";
    ::setenv("FI_PROVIDER_PATH", folder.c_str(), 1);
    ::setenv("FI_PROVIDER", "cxi", 1);
    ::setenv("IPATH_NO_BACKTRACE", "1", 1);  // else PSM takes SIGSEGV
    ::setenv("LANYARD_FI_FLUSH_MS", "0", 1);
    ::setenv("LANYARD_FI_MMIO", "trap", 1);
    ::setenv("LANYARD_SIM_INTERFACE", "127.0.0.1", 1);
    ::setenv("LANYARD_FI_LIKE", name_of(GetParam().like), 1);
  }
};

TEST_P(CxiRule, IsKept) {
  const auto& [like, rule] = GetParam();
  const Outcome outcome = run(rule, like);
  if (const Difference* difference = difference_of(rule, like)) {
    EXPECT_NE(outcome.verdict, Verdict::kPassed)
        << "differs no longer: take it off tests/cxi_rules_differences.h, where it says: " << difference->reason;
  } else {
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << rule.text << "\n" << rule.source << "\n" << outcome.observed;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, CxiRule, ::testing::ValuesIn(cases()), case_name);

TEST(CxiRules, AreManyAndSayWhereTheyStand) {
  std::set<std::string_view> names;
  for (const Group& group : all_groups()) {
    EXPECT_FALSE(group.rules.empty()) << group.name;
    for (const Rule& rule : group.rules) {
      EXPECT_TRUE(names.insert(rule.name).second) << rule.name << " stands twice";
      EXPECT_TRUE(std::string_view(rule.text).ends_with(".")) << rule.name;
      EXPECT_GT(std::string_view(rule.source).size(), 8u) << rule.name;
      EXPECT_GT(std::string_view(rule.versions).size(), 3u) << rule.name;
    }
  }
  EXPECT_GE(names.size(), 120u);
}

TEST(CxiRules, DifferencesAreRows) {
  std::set<std::string_view> names;
  for (const Case& c : cases())
    names.insert(c.rule.name);
  for (const Difference& difference : kDifferences)
    EXPECT_TRUE(names.contains(difference.row)) << difference.row;
}

Outcome outcome_of(void (*check)(Trial&)) {
  return run({"Name", "Text.", "source", kAll, check}, Like::k1_22, std::chrono::seconds(2));
}

TEST(CxiRules, ChecksFail) {
  const Outcome wrong = outcome_of([](Trial& t) {
    t.code("one", 0, 0);
    t.code("another", -22, 0);
  });
  EXPECT_EQ(wrong.verdict, Verdict::kFailed);
  EXPECT_EQ(wrong.observed, "another: expected 0, observed -FI_EINVAL");
  EXPECT_EQ(outcome_of([](Trial& t) { t.code("one", 0, 0); }).verdict, Verdict::kPassed);
  EXPECT_EQ(outcome_of([](Trial& t) { t.not_offered("why"); }).verdict, Verdict::kNotOffered);
  EXPECT_EQ(outcome_of([](Trial&) {}).verdict, Verdict::kFailed);
}

TEST(CxiRules, ChecksMayCrashOrHang) {
  const Outcome crash = outcome_of([](Trial&) { ::raise(SIGKILL); });
  EXPECT_EQ(crash.verdict, Verdict::kFailed);
  EXPECT_NE(crash.observed.find("ended by a signal"), std::string::npos) << crash.observed;
  const Outcome hang = outcome_of([](Trial&) { std::this_thread::sleep_for(std::chrono::hours(1)); });
  EXPECT_EQ(hang.verdict, Verdict::kFailed);
  EXPECT_EQ(hang.observed, "it had not ended after 2 s");
}

}  // namespace
}  // namespace lanyard::cxi_rules
