#include "nicsim/modelled/step_builder.h"

namespace lanyard::modelled {

namespace {

constexpr uint64_t kCellBytes = 8;

using Offset = std::array<int, 3>;

// Offsets of the neighbours. The opposite of the k-th is the k-th from the end.
std::vector<Offset> directions(const Grid& grid) {
  std::vector<Offset> found;
  const int depth = grid.dimensions == 3 ? 1 : 0;
  for (int z = -depth; z <= depth; ++z)
    for (int y = -1; y <= 1; ++y)
      for (int x = -1; x <= 1; ++x) {
        const int away = (x != 0) + (y != 0) + (z != 0);
        if (away == 1 || (away > 1 && grid.corners))
          found.push_back({x, y, z});
      }
  return found;
}

uint32_t neighbour(const Grid& grid, uint32_t rank, const Offset& offset) {
  const std::array<uint32_t, 3> place = grid.place(rank);
  uint32_t number = 0;
  for (int d = 2; d >= 0; --d) {
    const uint32_t along = (place[d] + grid.ranks[d] + static_cast<uint32_t>(offset[d])) % grid.ranks[d];
    number = number * grid.ranks[d] + along;
  }
  return number;
}

// The bytes of a message to a neighbour. Both sides get the same result: their extents
// agree where the offset is 0.
uint64_t bytes(const std::array<uint64_t, 3>& extent, const Offset& offset) {
  uint64_t count = kCellBytes;
  for (int d = 0; d < 3; ++d)
    count *= offset[d] == 0 ? extent[d] : 1;
  return count;
}

}  // namespace

std::array<uint32_t, 3> Grid::place(uint32_t rank) const {
  return {rank % ranks[0], rank / ranks[0] % ranks[1], rank / (ranks[0] * ranks[1])};
}

std::array<uint64_t, 3> Grid::extent(uint32_t rank) const {
  const std::array<uint32_t, 3> at = place(rank);
  std::array<uint64_t, 3> extent = {};
  for (int d = 0; d < 3; ++d)
    extent[d] = cells[d] / ranks[d] + (at[d] < cells[d] % ranks[d] ? 1 : 0);
  return extent;
}

uint64_t Grid::cells_of(uint32_t rank) const {
  const std::array<uint64_t, 3> along = extent(rank);
  return along[0] * along[1] * along[2];
}

Halo add_halo(StepBuilder& builder, const Grid& grid, uint32_t rank, bool ready) {
  Halo halo;
  const std::vector<Offset> offsets = directions(grid);
  const uint32_t count = static_cast<uint32_t>(offsets.size());
  const std::array<uint64_t, 3> extent = grid.extent(rank);
  for (uint32_t k = 0; k < count; ++k) {
    halo.sent.push_back(bytes(extent, offsets[k]));
    const Link link{neighbour(grid, rank, offsets[k]), count + (count - 1 - k)};
    halo.requests.push_back(builder.send(halo.sent.back(), ready, link));
  }
  for (uint32_t k = 0; k < count; ++k) {
    halo.received.push_back(bytes(extent, offsets[k]));
    const Link link{neighbour(grid, rank, offsets[k]), count - 1 - k};
    halo.requests.push_back(builder.receive(halo.received.back(), ready, link));
  }
  return halo;
}

}  // namespace lanyard::modelled
