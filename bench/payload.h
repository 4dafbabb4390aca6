// Message contents that prove where they came from: every byte is a hash of (source, destination,
// iteration, index).
//
// Poison is the complement of what is expected, so a byte that was never written cannot pass by
// chance.
#ifndef LANYARD_BENCH_PAYLOAD_H_
#define LANYARD_BENCH_PAYLOAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace lanyard::bench {

struct PayloadKey {
  int source = 0;
  int destination = 0;
  uint64_t iteration = 0;
};

// The finaliser of splitmix64: every input bit changes every output bit with probability 1/2.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Payload {
 public:
  explicit constexpr Payload(const PayloadKey& key)
      : seed_(mix(mix(static_cast<uint64_t>(key.source) << 32 | static_cast<uint32_t>(key.destination)) ^
                  key.iteration)) {}

  struct Mismatch {
    size_t index = 0;
    std::byte expected{};
    std::byte found{};
  };

  void fill(std::span<std::byte> bytes) const { write(bytes, 0); }
  // The byte with that index, as fill() writes it.
  std::byte at(uint64_t index) const { return static_cast<std::byte>(word_at(index / 8) >> (index % 8 * 8)); }
  void poison(std::span<std::byte> bytes) const { write(bytes, ~uint64_t{0}); }
  // The first byte that is not as fill() writes it.
  std::optional<Mismatch> verify(std::span<const std::byte> bytes) const {
    for (size_t i = 0; i < bytes.size(); i += 8) {
      const uint64_t word = word_at(i / 8);
      if (std::memcmp(&word, &bytes[i], std::min<size_t>(8, bytes.size() - i)) == 0)
        continue;
      while (bytes[i] == at(i))
        ++i;
      return Mismatch{i, at(i), bytes[i]};
    }
    return std::nullopt;
  }

 private:
  uint64_t word_at(size_t index) const { return mix(seed_ ^ index); }
  void write(std::span<std::byte> bytes, uint64_t flip) const {
    for (size_t i = 0; i < bytes.size(); i += 8) {
      const uint64_t word = word_at(i / 8) ^ flip;
      std::memcpy(&bytes[i], &word, std::min<size_t>(8, bytes.size() - i));
    }
  }

  uint64_t seed_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_PAYLOAD_H_
