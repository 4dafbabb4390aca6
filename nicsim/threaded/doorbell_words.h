// DoorbellWords: one word a counter, for rings by whatever can add to memory (nic.h, DoorbellKind::kAtomicAdd).
//
// The card only reads them, as a GPU's add is not indivisible against a write of the host's: it keeps what it has seen
// of each word and rings the difference, modulo 2^64. A total below the last one seen was stored earlier and arrived
// late: it rings nothing.
//
// A word keeps its value when its counter is closed, and counts from there when it is handed out again: rings that land
// in between vanish. A ring that lands still later counts for the next counter. Close a counter only when no ring of it
// is in flight.
//
// The words have pages to themselves, because a GPU's driver makes whole pages known to the GPU.
//
// Threads: whoever drives the NIC; the words themselves are anybody's to add to.
#ifndef LANYARD_NICSIM_THREADED_DOORBELL_WORDS_H_
#define LANYARD_NICSIM_THREADED_DOORBELL_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/nic/nic.h"

namespace lanyard::nicsim {

class DoorbellWords {
 public:
  explicit DoorbellWords(uint32_t counters);
  ~DoorbellWords();
  DoorbellWords(const DoorbellWords&) = delete;
  DoorbellWords& operator=(const DoorbellWords&) = delete;

  // The counter's word, which is looked at from now on until take_back().
  uint64_t* hand_out(nic::CounterId counter);
  void take_back(nic::CounterId counter);
  uint32_t handed_out() const { return static_cast<uint32_t>(armed_.size()); }

  // Calls ring(counter, value) for every word that has been added to since it was last looked at; returns how many.
  template <typename Ring>
  size_t read(Ring&& ring) {
    size_t rung = 0;
    for (Armed& armed : armed_) {
      const uint64_t now = load(armed.counter);
      if (static_cast<int64_t>(now - armed.seen) <= 0)
        continue;
      const uint64_t before = armed.seen;
      armed.seen = now;
      ring(nic::CounterId{armed.counter}, now - before);
      ++rung;
    }
    return rung;
  }

 private:
  struct Armed {
    uint32_t counter = 0;
    uint64_t seen = 0;
  };

  // What the ringer wrote before it rang is seen afterwards.
  uint64_t load(uint32_t counter) const { return __atomic_load_n(&words_[counter], __ATOMIC_ACQUIRE); }

  uint64_t* words_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Armed> armed_;  // those that were handed out
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_DOORBELL_WORDS_H_
