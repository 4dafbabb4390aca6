#include "nicsim/deterministic/side.h"

#include <algorithm>
#include <cstring>

namespace lanyard::nicsim {

namespace {

constexpr uint64_t kWord = sizeof(uint64_t);

}  // namespace

void fill_content(std::vector<std::byte>& buffer, uint32_t message, uint64_t iteration) {
  for (uint64_t at = 0; at < buffer.size(); at += kWord) {
    const uint64_t word = content_word(message, iteration, at / kWord);
    std::memcpy(&buffer[at], &word, std::min<uint64_t>(kWord, buffer.size() - at));
  }
}

bool is_content(const std::byte* bytes, uint64_t count, uint64_t offset, uint32_t message, uint64_t iteration) {
  for (uint64_t at = offset; at < offset + count;) {
    const uint64_t word = content_word(message, iteration, at / kWord);
    const uint64_t inside = at % kWord;
    const uint64_t length = std::min(kWord - inside, offset + count - at);
    if (std::memcmp(bytes + (at - offset), reinterpret_cast<const std::byte*>(&word) + inside, length) != 0)
      return false;
    at += length;
  }
  return true;
}

}  // namespace lanyard::nicsim
