#include "bench/expectation.h"

#include <fmt/format.h>

#include <algorithm>

namespace lanyard::bench {

Expectation::Expectation(const Plan& plan, int rank, int ranks, int times)
    : plan_(plan), rank_(rank), bytes_(plan.memory(rank)) {
  const Outcome all = outcome(plan, ranks, times);
  const Contents& after = all.memories[static_cast<size_t>(rank)];
  // Where nothing was read that was there in the beginning its bytes are still their own origins.
  Contents unread(rank, bytes_);
  for (const Piece& piece : all.read)
    for (const Origin& origin : piece.origins)
      if (origin.rank == rank)
        unread.write(origin.offset, {{piece.bytes, {}}});
  uint64_t offset = 0;
  for (const Piece& stretch : unread.read(0, bytes_)) {
    for (const Piece& piece : after.read(offset, stretch.bytes)) {
      const bool is_written = piece.origins != std::vector<Origin>{{rank, offset}};
      places_.push_back({offset, piece, is_written && !stretch.origins.empty()});
      offset += piece.bytes;
    }
  }
}

void Expectation::begin(uint64_t round, std::span<std::byte> memory) const {
  const Beginning beginning(round);
  for (const Place& place : places_) {
    const std::span<std::byte> bytes = memory.subspan(place.offset, place.after.bytes);
    if (place.is_poisoned)
      beginning.write(place.after, bytes, true);
    else
      beginning.fill(rank_, place.offset, bytes);
  }
}

std::optional<std::string> Expectation::mistake(uint64_t round, std::span<const std::byte> memory) const {
  const Beginning beginning(round);
  std::vector<std::byte> expected;
  for (const Place& place : places_) {
    expected.resize(place.after.bytes);
    beginning.write(place.after, expected, false);
    const auto found = memory.subspan(place.offset, place.after.bytes);
    const auto [right, wrong] = std::mismatch(expected.begin(), expected.end(), found.begin());
    if (right == expected.end())
      continue;
    const uint64_t offset = place.offset + static_cast<uint64_t>(right - expected.begin());
    return fmt::format("byte {} of rank {} is {:#04x} and should be {:#04x}: {}", offset, rank_,
                       static_cast<unsigned>(*wrong), static_cast<unsigned>(*right), writer(offset));
  }
  return std::nullopt;
}

std::string Expectation::writer(uint64_t offset) const {
  std::string last = "no message goes there";
  for (size_t step = 0; step < plan_.steps().size(); ++step) {
    const auto messages = plan_.steps()[step].pattern.messages();
    for (size_t i = 0; i < messages.size(); ++i) {
      const Message& m = messages[i];
      if (m.destination == rank_ && m.destination_offset <= offset && offset - m.destination_offset < m.bytes)
        last = fmt::format("message {} of step {}, from rank {} to rank {}, {} bytes", i, step, m.source, m.destination,
                           m.bytes);
    }
    for (const Combine& c : plan_.steps()[step].combines)
      if (c.rank == rank_ && c.to <= offset && offset - c.to < c.bytes)
        last = fmt::format("combined in step {} with bytes {} to {}", step, c.from, c.from + c.bytes - 1);
  }
  return last;
}

}  // namespace lanyard::bench
