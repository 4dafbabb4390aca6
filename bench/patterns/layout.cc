#include "bench/patterns/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "bench/payload.h"
#include "transport/base/check.h"

namespace lanyard::bench::patterns {

// All ranks' places, as far as the plan has been carried out.
class Layout::Simulation {
 public:
  explicit Simulation(int ranks) : ranks_(static_cast<size_t>(ranks)) {}

  struct Memory {
    std::vector<Place> places;
    std::map<std::pair<uint64_t, uint64_t>, size_t> own;  // by offset and bytes
    std::vector<size_t> arrived;                          // that the rank sends on
    size_t bytes = kAlignment;
  };

  Memory& memory(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  size_t add(Memory& memory, Place place) {
    place.at = memory.bytes;
    memory.bytes += (place.bytes + kAlignment - 1) / kAlignment * kAlignment;
    memory.places.push_back(std::move(place));
    return memory.places.size() - 1;
  }

  size_t own(int rank, const Message& m) {
    Memory& mine = memory(rank);
    const auto [known, is_new] = mine.own.try_emplace({m.offset, m.bytes}, 0);
    if (is_new)
      known->second = add(mine, {0, m.offset, m.bytes, {rank}, {rank}});
    return known->second;
  }

  // Where the source has what it sends.
  size_t source(const Message& m) {
    const Memory& mine = memory(m.source);
    for (auto index = mine.arrived.rbegin(); index != mine.arrived.rend(); ++index) {
      const Place& place = mine.places[*index];
      if (place.offset <= m.offset && m.offset + m.bytes <= place.offset + place.bytes)
        return *index;
    }
    return own(m.source, m);
  }

 private:
  std::vector<Memory> ranks_;
};

Layout::Layout(const Plan& plan, int rank, int ranks) {
  LANYARD_CHECK(plan.ranks() <= ranks && rank < ranks, "a layout has all ranks of its plan");
  Simulation all(ranks);
  for (size_t number = 0; number < plan.steps().size(); ++number) {
    const std::vector<Message>& messages = plan.steps()[number].messages();
    RankStep& mine = steps_.emplace_back();
    // A step's messages carry what was there before the step.
    std::vector<Place> sent;
    for (const Message& m : messages) {
      const Place& place = all.memory(m.source).places[all.source(m)];
      const size_t at = place.at + (m.offset - place.offset);
      sent.push_back({0, m.offset, m.bytes, {}, place.after, static_cast<int>(number), m.source});
      if (m.source == rank)
        mine.sends.push_back({m.destination, at, m.bytes});
    }
    for (size_t i = 0; i < sent.size(); ++i) {
      const Message& m = messages[i];
      Simulation::Memory& theirs = all.memory(m.destination);
      const size_t landed = all.add(theirs, std::move(sent[i]));
      if (m.destination == rank)
        mine.receives.push_back({m.source, theirs.places[landed].at, m.bytes});
      if (!m.combines) {
        theirs.arrived.push_back(landed);
        continue;
      }
      Place& own = theirs.places[all.own(m.destination, m)];
      std::vector<int> both;
      const std::vector<int>& come = theirs.places[landed].after;
      std::set_symmetric_difference(own.after.begin(), own.after.end(), come.begin(), come.end(),
                                    std::back_inserter(both));
      own.after = std::move(both);
      if (m.destination == rank)
        mine.combinations.push_back({own.at, theirs.places[landed].at, m.bytes});
    }
  }
  places_ = std::move(all.memory(rank).places);
  bytes_ = all.memory(rank).bytes;
}

std::byte Layout::expected(const std::vector<int>& ranks, uint64_t address, uint64_t iteration) const {
  std::byte value{};
  for (const int rank : ranks)
    value ^= Payload({rank, 0, iteration}).at(address);
  return value;
}

void Layout::fill(std::span<std::byte> memory, uint64_t iteration) const {
  for (const Place& place : places_)
    for (uint64_t i = 0; i < place.bytes; ++i)
      memory[place.at + i] = place.before.empty() ? ~expected(place.after, place.offset + i, iteration)
                                                  : expected(place.before, place.offset + i, iteration);
}

std::optional<std::string> Layout::verify(std::span<const std::byte> memory, uint64_t iteration) const {
  for (const Place& place : places_)
    for (uint64_t i = 0; i < place.bytes; ++i) {
      const std::byte found = memory[place.at + i], right = expected(place.after, place.offset + i, iteration);
      if (found == right)
        continue;
      const std::string what = place.before.empty()
                                   ? fmt::format("received from rank {} in step {}", place.source, place.step)
                                   : "of its own";
      return fmt::format("byte {} of {} bytes {} is {:#04x}, should be {:#04x}", i, place.bytes, what,
                         std::to_integer<int>(found), std::to_integer<int>(right));
    }
  return std::nullopt;
}

}  // namespace lanyard::bench::patterns
