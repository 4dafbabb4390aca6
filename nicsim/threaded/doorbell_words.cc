#include "nicsim/threaded/doorbell_words.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "transport/base/check.h"

namespace lanyard::nicsim {

DoorbellWords::DoorbellWords(uint32_t counters) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  bytes_ = (counters * sizeof(uint64_t) + page - 1) / page * page;
  void* pages = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  LANYARD_CHECK(pages != MAP_FAILED, "memory for doorbell words");
  words_ = static_cast<uint64_t*>(pages);
}

DoorbellWords::~DoorbellWords() { ::munmap(words_, bytes_); }

uint64_t* DoorbellWords::hand_out(nic::CounterId counter) {
  const auto found =
      std::find_if(armed_.begin(), armed_.end(), [&](const Armed& armed) { return armed.counter == counter.value; });
  if (found == armed_.end())
    armed_.push_back({.counter = counter.value, .seen = load(counter.value)});
  return &words_[counter.value];
}

void DoorbellWords::take_back(nic::CounterId counter) {
  std::erase_if(armed_, [&](const Armed& armed) { return armed.counter == counter.value; });
}

}  // namespace lanyard::nicsim
