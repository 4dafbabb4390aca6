#include "api/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

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
  LANYARD_RETURN_IF_ERROR(read_choice(name,
                                      {"auto", strategy_name(Strategy::kTargetCounter),
                                       strategy_name(Strategy::kSenderFlag), strategy_name(Strategy::kWriteBack)},
                                      value));
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

}  // namespace

Result<Settings> Settings::from_environment() {
  Settings settings;
  LANYARD_RETURN_IF_ERROR(read_choice("LANYARD_NIC", {"sim", "ofi", "cxi"}, settings.nic));
  LANYARD_RETURN_IF_ERROR(read_switch("LANYARD_CHECK", settings.checked));
  LANYARD_RETURN_IF_ERROR(read_switch("LANYARD_GPU", settings.gpu));
  LANYARD_RETURN_IF_ERROR(read_switch("LANYARD_GPU_BLOCKING", settings.gpu_blocking));
  LANYARD_RETURN_IF_ERROR(read_choice("LANYARD_GPU_SHARED", {"auto", "yes", "no"}, settings.gpu_shared));
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
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_SIM_MAX_MESSAGE", 1, uint64_t{1} << 40, settings.max_message_bytes));
  LANYARD_RETURN_IF_ERROR(read_switch("LANYARD_SIM_CMA", settings.cma));
  auto spin = static_cast<uint64_t>(settings.spin.count());
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_SIM_SPIN_MS", 0, 1'000'000, spin));
  settings.spin = std::chrono::milliseconds(spin);
  // What `cxi` and `ofi` differ in: the provider that they stand for where none is named.
  settings.ofi_provider = settings.nic == "cxi" ? "cxi" : settings.nic == "ofi" ? "sockets" : "";
  LANYARD_RETURN_IF_ERROR(read_choice("LANYARD_OFI_PROVIDER", {"cxi", "sockets"}, settings.ofi_provider));
  if (const char* domain = std::getenv("LANYARD_OFI_DOMAIN"))
    settings.ofi_domain = domain;
  uint64_t ofi_depth = settings.ofi_dwq_depth;
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_OFI_DWQ_DEPTH", 1, 65536, ofi_depth));
  settings.ofi_dwq_depth = static_cast<uint32_t>(ofi_depth);
  if (const char* interface = std::getenv("LANYARD_SIM_INTERFACE"))
    settings.interface = interface;
  return settings;
}

}  // namespace lanyard::api
