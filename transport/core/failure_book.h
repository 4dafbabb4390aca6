// FailureBook: which operations the NIC has reported as failed, and who has been told. Threads: see Endpoint.
#ifndef LANYARD_TRANSPORT_CORE_FAILURE_BOOK_H_
#define LANYARD_TRANSPORT_CORE_FAILURE_BOOK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transport/core/request.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

class Queue;

// Removes and returns the last item, if there is one.
template <typename Item>
std::optional<Item> take_last(std::vector<Item>& items) {
  if (items.empty())
    return std::nullopt;
  const Item last = items.back();
  items.pop_back();
  return last;
}

class FailureBook {
 public:
  // The request of that number; null where it has been freed.
  using Find = std::function<Request*(uint64_t number)>;

  // `nic` outlives it.
  FailureBook(nic::Nic& nic, Find find) : nic_(nic), find_(std::move(find)) {}

  // Puts down in their requests what the NIC has reported as failed. Cheap where nothing failed since.
  void collect() {
    if (nic_.failures() != seen_)
      collect_new();
  }
  // An operation of this request has failed, without a record of the NIC's. Later failures of a released request are
  // only counted.
  void add(Request& request, Code code);
  // The request is about to be freed: its untold failures are nobody's.
  void forget(const Request& request);

  // Whether it was freed after its program had been told.
  bool was_told_and_freed(uint64_t number) const { return told_and_freed_.contains(number); }

  // A request of this queue (its last start was here, or an earlier one here is not known to have gone well) that
  // failed since it was last returned; null if there is none. Cheap then.
  const Request* take_failed(const Queue& queue);
  // Failures since the last call of which nobody can be told whose they are: the NIC kept no record of them, or their
  // request was freed before its program heard of them.
  uint64_t take_unrecorded();
  // A request that has failed since the last call, whose peer has to be told; null if there is none.
  Request* take_unannounced() {
    const std::optional<uint64_t> number = take_last(unannounced_);
    return number ? find_(*number) : nullptr;  // who was forgotten is not among them
  }
  bool has_unannounced() const { return !unannounced_.empty(); }
  // Whether the program has yet to hear of the request's failure.
  bool is_untold(uint64_t number) const { return std::find(untold_.begin(), untold_.end(), number) != untold_.end(); }
  // Failures so far of which the NIC kept no record: they may have been anybody's. As of the last collect().
  uint64_t lost() const { return seen_ > recorded_ ? seen_ - recorded_ : 0; }
  // Of a freed request, from now on: whether operations of it failed, or may have, as more records than `lost` were
  // lost.
  void watch(uint64_t number, uint64_t lost) { watched_.emplace(number, Watched{.lost = lost}); }
  bool has_failed(uint64_t number) const {
    const Watched& watched = watched_.at(number);
    return watched.failed || lost() > watched.lost;
  }
  void stop_watching(uint64_t number) { watched_.erase(number); }
  // A peer that an operation of the control channel has failed for.
  std::optional<uint32_t> take_unreachable() { return take_last(unreachable_); }

 private:
  struct Watched {
    bool failed = false;
    uint64_t lost = 0;
  };
  void collect_new();

  nic::Nic& nic_;
  const Find find_;
  uint64_t seen_ = 0;                              // the NIC's failures when they were collected last
  uint64_t recorded_ = 0;                          // records taken
  uint64_t orphaned_ = 0;                          // recorded, of requests that were freed untold
  uint64_t told_ = 0;                              // by take_unrecorded()
  std::vector<uint64_t> untold_;                   // numbers of requests with failures not yet reported, oldest first
  std::unordered_set<uint64_t> told_and_freed_;    // a number for each, for good: operations of theirs may yet fail
  std::vector<uint64_t> unannounced_;              // numbers of requests
  std::unordered_map<uint64_t, Watched> watched_;  // by number, freed
  std::vector<uint32_t> unreachable_;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_FAILURE_BOOK_H_
