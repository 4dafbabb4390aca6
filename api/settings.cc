#include "api/settings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace lanyard::api {

namespace {

using core::Strategy;

// Stores a value in the settings. Returns "", or the allowed values if it is wrong.
using Reader = std::function<std::string(std::string_view value, Settings& settings)>;

// Accepts one of these words, each with its value.
template <typename Value>
Reader one_of(Value Settings::*field, std::vector<std::pair<std::string, Value>> choices) {
  return [=](std::string_view text, Settings& settings) {
    std::string allowed;
    for (const auto& [word, value] : choices) {
      if (word == text) {
        settings.*field = value;
        return std::string();
      }
      allowed += (allowed.empty() ? "allowed is " : " or ") + word;
    }
    return allowed;
  };
}

Reader word(std::string Settings::*field, const std::vector<std::string>& words) {
  std::vector<std::pair<std::string, std::string>> choices;
  for (const std::string& each : words)
    choices.emplace_back(each, each);
  return one_of(field, choices);
}

Reader on_or_off(bool Settings::*field) { return one_of<bool>(field, {{"on", true}, {"off", false}}); }

Reader strategy(std::optional<Strategy> Settings::*field) {
  std::vector<std::pair<std::string, std::optional<Strategy>>> choices = {{"auto", std::nullopt}};
  for (const Strategy each : core::kStrategies)
    choices.emplace_back(strategy_name(each), each);
  return one_of(field, choices);
}

template <typename Number>
Reader number(Number Settings::*field, uint64_t least, uint64_t most) {
  return [=](std::string_view value, Settings& settings) -> std::string {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < least || number > most)
      return "allowed is a number from " + std::to_string(least) + " to " + std::to_string(most);
    settings.*field = static_cast<Number>(number);
    return {};
  };
}

Reader seconds(std::chrono::milliseconds Settings::*field) {
  return [=](std::string_view value, Settings& settings) -> std::string {
    double seconds = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (error != std::errc() || end != value.data() + value.size() || !(seconds >= 0 && seconds <= 1e6))
      return "allowed is a number of seconds from 0 to 1000000";
    // Rounds up: only 0 means never.
    settings.*field = std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
    return {};
  };
}

Reader any_text(std::string Settings::*field) {
  return [=](std::string_view value, Settings& settings) {
    settings.*field = value;
    return std::string();
  };
}

struct Variable {
  const char* name;
  Reader read;
};

const std::vector<Variable>& variables() {
  using S = Settings;
  static const std::vector<Variable> all = {
      {"LANYARD_NIC", word(&S::nic, {"sim", "cxi"})},
      {"LANYARD_CHECK", on_or_off(&S::checked)},
      {"LANYARD_OVERFLOW", on_or_off(&S::overflow)},
      {"LANYARD_STRATEGY", strategy(&S::strategy)},
      {"LANYARD_DEADLINE_S", seconds(&S::deadline)},
      {"LANYARD_WARN_S", seconds(&S::warn_after)},
      {"LANYARD_SIM_WIRE", word(&S::wire, {"shm", "tcp"})},
      {"LANYARD_SIM_INTERFACE", any_text(&S::interface)},
      {"LANYARD_SIM_DWQ_DEPTH", number(&S::dwq_depth, 1, 65536)},
      {"LANYARD_SIM_COUNTERS", number(&S::counters, 1, 1'000'000)},
      {"LANYARD_SIM_REGIONS", number(&S::regions, 1, 1'000'000)},
      {"LANYARD_SIM_MAX_MESSAGE", number(&S::max_message_bytes, 1, uint64_t{1} << 40)},
      {"LANYARD_SIM_CMA", on_or_off(&S::cma)},
      {"LANYARD_SIM_FAULT", word(&S::fault, {"none", "stale-device-data"})},
      {"LANYARD_OFI_DOMAIN", any_text(&S::ofi_domain)},
      {"LANYARD_OFI_DWQ_DEPTH", number(&S::ofi_dwq_depth, 1, 65536)},
      {"LANYARD_OFI_COUNTS_BOTH", on_or_off(&S::ofi_counts_both)},
      {"LANYARD_GPU_SHARED", word(&S::gpu_shared, {"auto", "yes", "no"})},
      {"LANYARD_GPU_BLOCKING", on_or_off(&S::gpu_blocking)},
      {"LANYARD_GPU_LINGER_US", number(&S::gpu_linger, 0, 50'000)},
      {"LANYARD_PEER", word(&S::peer, {"off", "auto"})},
  };
  return all;
}

// Variables of the simulated provider (nicsim/fi).
// clang-format off
constexpr std::string_view kProviderNames[] = {
    "LANYARD_FI_CNTR_READ",
    "LANYARD_FI_DWQ_DEPTH",
    "LANYARD_FI_FLUSH_MS",
    "LANYARD_FI_HMEM",
    "LANYARD_FI_JOB",
    "LANYARD_FI_MMIO",
    "LANYARD_FI_POOL",
    "LANYARD_FI_SHARED_DEPTH",
    "LANYARD_FI_TIES",
    "LANYARD_FI_VISIBILITY",
};
// clang-format on

// Endings of variables of build systems and module files, such as LANYARD_ROOT.
constexpr std::string_view kIgnoredEndings[] = {
    "BIN", "DIR", "DIRS", "HOME", "INC", "INCLUDE", "LIB", "LIBRARIES", "LIBRARY", "PATH", "PREFIX", "ROOT", "VERSION",
};

// Levenshtein distance: how many insertions, deletions and changes turn one string into the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({changed, corner + 1, row[j] + 1});
    }
  }
  return row.back();
}

// Rejects unknown variables: nothing else would show a misspelt name.
Status check_names() {
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("LANYARD_") || Settings::is_known(name))
      continue;
    std::vector<std::string_view> names(std::begin(kProviderNames), std::end(kProviderNames));
    for (const Variable& each : variables())
      names.push_back(each.name);
    const std::string_view nearest =
        *std::ranges::min_element(names, {}, [&](std::string_view each) { return distance(name, each); });
    return {Code::kInvalidArgument, std::string(name) + " is not known: did you mean " + std::string(nearest) + "?"};
  }
  return {};
}

}  // namespace

bool Settings::is_known(std::string_view name) {
  return name.starts_with("LANYARD_TEST_") ||  // variables of the tests
         std::ranges::find(kProviderNames, name) != std::end(kProviderNames) ||
         std::ranges::any_of(kIgnoredEndings, [&](std::string_view ending) { return name.ends_with(ending); }) ||
         std::ranges::any_of(variables(), [&](const Variable& each) { return each.name == name; });
}

Result<Settings> Settings::from_environment() {
  LANYARD_RETURN_IF_ERROR(check_names());
  Settings settings;
  for (const Variable& each : variables()) {
    const char* value = std::getenv(each.name);
    if (value == nullptr)
      continue;
    if (const std::string allowed = each.read(value, settings); !allowed.empty())
      return Status(Code::kInvalidArgument, std::string(each.name) + "=" + value + ": " + allowed);
  }
  return settings;
}

}  // namespace lanyard::api
