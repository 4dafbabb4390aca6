// DoorbellWords: one word a counter. Anything that can add to memory rings it (nic.h,
// DoorbellKind::kAtomicAdd). The NIC only reads the words (nicsim/README.md).
//
// Close a counter only when no ring of it is in flight: its next owner counts on from its word.
//
// Threads: the one that drives the NIC. Any thread or device may add to the words.
#ifndef LANYARD_NICSIM_THREADED_DOORBELL_WORDS_H_
#define LANYARD_NICSIM_THREADED_DOORBELL_WORDS_H_

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/base/check.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

class DoorbellWords {
 public:
  explicit DoorbellWords(uint32_t counters) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    bytes_ = (counters * sizeof(uint64_t) + page - 1) / page * page;
    void* pages = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LANYARD_CHECK(pages != MAP_FAILED, "memory for doorbell words");
    words_ = static_cast<uint64_t*>(pages);
  }
  ~DoorbellWords() { ::munmap(words_, bytes_); }
  DoorbellWords(const DoorbellWords&) = delete;
  DoorbellWords& operator=(const DoorbellWords&) = delete;

  // Returns the counter's word. read() looks at it until take_back().
  uint64_t* hand_out(nic::CounterId counter) {
    const auto is_its = [&](const Armed& armed) { return armed.counter == counter.value; };
    if (std::none_of(armed_.begin(), armed_.end(), is_its))
      armed_.push_back({.counter = counter.value, .seen = load(counter.value)});
    return &words_[counter.value];
  }
  void take_back(nic::CounterId counter) {
    std::erase_if(armed_, [&](const Armed& armed) { return armed.counter == counter.value; });
  }
  uint32_t handed_out() const { return static_cast<uint32_t>(armed_.size()); }

  // Calls ring(counter, value) for every word that has grown since the last call. Returns how many.
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

  // Acquire: the NIC then sees what the ringer wrote before it rang.
  uint64_t load(uint32_t counter) const { return __atomic_load_n(&words_[counter], __ATOMIC_ACQUIRE); }

  uint64_t* words_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Armed> armed_;  // the words handed out
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_DOORBELL_WORDS_H_
