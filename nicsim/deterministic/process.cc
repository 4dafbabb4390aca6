#include "nicsim/deterministic/process.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

namespace {

constexpr uint64_t kWord = sizeof(uint64_t);

// Odd, so that a run is not a word, and a word not a whole number of runs.
constexpr uint64_t kRun = 3, kStride = 5;

uint64_t content_word(uint32_t message, uint64_t iteration, uint64_t word) {
  uint64_t x = (uint64_t{message} << 40) ^ (iteration << 20) ^ word;
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}

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

Process::Process(World& world, uint32_t rank, const ModelLimits& limits)
    : rank(rank),
      program(world.scenario().program(rank).actions()),
      shadow(limits),
      nic(world, shadow, rank, limits),
      driver(world.options().driver ? std::make_unique<Driver>(world, nic, rank, limits) : nullptr),
      endpoint(card(), rank,
               {.overflow = world.options().overflow,
                .overflow_thread = false,
                .whole_pages = false,
                .strategy = world.options().strategy}),
      card_mail(world.options().mail_by_card
                    ? std::make_unique<CardMail>(world, nic, endpoint, rank, world.scenario().ranks())
                    : nullptr),
      mail(world, rank),
      own_matcher(endpoint, mail),
      matcher(card_mail == nullptr ? own_matcher : card_mail->plane().matcher()),
      cut_off(world.scenario().ranks()) {}

}  // namespace lanyard::nicsim
