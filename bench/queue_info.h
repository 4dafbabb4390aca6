// The figures of a queue and its network card, as MPIX_Queue_get_info reports them at one moment.
#ifndef LANYARD_BENCH_QUEUE_INFO_H_
#define LANYARD_BENCH_QUEUE_INFO_H_

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lanyard/lanyard.h>
#include "bench/mpi_check.h"

namespace lanyard::bench {

class QueueInfo {
 public:
  QueueInfo() = default;  // of no queue: empty
  explicit QueueInfo(MPIX_Queue queue) {
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

  bool empty() const { return entries_.empty(); }
  // The value of a key; empty when there is no such key.
  std::string text(const std::string& key) const {
    for (const auto& [name, value] : entries_)
      if (name == key)
        return value;
    return "";
  }
  // The value of a key as a number; nothing when there is no such key or it is no whole number.
  std::optional<long long> number(const std::string& key) const { return to_number(text(key)); }

  // The card, its wire and the strategy in a line for people. A card that has wires is called
  // card/wire.
  std::string summary() const {
    if (empty())
      return "none (no stream mode)";
    const std::string nic = text("nic");
    const size_t slash = nic.find('/');
    const std::string wire = slash == std::string::npos ? "its own" : nic.substr(slash + 1);
    return nic.substr(0, slash) + ", wire: " + wire + ", strategy: " + text("strategy") +
           ", deferred-work entries: " + text("entries_depth");
  }

  // One member a key, a number where it is one.
  nlohmann::ordered_json json() const {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto& [name, value] : entries_) {
      if (const auto number = to_number(value))
        object[name] = *number;
      else
        object[name] = value;
    }
    return object;
  }

 private:
  static std::optional<long long> to_number(const std::string& value) {
    if (value.empty())
      return std::nullopt;
    char* end = nullptr;
    const long long number = std::strtoll(value.c_str(), &end, 10);
    if (*end != '\0')
      return std::nullopt;
    return number;
  }

  std::vector<std::pair<std::string, std::string>> entries_;
};

// What became of deferred-work entries between two moments, the largest of all ranks. Collective.
struct EntryFigures {
  long long counters = 0;  // open on the card at the later moment
  long long posted = 0;
  long long overflowed = 0;
};
inline EntryFigures entry_figures(const QueueInfo& before, const QueueInfo& after) {
  const auto difference = [&](const char* key) {
    return after.number(key).value_or(0) - before.number(key).value_or(0);
  };
  long long values[3] = {after.number("counters").value_or(0), difference("entries_posted"),
                         difference("entries_overflowed")};
  check(MPI_Allreduce(MPI_IN_PLACE, values, 3, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
  return {values[0], values[1], values[2]};
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_QUEUE_INFO_H_
