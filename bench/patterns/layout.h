// Layout: where a plan's data lies in one rank's memory, what it must be, and what the rank sends
// and receives from and to there. No MPI.
//
// Each message that a rank receives has a place of its own, so no message overwrites what another
// step reads, however far ahead a peer is. What a rank sends of its own has one place for each
// range of addresses.
#ifndef LANYARD_BENCH_PATTERNS_LAYOUT_H_
#define LANYARD_BENCH_PATTERNS_LAYOUT_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/patterns/pattern.h"
#include "bench/payload.h"
#include "transport/base/check.h"

namespace lanyard::bench::patterns {

// One side of a message.
struct Transfer {
  int peer = 0;
  size_t at = 0;  // in the rank's memory
  uint64_t bytes = 0;
};

struct RankStep {
  std::vector<Transfer> receives, sends;  // in the pattern's order
  struct Combination {
    size_t to = 0, from = 0;
    uint64_t bytes = 0;
  };
  // After the messages: what is at `to` becomes the exclusive or of itself and what is at `from`.
  std::vector<Combination> combinations;
};

class Layout {
 public:
  static constexpr size_t kAlignment = 64;

  // Requires a rank of `ranks`, which are at least the plan's.
  Layout(const Plan& plan, int rank, int ranks) {
    LANYARD_CHECK(plan.ranks() <= ranks && rank < ranks, "a layout has all ranks of its plan");
    std::vector<Memory> all(static_cast<size_t>(ranks));
    for (size_t number = 0; number < plan.steps().size(); ++number) {
      const std::vector<Message>& messages = plan.steps()[number].messages();
      RankStep& mine = steps_.emplace_back();
      // A step's messages carry what was there before the step.
      std::vector<Place> sent;
      for (const Message& m : messages) {
        const Place& place = all[static_cast<size_t>(m.source)].source(m);
        sent.push_back({0, m.offset, m.bytes, m.source, static_cast<int>(number), place.after});
        if (m.source == rank)
          mine.sends.push_back({m.destination, place.at + (m.offset - place.offset), m.bytes});
      }
      for (size_t i = 0; i < sent.size(); ++i) {
        const Message& m = messages[i];
        Memory& theirs = all[static_cast<size_t>(m.destination)];
        const size_t landed = theirs.add(std::move(sent[i]));
        const size_t at = theirs.places[landed].at;
        if (m.destination == rank)
          mine.receives.push_back({m.source, at, m.bytes});
        if (!m.combines) {
          theirs.arrived.push_back(landed);
          continue;
        }
        Place& own = theirs.own(m.destination, m);
        const std::vector<int> before = std::exchange(own.after, {});
        std::ranges::set_symmetric_difference(before, theirs.places[landed].after, std::back_inserter(own.after));
        if (m.destination == rank)
          mine.combinations.push_back({own.at, at, m.bytes});
      }
    }
    memory_ = std::move(all[static_cast<size_t>(rank)]);
  }

  const std::vector<RankStep>& steps() const { return steps_; }
  size_t bytes() const { return memory_.bytes; }

  // Before the plan is carried out: the rank's own data, and the complement of what must come.
  void fill(std::span<std::byte> memory, uint64_t iteration) const {
    for (const Place& place : memory_.places) {
      const bool is_own = place.step < 0;
      const std::vector<int> ranks = is_own ? std::vector<int>{place.source} : place.after;
      for (uint64_t i = 0; i < place.bytes; ++i)
        memory[place.at + i] = expected(ranks, place.offset + i, iteration) ^ std::byte(is_own ? 0 : 0xff);
    }
  }

  // After it has been carried out once: the first byte that is wrong, in words; nothing if all are
  // right.
  std::optional<std::string> verify(std::span<const std::byte> memory, uint64_t iteration) const {
    for (const Place& place : memory_.places)
      for (uint64_t i = 0; i < place.bytes; ++i) {
        const std::byte found = memory[place.at + i], right = expected(place.after, place.offset + i, iteration);
        if (found == right)
          continue;
        const std::string what =
            place.step < 0 ? "of its own" : fmt::format("received from rank {} in step {}", place.source, place.step);
        return fmt::format("byte {} of {} bytes {} is {:#04x}, should be {:#04x}", i, place.bytes, what,
                           std::to_integer<int>(found), std::to_integer<int>(right));
      }
    return std::nullopt;
  }

 private:
  // Data at one place of the memory. A byte of it is the exclusive or, over some ranks, of the hash
  // of rank, address and iteration.
  struct Place {
    size_t at = 0;
    uint64_t offset = 0;  // its address
    uint64_t bytes = 0;
    int source = 0;          // the rank that has it before the plan is carried out
    int step = -1;           // in which it comes from there; -1: it is the rank's own
    std::vector<int> after;  // the ranks once the plan has been carried out
  };

  // Of a rank, as far as the plan has been carried out.
  struct Memory {
    std::vector<Place> places;
    std::map<std::pair<uint64_t, uint64_t>, size_t> known;  // of the rank's own, by offset and bytes
    std::vector<size_t> arrived;                            // that the rank sends on
    size_t bytes = kAlignment;

    size_t add(Place place) {
      place.at = bytes;
      bytes += (place.bytes + kAlignment - 1) / kAlignment * kAlignment;
      places.push_back(std::move(place));
      return places.size() - 1;
    }
    Place& own(int rank, const Message& m) {
      const auto [index, is_new] = known.try_emplace({m.offset, m.bytes}, places.size());
      if (is_new)
        add({0, m.offset, m.bytes, rank, -1, {rank}});
      return places[index->second];
    }
    // Where the rank has what it sends.
    const Place& source(const Message& m) {
      for (const size_t index : std::views::reverse(arrived))
        if (const Place& place = places[index];
            place.offset <= m.offset && m.offset + m.bytes <= place.offset + place.bytes)
          return place;
      return own(m.source, m);
    }
  };

  static std::byte expected(const std::vector<int>& ranks, uint64_t address, uint64_t iteration) {
    std::byte value{};
    for (const int rank : ranks)
      value ^= Payload({rank, 0, iteration}).at(address);
    return value;
  }

  std::vector<RankStep> steps_;
  Memory memory_;
};

}  // namespace lanyard::bench::patterns

#endif  // LANYARD_BENCH_PATTERNS_LAYOUT_H_
