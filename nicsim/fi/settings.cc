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

// A variable of two words: whether it says `yes`. An unset one leaves `out` alone.
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

// As libfabric reads its providers' booleans; what is none is as if it were unset.
bool read_boolean(const char* name) {
  const char* value = std::getenv(name);
  const auto is = [value](const char* word) { return value != nullptr && ::strcasecmp(value, word) == 0; };
  return is("1") || is("true") || is("yes") || is("on");
}

template <typename Choice>
Status read_choice(const char* name, std::pair<const char*, Choice> first, std::pair<const char*, Choice> second,
                   Choice& out) {
  bool chosen = out == second.second;
  LANYARD_RETURN_IF_ERROR(read_either(name, first.first, second.first, chosen));
  out = chosen ? second.second : first.second;
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
    return wrong(name, value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
  out = number;
  return {};
}

}  // namespace

Result<Settings> Settings::from_environment() {
  Settings settings;
  bool tcp = false;
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_SIM_WIRE", "shm", "tcp", tcp));
  settings.wire = tcp ? "tcp" : "shm";
  if (const char* interface = std::getenv("LANYARD_SIM_INTERFACE"))
    settings.interface = interface;
  uint64_t depth = settings.dwq_depth;
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_FI_DWQ_DEPTH", 1, 65536, depth));
  settings.dwq_depth = static_cast<uint32_t>(depth);
  if (std::getenv("LANYARD_FI_SHARED_DEPTH") != nullptr) {
    LANYARD_RETURN_IF_ERROR(read_number("LANYARD_FI_SHARED_DEPTH", 1, 65536, depth));
    settings.dwq_depth = settings.shared_depth = static_cast<uint32_t>(depth);
    settings.job = SharedPool::job_of_this_process();
  }
  LANYARD_RETURN_IF_ERROR(read_choice<CounterRead>("LANYARD_FI_CNTR_READ", {"cached", CounterRead::kCached},
                                                   {"fresh", CounterRead::kFresh}, settings.counter_read));
  // The CXI provider's own variable first; ours says it for this provider alone.
  settings.pool = read_boolean("FI_CXI_ENABLE_TRIG_OP_LIMIT") ? Pool::kNoSpace : Pool::kStall;
  LANYARD_RETURN_IF_ERROR(
      read_choice<Pool>("LANYARD_FI_POOL", {"stall", Pool::kStall}, {"enospc", Pool::kNoSpace}, settings.pool));
  LANYARD_RETURN_IF_ERROR(
      read_choice<Mmio>("LANYARD_FI_MMIO", {"refused", Mmio::kRefused}, {"trap", Mmio::kTrap}, settings.mmio));
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_FI_TIES", "oldest", "newest", settings.newest_tie_first));
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_FI_AMO_CNTRS", "optional", "required", settings.amo_needs_counters));
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_FI_HMEM", "refused", "accepted", settings.device_memory));
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_FI_VISIBILITY", "ordered", "late", settings.late_data));
  uint64_t pause = static_cast<uint64_t>(settings.flush_pause.count());
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_FI_FLUSH_MS", 0, 60000, pause));
  settings.flush_pause = std::chrono::milliseconds(pause);
  return settings;
}

ModelLimits Settings::limits() const {
  ModelLimits limits;
  limits.deferred_depth = dwq_depth;
  limits.newest_tie_first = newest_tie_first;
  limits.set_clears_failures = false;
  return limits;
}

Result<std::unique_ptr<Wire>> Settings::open_wire() const {
  if (wire == "tcp")
    return make_tcp_wire({.interface = interface});
  Result<std::unique_ptr<ShmWire>> shm = ShmWire::create({});
  if (!shm.ok())
    return shm.status();
  return std::unique_ptr<Wire>(std::move(shm.value()));
}

}  // namespace lanyard::nicsim::fi
