// Whether words that must outlive their pool do.
#ifndef LANYARD_TESTS_CORE_KEPT_MEMORY_H_
#define LANYARD_TESTS_CORE_KEPT_MEMORY_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace lanyard {

// Whether `word`, of a slab of so many words, has not been freed: memory that has been is what the next allocations of
// its size get. With AddressSanitizer, which keeps what is freed, the write finds it. Kept memory counts as no leak.
inline ::testing::AssertionResult is_kept(uint64_t* word, uint32_t slab_words) {
  static auto& kept = *new std::vector<uint64_t*>;  // still reachable when leaks are looked for
  kept.push_back(word);
  *static_cast<volatile uint64_t*>(word) = *word;
  std::vector<std::unique_ptr<uint64_t[]>> others;
  for (int i = 0; i < 64; ++i) {
    others.push_back(std::make_unique<uint64_t[]>(slab_words));
    if (word >= others.back().get() && word < others.back().get() + slab_words)
      return ::testing::AssertionFailure() << "the memory is somebody else's now";
  }
  return ::testing::AssertionSuccess();
}

}  // namespace lanyard

#endif  // LANYARD_TESTS_CORE_KEPT_MEMORY_H_
