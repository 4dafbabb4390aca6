// The figures of a queue and its network card, as MPIX_Queue_get_info reports them at one moment.
#ifndef LANYARD_BENCH_QUEUE_INFO_H_
#define LANYARD_BENCH_QUEUE_INFO_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lanyard/lanyard.h>

namespace lanyard::bench {

class QueueInfo {
 public:
  QueueInfo() = default;  // of no queue: empty
  explicit QueueInfo(MPIX_Queue queue);

  bool empty() const { return entries_.empty(); }
  // The value of a key; empty when there is no such key.
  std::string text(const std::string& key) const;
  // The value of a key as a number; nothing when there is no such key or it is no whole number.
  std::optional<long long> number(const std::string& key) const;

  // The card, its wire and the strategy in a line for people. A card that has wires is called
  // card/wire.
  std::string summary() const;

  // One member a key, a number where it is one.
  nlohmann::ordered_json json() const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

// What became of deferred-work entries between two moments, the largest of all ranks. Collective.
struct EntryFigures {
  long long counters = 0;  // open on the card at the later moment
  long long posted = 0;
  long long overflowed = 0;

  nlohmann::ordered_json record() const;
};
EntryFigures entry_figures(const QueueInfo& before, const QueueInfo& after);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_QUEUE_INFO_H_
