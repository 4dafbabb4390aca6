// Contents: what a rank's memory holds, told by where each byte comes from, so that the result of any messages is known
// without moving one. The exclusive or of several origins is what a reduction leaves.
#ifndef LANYARD_BENCH_CONTENTS_H_
#define LANYARD_BENCH_CONTENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace lanyard::bench {

// A byte that was in a rank's memory in the beginning.
struct Origin {
  int rank = 0;
  uint64_t offset = 0;

  friend auto operator<=>(const Origin&, const Origin&) = default;
};

// So many bytes one after another, each the exclusive or of one byte of every origin, from whose offset on they go.
// Origins are in order, and none is there twice; no origin: zero.
struct Piece {
  uint64_t bytes = 0;
  std::vector<Origin> origins;

  friend bool operator==(const Piece&, const Piece&) = default;
};

class Contents {
 public:
  // In the beginning each byte is its own origin.
  Contents(int rank, uint64_t bytes);

  uint64_t bytes() const { return bytes_; }
  // Neighbours that continue each other are one piece. Requires a range within the memory.
  std::vector<Piece> read(uint64_t offset, uint64_t bytes) const;
  // Requires that the pieces end within the memory.
  void write(uint64_t offset, const std::vector<Piece>& pieces);

 private:
  // After this one may begin at `at`.
  void cut(uint64_t at);

  uint64_t bytes_;
  std::map<uint64_t, Piece> pieces_;  // by where they begin, without gaps
};

// Byte by byte the exclusive or of both, which are equally long.
std::vector<Piece> combined(const std::vector<Piece>& a, const std::vector<Piece>& b);

// What the bytes of a rank's memory are in the beginning, different in each round.
class Beginning {
 public:
  explicit Beginning(uint64_t round) : round_(round) {}

  std::byte at(const Origin& origin) const { return byte(word(origin.rank, origin.offset / 8), origin.offset); }
  // The memory of a rank from the offset on.
  void fill(int rank, uint64_t offset, std::span<std::byte> bytes) const;
  // What a piece is, or its complement.
  void write(const Piece& piece, std::span<std::byte> bytes, bool is_complement) const;

 private:
  uint64_t word(int rank, uint64_t index) const;
  static std::byte byte(uint64_t word, uint64_t offset) { return static_cast<std::byte>(word >> (offset % 8 * 8)); }

  uint64_t round_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CONTENTS_H_
