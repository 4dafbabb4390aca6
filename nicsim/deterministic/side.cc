#include "nicsim/deterministic/side.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lanyard::nicsim {

namespace {

constexpr uint64_t kWord = sizeof(uint64_t);

// Odd, so that a run is no word, and a word no whole number of runs.
constexpr uint64_t kRun = 3, kStride = 5;

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

std::shared_ptr<const gpu::Layout> layout_with_gaps(uint64_t bytes) {
  gpu::Shape run;
  run.length = kRun;
  std::vector<gpu::Shape> parts;
  if (bytes >= kRun)
    gpu::append(parts, gpu::repeat(run, bytes / kRun, kStride), 0);
  run.length = bytes % kRun;
  if (run.length > 0)
    gpu::append(parts, run, static_cast<int64_t>(bytes / kRun * kStride));
  return std::make_shared<const gpu::Layout>(gpu::sequence(std::move(parts)));
}

uint64_t length_with_gaps(uint64_t bytes) { return (bytes / kRun + 1) * kStride; }

uint64_t place_of(const Side& side, uint64_t byte) {
  return side.layout == nullptr ? byte : byte / kRun * kStride + byte % kRun;
}

std::vector<std::byte> without_gaps(const Side& side) {
  if (side.layout == nullptr)
    return side.buffer;
  std::vector<std::byte> bytes(side.layout->bytes());
  for (uint64_t at = 0; at < bytes.size(); ++at)
    bytes[at] = side.buffer[place_of(side, at)];
  return bytes;
}

bool gaps_are_untouched(const Side& side) {
  for (uint64_t at = 0; at < side.buffer.size(); ++at)
    if ((at % kStride >= kRun || at >= place_of(side, side.layout->bytes())) && side.buffer[at] != kUntouched)
      return false;
  return true;
}

void clear_around(Side& side, uint64_t bytes) {
  for (uint64_t at = 0; at < side.buffer.size(); ++at)
    if (at >= place_of(side, bytes) || (side.layout != nullptr && at % kStride >= kRun))
      side.buffer[at] = kUntouched;
}

}  // namespace lanyard::nicsim
