#include "nicsim/fi/settings.h"

#include <strings.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "nicsim/fi/shared_pool.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/tcp_wire.h"

namespace lanyard::nicsim::fi {

namespace {

Status wrong(const char* name, std::string_view value, const std::string& allowed) {
  return {Code::kInvalidArgument, std::string(name) + "=" + std::string(value) + ": allowed is " + allowed};
}

// Reads a variable with two values: sets `out` to whether it is `yes`. An unset one does
// not change `out`.
Status read_either(const char* name, const char* no, const char* yes, bool& out) {
  const char* value = std::getenv(name);
  if (value == nullptr)
    return {};
  const std::string_view word(value);
  if (word != yes && word != no)
    return wrong(name, word, std::string(no) + " or " + yes);
  out = word == yes;
  return {};
}

// Reads a boolean as libfabric does. An invalid value counts as unset.
bool read_boolean(const char* name) {
  const char* value = std::getenv(name);
  const auto is = [value](const char* word) { return value != nullptr && ::strcasecmp(value, word) == 0; };
  return is("1") || is("true") || is("yes") || is("on");
}

Status read_number(const char* name, uint32_t least, uint32_t most, uint32_t& out) {
  const char* text = std::getenv(name);
  if (text == nullptr)
    return {};
  const std::string_view value(text);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least || number > most)
    return wrong(name, value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
  out = static_cast<uint32_t>(number);
  return {};
}

Numbering numbering_by_launcher() {
  constexpr const char* kVariables[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank, size] : kVariables) {
    Numbering numbering;
    if (std::getenv(rank) != nullptr && read_number(size, 1, UINT32_MAX, numbering.processes).ok() &&
        numbering.processes > 0 && read_number(rank, 0, numbering.processes - 1, numbering.number).ok())
      return numbering;
  }
  return {};
}

}  // namespace

Result<Settings> Settings::from_environment() {
  Settings settings;
  if (const char* interface = std::getenv("LANYARD_SIM_INTERFACE"))
    settings.interface = interface;
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_FI_DWQ_DEPTH", 1, 65536, settings.dwq_depth));
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_FI_SHARED_DEPTH", 1, SharedPool::kMost, settings.shared_depth));
  if (settings.shared_depth > 0) {
    settings.dwq_depth = settings.shared_depth;
    settings.job = SharedPool::job_of_this_process();
  }
  // First the CXI provider's own variable, then the variable of this provider alone.
  settings.refuses_without_entry = read_boolean("FI_CXI_ENABLE_TRIG_OP_LIMIT");
  const struct {
    const char *name, *no, *yes;
    bool& setting;
  } choices[] = {
      {"LANYARD_SIM_WIRE", "shm", "tcp", settings.tcp},
      {"LANYARD_FI_CNTR_READ", "cached", "fresh", settings.fresh_reads},
      {"LANYARD_FI_POOL", "stall", "enospc", settings.refuses_without_entry},
      {"LANYARD_FI_MMIO", "refused", "trap", settings.traps_stores},
      {"LANYARD_FI_TIES", "oldest", "newest", settings.newest_tie_first},
      {"LANYARD_FI_HMEM", "refused", "accepted", settings.device_memory},
      {"LANYARD_FI_VISIBILITY", "ordered", "late", settings.late_data},
  };
  for (const auto& choice : choices)
    LANYARD_RETURN_IF_ERROR(read_either(choice.name, choice.no, choice.yes, choice.setting));
  auto pause = static_cast<uint32_t>(settings.flush_pause.count());
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_FI_FLUSH_MS", 0, 60000, pause));
  settings.flush_pause = std::chrono::milliseconds(pause);
  settings.numbering = numbering_by_launcher();
  return settings;
}

ModelLimits Settings::limits() const {
  ModelLimits limits;
  limits.deferred_depth = dwq_depth;
  limits.newest_tie_first = newest_tie_first;
  return limits;
}

Result<std::unique_ptr<Wire>> Settings::open_wire() const {
  return tcp ? make_tcp_wire({.interface = interface}) : make_shm_wire();
}

}  // namespace lanyard::nicsim::fi
