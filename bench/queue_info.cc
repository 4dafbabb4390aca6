#include "bench/queue_info.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bench/mpi_check.h"

namespace lanyard::bench {

namespace {

std::optional<long long> to_number(const std::string& value) {
  if (value.empty())
    return std::nullopt;
  char* end = nullptr;
  const long long number = std::strtoll(value.c_str(), &end, 10);
  if (*end != '\0')
    return std::nullopt;
  return number;
}

}  // namespace

QueueInfo::QueueInfo(MPIX_Queue queue) {
  MPI_Info info = MPI_INFO_NULL;
  check(MPIX_Queue_get_info(queue, &info), "MPIX_Queue_get_info");
  int keys = 0;
  check(MPI_Info_get_nkeys(info, &keys), "MPI_Info_get_nkeys");
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = "";
    int length = 0, found = 0;
    check(MPI_Info_get_nthkey(info, i, key), "MPI_Info_get_nthkey");
    check(MPI_Info_get_valuelen(info, key, &length, &found), "MPI_Info_get_valuelen");
    std::vector<char> value(static_cast<size_t>(length) + 1, '\0');
    check(MPI_Info_get(info, key, length, value.data(), &found), "MPI_Info_get");
    entries_.emplace_back(key, value.data());
  }
  check(MPI_Info_free(&info), "MPI_Info_free");
}

std::string QueueInfo::text(const std::string& key) const {
  for (const auto& [name, value] : entries_)
    if (name == key)
      return value;
  return "";
}

std::optional<long long> QueueInfo::number(const std::string& key) const { return to_number(text(key)); }

std::string QueueInfo::summary() const {
  if (empty())
    return "none (no stream mode)";
  const std::string nic = text("nic");
  const size_t slash = nic.find('/');
  const std::string wire = slash == std::string::npos ? "its own" : nic.substr(slash + 1);
  return nic.substr(0, slash) + ", wire: " + wire + ", strategy: " + text("strategy") +
         ", deferred-work entries: " + text("entries_depth");
}

nlohmann::ordered_json QueueInfo::json() const {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : entries_) {
    if (const auto number = to_number(value))
      object[name] = *number;
    else
      object[name] = value;
  }
  return object;
}

nlohmann::ordered_json EntryFigures::record() const {
  return {{"counters", counters}, {"entries_posted", posted}, {"entries_overflowed", overflowed}};
}

EntryFigures entry_figures(const QueueInfo& before, const QueueInfo& after) {
  const auto difference = [&](const char* key) {
    return after.number(key).value_or(0) - before.number(key).value_or(0);
  };
  long long values[3] = {after.number("counters").value_or(0), difference("entries_posted"),
                         difference("entries_overflowed")};
  check(MPI_Allreduce(MPI_IN_PLACE, values, 3, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
  return {values[0], values[1], values[2]};
}

}  // namespace lanyard::bench
