// The rules of HPE's CXI provider that a user of libfabric can observe, each with a check that observes it by public
// calls. The checks know nothing of Lanyard's provider: a site runs them on Slingshot (lanyard conformance
// --provider cxi).
//
// What the real provider does was read in libfabric's prov/cxi of 1.21, 1.22, 2.1 and 2.6. The sources of 1.15 are not
// public: it is taken to be as 1.21, which no row has seen.
#ifndef LANYARD_TESTS_CXI_RULES_RULE_H_
#define LANYARD_TESTS_CXI_RULES_RULE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lanyard::cxi_rules {

// The libfabric whose rules are expected. The provider differs between these, not within them as far as rows go.
enum class Like { k1_15, k1_22, k2 };
std::optional<Like> like_of(std::string_view name);  // "1.15", "1.22", "2.x"
const char* name_of(Like like);
// Of the libfabric that is loaded; LANYARD_FI_LIKE comes first, as the simulated provider reads it.
Like like_of_this_machine();

class Trial;

struct Rule {
  const char* name;
  const char* text;
  const char* source;    // file and function below prov/cxi, or the man page
  const char* versions;  // which libfabric's have it so; kAll, or what differs
  void (*check)(Trial&);
};

inline constexpr char kAll[] = "1.21 to 2.6";

struct Group {
  const char* name;
  std::vector<Rule> rules;
};

// All of them, as the report prints them.
std::vector<Group> all_groups();

// By file.
Group info_rules();
Group object_rules();
Group counter_rules();
Group counter_extension_rules();
Group queue_rules();
Group region_rules();
Group write_rules();
Group atomic_rules();
Group work_rules();
Group work_argument_rules();
Group limit_rules();
Group message_rules();
Group address_rules();
Group extension_rules();

enum class Verdict { kPassed, kFailed, kNotOffered };

struct Outcome {
  Verdict verdict = Verdict::kFailed;
  std::string observed;
};

// Runs a check in a process of its own: its libfabric is fresh, it may set variables, crash, or hang for `limit` at
// most. So this process must not have started libfabric.
Outcome run(const Rule& rule, Like like, std::chrono::seconds limit = std::chrono::seconds(30));

// What libfabric says of the provider, a line a fact, from a process of its own; the outcome is kNotOffered where there
// is no such provider.
Outcome describe_provider();

}  // namespace lanyard::cxi_rules

#endif  // LANYARD_TESTS_CXI_RULES_RULE_H_
