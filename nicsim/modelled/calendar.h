// Calendar: a queue of events by time, for times that lie close together: buckets of a fixed width in a ring, each put
// in order when its time has come.
#ifndef LANYARD_NICSIM_MODELLED_CALENDAR_H_
#define LANYARD_NICSIM_MODELLED_CALENDAR_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "nicsim/modelled/picoseconds.h"

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
  // A bucket has 2^width_bits picoseconds, a year 2^ring_bits buckets. Neither changes the order of events.
  Calendar(int width_bits, int ring_bits)
      : width_bits_(width_bits), mask_((uint64_t{1} << ring_bits) - 1), ring_(mask_ + 1) {}

  // Requires a time that is not before that of the last event popped.
  void push(const Event& event) {
    ++size_;
    const uint64_t tick = tick_of(event);
    if (tick == now_) {
      late_.push_back(event);
      std::push_heap(late_.begin(), late_.end(), std::greater<>());
      return;
    }
    far_ = far_ || tick - now_ > mask_;
    std::vector<Event>& bucket = ring_[tick & mask_];
    if (bucket.capacity() == 0 && !spare_.empty()) {
      bucket = std::move(spare_.back());
      spare_.pop_back();
    }
    bucket.push_back(event);
  }

  // The earliest; false where there is none.
  bool pop(Event& event) {
    if (size_ == 0)
      return false;
    while (next_ == today_.size() && late_.empty())
      turn();
    --size_;
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
  uint64_t tick_of(const Event& event) const { return static_cast<uint64_t>(event.time) >> width_bits_; }

  // On to the next bucket.
  void turn() {
    ++now_;
    if (today_.capacity() > 0) {
      today_.clear();
      spare_.push_back(std::exchange(today_, {}));
    }
    next_ = 0;
    std::vector<Event>& bucket = ring_[now_ & mask_];
    if (bucket.empty())
      return;
    std::swap(today_, bucket);
    if (far_)
      put_back(bucket);
    // Ranks that do the same push theirs in runs, which merging takes as they are: a third faster than std::sort.
    if (!std::is_sorted(today_.begin(), today_.end()))
      std::stable_sort(today_.begin(), today_.end());
  }

  // What stands in the bucket for a later year.
  void put_back(std::vector<Event>& bucket) {
    std::erase_if(today_, [&](const Event& event) {
      if (tick_of(event) == now_)
        return false;
      bucket.push_back(event);
      return true;
    });
  }

  const int width_bits_;
  const uint64_t mask_;
  std::vector<std::vector<Event>> ring_;
  std::vector<std::vector<Event>> spare_;  // empty ones, for their memory: as many as were ever in use at once
  uint64_t now_ = 0;                       // the bucket whose time it is
  std::vector<Event> today_;               // its events, in order
  size_t next_ = 0;                        // in `today_`
  std::vector<Event> late_;                // of the same bucket, pushed since: a heap
  uint64_t size_ = 0;
  bool far_ = false;  // an event was ever pushed for a later year
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_CALENDAR_H_
