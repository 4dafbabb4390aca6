#include "bench/contents.h"

#include <algorithm>
#include <iterator>

#include "bench/payload.h"
#include "transport/base/check.h"

namespace lanyard::bench {
namespace {

// What is left of a piece behind its first bytes.
Piece behind(const Piece& piece, uint64_t bytes) {
  Piece rest{piece.bytes - bytes, piece.origins};
  for (Origin& origin : rest.origins)
    origin.offset += bytes;
  return rest;
}

// Adds a piece at the end, or to the last one, which it continues.
void append(std::vector<Piece>& pieces, Piece piece) {
  if (piece.bytes == 0)
    return;
  if (!pieces.empty() && behind(pieces.back(), pieces.back().bytes).origins == piece.origins)
    pieces.back().bytes += piece.bytes;
  else
    pieces.push_back(std::move(piece));
}

}  // namespace

Contents::Contents(int rank, uint64_t bytes) : bytes_(bytes) {
  if (bytes > 0)
    pieces_[0] = {bytes, {{rank, 0}}};
}

void Contents::cut(uint64_t at) {
  auto next = pieces_.lower_bound(at);
  if (at == bytes_ || (next != pieces_.end() && next->first == at))
    return;
  const auto piece = std::prev(next);
  const uint64_t first = at - piece->first;
  pieces_.emplace_hint(next, at, behind(piece->second, first));
  piece->second.bytes = first;
}

std::vector<Piece> Contents::read(uint64_t offset, uint64_t bytes) const {
  LANYARD_CHECK(offset <= bytes_ && bytes <= bytes_ - offset, "what is read is within the memory");
  std::vector<Piece> found;
  if (bytes == 0)
    return found;
  const uint64_t end = offset + bytes;
  for (auto at = std::prev(pieces_.upper_bound(offset)); at != pieces_.end() && at->first < end; ++at) {
    const uint64_t from = std::max(offset, at->first), to = std::min(end, at->first + at->second.bytes);
    Piece part = behind(at->second, from - at->first);
    part.bytes = to - from;
    append(found, std::move(part));
  }
  return found;
}

void Contents::write(uint64_t offset, const std::vector<Piece>& pieces) {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces)
    bytes += piece.bytes;
  LANYARD_CHECK(offset <= bytes_ && bytes <= bytes_ - offset, "what is written is within the memory");
  if (bytes == 0)
    return;
  cut(offset);
  cut(offset + bytes);
  pieces_.erase(pieces_.lower_bound(offset), pieces_.lower_bound(offset + bytes));
  for (const Piece& piece : pieces) {
    pieces_[offset] = piece;
    offset += piece.bytes;
  }
}

std::vector<Piece> combined(const std::vector<Piece>& a, const std::vector<Piece>& b) {
  std::vector<Piece> both;
  size_t i = 0, j = 0;
  uint64_t done_a = 0, done_b = 0;
  while (i < a.size() && j < b.size()) {
    const Piece left = behind(a[i], done_a), right = behind(b[j], done_b);
    Piece part{std::min(left.bytes, right.bytes), {}};
    std::set_symmetric_difference(left.origins.begin(), left.origins.end(), right.origins.begin(), right.origins.end(),
                                  std::back_inserter(part.origins));
    done_a = part.bytes == left.bytes ? (++i, 0) : done_a + part.bytes;
    done_b = part.bytes == right.bytes ? (++j, 0) : done_b + part.bytes;
    append(both, std::move(part));
  }
  LANYARD_CHECK(i == a.size() && j == b.size(), "both are equally long");
  return both;
}

uint64_t Beginning::word(int rank, uint64_t index) const {
  return mix(mix(round_ << 20 ^ static_cast<uint64_t>(rank)) ^ index);
}

void Beginning::fill(int rank, uint64_t offset, std::span<std::byte> bytes) const {
  write({bytes.size(), {{rank, offset}}}, bytes, false);
}

void Beginning::write(const Piece& piece, std::span<std::byte> bytes, bool is_complement) const {
  LANYARD_CHECK(bytes.size() == piece.bytes, "a piece is written where it has room");
  std::fill(bytes.begin(), bytes.end(), is_complement ? std::byte{0xff} : std::byte{0});
  for (const Origin& origin : piece.origins) {
    uint64_t now = word(origin.rank, origin.offset / 8);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const uint64_t offset = origin.offset + i;
      if (offset % 8 == 0)
        now = word(origin.rank, offset / 8);
      bytes[i] ^= byte(now, offset);
    }
  }
}

}  // namespace lanyard::bench
