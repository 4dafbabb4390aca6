#include "api/settings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace lanyard::api {

namespace {

Status wrong(const char* name, std::string_view value, const std::string& allowed) {
  return {Code::kInvalidArgument, std::string(name) + "=" + std::string(value) + ": " + allowed};
}

Status read_choice(const char* name, std::initializer_list<const char*> choices, std::string& out) {
  const char* value = std::getenv(name);
  if (value == nullptr)
    return {};
  if (std::any_of(choices.begin(), choices.end(), [&](std::string_view choice) { return choice == value; })) {
    out = value;
    return {};
  }
  std::string allowed;
  for (const char* choice : choices)
    allowed += (allowed.empty() ? "allowed is " : " or ") + std::string(choice);
  return wrong(name, value, allowed);
}

Status read_switch(const char* name, bool& out) {
  std::string value = out ? "on" : "off";
  LANYARD_RETURN_IF_ERROR(read_choice(name, {"on", "off"}, value));
  out = value == "on";
  return {};
}

Status read_strategy(const char* name, std::optional<core::Strategy>& out) {
  using core::Strategy;
  std::string value = "auto";
  LANYARD_RETURN_IF_ERROR(read_choice(
      name, {"auto", strategy_name(Strategy::kTargetCounter), strategy_name(Strategy::kSenderFlag)}, value));
  for (const Strategy strategy : core::kStrategies)
    if (value == strategy_name(strategy))
      out = strategy;
  return {};
}

Status read_number(const char* name, uint64_t least, uint64_t most, uint64_t& out) {
  const char* text = std::getenv(name);
  if (text == nullptr)
    return {};
  const std::string_view value(text);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least || number > most)
    return wrong(name, value, "allowed is a number from " + std::to_string(least) + " to " + std::to_string(most));
  out = number;
  return {};
}

Status read_seconds(const char* name, std::chrono::milliseconds& out) {
  const char* text = std::getenv(name);
  if (text == nullptr)
    return {};
  const std::string_view value(text);
  double seconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error != std::errc() || end != value.data() + value.size() || !(seconds >= 0 && seconds <= 1e6))
    return wrong(name, value, "allowed is a number of seconds from 0 to 1000000");
  out = std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));  // only 0 is never
  return {};
}

// Every variable that something of Lanyard's reads, or that installing it sets.
constexpr std::string_view kNames[] = {
    "LANYARD_CHECK",
    "LANYARD_DEADLINE_S",
    "LANYARD_GPU_BLOCKING",
    "LANYARD_GPU_LINGER_US",
    "LANYARD_GPU_SHARED",
    "LANYARD_PEER",
    "LANYARD_NIC",
    "LANYARD_OFI_COUNTS_BOTH",
    "LANYARD_OFI_DOMAIN",
    "LANYARD_OFI_DWQ_DEPTH",
    "LANYARD_OVERFLOW",
    "LANYARD_SIM_CMA",
    "LANYARD_SIM_COUNTERS",
    "LANYARD_SIM_DWQ_DEPTH",
    "LANYARD_SIM_FAULT",
    "LANYARD_SIM_INTERFACE",
    "LANYARD_SIM_MAX_MESSAGE",
    "LANYARD_SIM_REGIONS",
    "LANYARD_SIM_WIRE",
    "LANYARD_STRATEGY",
    "LANYARD_WARN_S",
    // The simulated provider (nicsim/fi).
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
    // What modules and packagers call where a library is.
    "LANYARD_DIR",
    "LANYARD_HOME",
    "LANYARD_PREFIX",
    "LANYARD_ROOT",
    "LANYARD_VERSION",
};

// How many characters have to be put in, taken out or changed to make one of the other (Levenshtein).
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

// A variable that nothing reads is a mistake that would go unseen.
Status check_names() {
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("LANYARD_") || Settings::is_known(name))
      continue;
    const std::string_view nearest = *std::min_element(
        std::begin(kNames), std::end(kNames),
        [&](std::string_view a, std::string_view b) { return distance(name, a) < distance(name, b); });
    return {Code::kInvalidArgument, std::string(name) + " is not known: did you mean " + std::string(nearest) + "?"};
  }
  return {};
}

}  // namespace

bool Settings::is_known(std::string_view name) {
  return name.starts_with("LANYARD_TEST_") ||  // the tests' own
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Result<Settings> Settings::from_environment() {
  LANYARD_RETURN_IF_ERROR(check_names());
  Settings settings;
  LANYARD_RETURN_IF_ERROR(read_choice("LANYARD_NIC", {"sim", "cxi"}, settings.nic));
  LANYARD_RETURN_IF_ERROR(read_switch("LANYARD_CHECK", settings.checked));
  LANYARD_RETURN_IF_ERROR(read_switch("LANYARD_GPU_BLOCKING", settings.gpu_blocking));
  LANYARD_RETURN_IF_ERROR(read_choice("LANYARD_GPU_SHARED", {"auto", "yes", "no"}, settings.gpu_shared));
  LANYARD_RETURN_IF_ERROR(read_choice("LANYARD_PEER", {"off", "auto"}, settings.peer));
  auto linger = static_cast<uint64_t>(settings.gpu_linger.count());
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_GPU_LINGER_US", 0, 50'000, linger));
  settings.gpu_linger = std::chrono::microseconds(linger);
  LANYARD_RETURN_IF_ERROR(read_choice("LANYARD_SIM_FAULT", {"none", "stale-device-data"}, settings.fault));
  LANYARD_RETURN_IF_ERROR(read_switch("LANYARD_OVERFLOW", settings.overflow));
  LANYARD_RETURN_IF_ERROR(read_strategy("LANYARD_STRATEGY", settings.strategy));
  LANYARD_RETURN_IF_ERROR(read_seconds("LANYARD_DEADLINE_S", settings.deadline));
  LANYARD_RETURN_IF_ERROR(read_seconds("LANYARD_WARN_S", settings.warn_after));
  LANYARD_RETURN_IF_ERROR(read_choice("LANYARD_SIM_WIRE", {"shm", "tcp"}, settings.wire));
  uint64_t depth = settings.dwq_depth;
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_SIM_DWQ_DEPTH", 1, 65536, depth));
  settings.dwq_depth = static_cast<uint32_t>(depth);
  uint64_t counters = settings.counters;
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_SIM_COUNTERS", 1, 1'000'000, counters));
  settings.counters = static_cast<uint32_t>(counters);
  uint64_t regions = settings.regions;
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_SIM_REGIONS", 1, 1'000'000, regions));
  settings.regions = static_cast<uint32_t>(regions);
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_SIM_MAX_MESSAGE", 1, uint64_t{1} << 40, settings.max_message_bytes));
  LANYARD_RETURN_IF_ERROR(read_switch("LANYARD_SIM_CMA", settings.cma));
  if (const char* domain = std::getenv("LANYARD_OFI_DOMAIN"))
    settings.ofi_domain = domain;
  LANYARD_RETURN_IF_ERROR(read_switch("LANYARD_OFI_COUNTS_BOTH", settings.ofi_counts_both));
  uint64_t ofi_depth = settings.ofi_dwq_depth;
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_OFI_DWQ_DEPTH", 1, 65536, ofi_depth));
  settings.ofi_dwq_depth = static_cast<uint32_t>(ofi_depth);
  if (const char* interface = std::getenv("LANYARD_SIM_INTERFACE"))
    settings.interface = interface;
  return settings;
}

}  // namespace lanyard::api
