// Calendar: a queue of events by time, for times that lie close together: buckets of a fixed width, each put in order
// when its time has come.
#ifndef LANYARD_NICSIM_MODELLED_CALENDAR_H_
#define LANYARD_NICSIM_MODELLED_CALENDAR_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "nicsim/modelled/program.h"

namespace lanyard::modelled {

// What happens at a time. Events of one time happen in the order of their ranks, those of a rank in that of `what`: the
// order says nothing about how they got here, so it is the same whatever the queue.
struct Event {
  Picoseconds time = 0;
  uint32_t rank = 0;
  uint32_t what = 0;
  friend bool operator==(const Event&, const Event&) = default;
  friend bool operator<(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.order() < b.order();
  }
  friend bool operator>(const Event& a, const Event& b) { return b < a; }

 private:
  uint64_t order() const { return uint64_t{rank} << 32 | what; }
};

class Calendar {
 public:
  // Requires a time that is not before that of the last event popped.
  void push(const Event& event) {
    const uint64_t bucket = bucket_of(event);
    if (bucket != now_) {
      later_[bucket].push_back(event);
      return;
    }
    late_.push_back(event);
    std::push_heap(late_.begin(), late_.end(), std::greater<>());
  }

  // The earliest; false where there is none.
  bool pop(Event& event) {
    if (next_ == today_.size() && late_.empty() && !turn())
      return false;
    if (next_ < today_.size() && (late_.empty() || today_[next_] < late_.front())) {
      event = today_[next_++];
      return true;
    }
    std::pop_heap(late_.begin(), late_.end(), std::greater<>());
    event = late_.back();
    late_.pop_back();
    return true;
  }

 private:
  // 8 ns.
  static uint64_t bucket_of(const Event& event) { return static_cast<uint64_t>(event.time) >> 13; }

  // On to the next bucket that has events.
  bool turn() {
    if (later_.empty())
      return false;
    now_ = later_.begin()->first;
    today_ = std::move(later_.begin()->second);
    later_.erase(later_.begin());
    next_ = 0;
    // Ranks that do the same push theirs in runs, which merging takes as they are: a third faster than std::sort.
    if (!std::is_sorted(today_.begin(), today_.end()))
      std::stable_sort(today_.begin(), today_.end());
    return true;
  }

  std::map<uint64_t, std::vector<Event>> later_;
  uint64_t now_ = 0;          // the bucket whose time it is
  std::vector<Event> today_;  // its events, in order
  size_t next_ = 0;           // in `today_`
  std::vector<Event> late_;   // of the same bucket, pushed since: a heap
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_CALENDAR_H_
