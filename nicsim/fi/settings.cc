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
bool read_boolean(const char* name, bool unset = false) {
  const char* value = std::getenv(name);
  const auto is = [value](const char* word) { return value != nullptr && ::strcasecmp(value, word) == 0; };
  if (unset)
    return !(is("0") || is("false") || is("no") || is("off"));
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

Status read_like(Settings& settings) {
  const char* value = std::getenv("LANYARD_FI_LIKE");
  if (value == nullptr)
    return {};
  const std::string_view word(value);
  if (word == "1.15")
    settings.like = Settings::Like::k1_15;
  else if (word == "1.22")
    settings.like = Settings::Like::k1_22;
  else if (word == "2.x")
    settings.like = Settings::Like::k2;
  else
    return wrong("LANYARD_FI_LIKE", word, "1.15, 1.22 or 2.x");
  // cxip_cntr.c: cxip_cntr_read_wb() of 2.x waits for the new value.
  if (settings.like == Settings::Like::k2)
    settings.counter_read = Settings::CounterRead::kFresh;
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
  LANYARD_RETURN_IF_ERROR(read_like(settings));
  bool tcp = false;
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_SIM_WIRE", "shm", "tcp", tcp));
  settings.wire = tcp ? "tcp" : "shm";
  if (const char* interface = std::getenv("LANYARD_SIM_INTERFACE"))
    settings.interface = interface;
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_SIM_CMA", "off", "on", settings.cma));
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_SIM_MAX_MESSAGE", 1, uint64_t{1} << 40, settings.max_message_bytes));
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
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_FI_FAILURES", "ignored", "trigger", settings.failures_trigger));
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_FI_AMO_CNTRS", "optional", "required", settings.amo_needs_counters));
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_FI_HMEM", "refused", "accepted", settings.device_memory));
  LANYARD_RETURN_IF_ERROR(read_either("LANYARD_FI_VISIBILITY", "ordered", "late", settings.late_data));
  settings.optimized_regions = read_boolean("FI_CXI_OPTIMIZED_MRS", settings.optimized_regions);
  settings.cached_keys = read_boolean("FI_CXI_PROV_KEY_CACHE", settings.cached_keys);
  settings.match_events = read_boolean("FI_CXI_MR_MATCH_EVENTS", settings.match_events);
  uint64_t pause = static_cast<uint64_t>(settings.flush_pause.count());
  LANYARD_RETURN_IF_ERROR(read_number("LANYARD_FI_FLUSH_MS", 0, 60000, pause));
  settings.flush_pause = std::chrono::milliseconds(pause);
  return settings;
}

ModelLimits Settings::limits() const {
  ModelLimits limits;
  limits.deferred_depth = dwq_depth;
  limits.max_message_bytes = max_message_bytes;
  limits.newest_tie_first = newest_tie_first;
  limits.failures_trigger = failures_trigger;
  limits.set_clears_failures = false;
  return limits;
}

Result<std::unique_ptr<Wire>> Settings::open_wire() const {
  if (wire == "tcp")
    return make_tcp_wire({.interface = interface});
  Result<std::unique_ptr<ShmWire>> shm = ShmWire::create({.use_cma = cma});
  if (!shm.ok())
    return shm.status();
  return std::unique_ptr<Wire>(std::move(shm.value()));
}

}  // namespace lanyard::nicsim::fi
