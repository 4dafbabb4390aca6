// A grid in the hands of several ranks: who owns which cells, who is whose neighbour, and a rank's
// block with its ghosts. No MPI.
//
// Dimensions go from the slowest to the fastest: {rows, columns}, {planes, rows, columns}.
#ifndef LANYARD_BENCH_HALO_GRID_H_
#define LANYARD_BENCH_HALO_GRID_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace lanyard::halo {

// A part of a dimension: `count` cells from `first` on.
struct Extent {
  long first = 0;
  long count = 0;
  long end() const { return first + count; }
};

// Part `index` of `total` split over `parts`: the first ones are longer by one where it does not
// divide evenly.
constexpr Extent split(long total, int parts, int index) {
  const long least = total / parts;
  const long rest = total % parts;
  return {index * least + std::min<long>(index, rest), least + (index < rest ? 1 : 0)};
}

// A part of a block, in the block's coordinates: owned cells begin at 0 in each dimension, ghosts
// lie below 0 and above.
template <int Dim>
struct Box : std::array<Extent, Dim> {
  long cells() const {
    long product = 1;
    for (const Extent& extent : *this)
      product *= extent.count;
    return product;
  }
  bool has(const Box& other) const {
    for (size_t d = 0; d < Dim; ++d) {
      const Extent &mine = (*this)[d], &others = other[d];
      if (others.first < mine.first || others.end() > mine.end())
        return false;
    }
    return true;
  }
};

// -1, 0 or 1 in each dimension, not all 0.
template <int Dim>
using Direction = std::array<int, Dim>;

// All 3^Dim - 1 directions. The opposite of the i-th one is the i-th from the end.
template <int Dim>
std::vector<Direction<Dim>> directions() {
  std::vector<Direction<Dim>> all(1);
  for (size_t d = 0; d < Dim; ++d) {
    std::vector<Direction<Dim>> longer;
    for (Direction<Dim> direction : all)
      for (direction[d] = -1; direction[d] <= 1; ++direction[d])
        longer.push_back(direction);
    all = longer;
  }
  all.erase(all.begin() + static_cast<long>(all.size() / 2));  // 0 in all dimensions
  return all;
}

// Ranks in a rectangle or box, numbered as cells are. Any shape is allowed: a single rank in a
// periodic dimension is its own neighbour there, and several directions may lead to one rank.
template <int Dim>
struct Grid {
  std::array<long, Dim> cells{};     // of the whole grid
  std::array<bool, Dim> periodic{};  // else it ends at walls in this dimension
  std::array<int, Dim> ranks{};      // in each dimension; their product is the number of ranks
  int rank = 0;                      // this process

  Grid of_rank(int other) const {
    Grid grid = *this;
    grid.rank = other;
    return grid;
  }
  std::array<int, Dim> place() const {
    std::array<int, Dim> place;
    int rest = rank;
    for (size_t d = Dim; d-- > 0; rest /= ranks[d])
      place[d] = rest % ranks[d];
    return place;
  }
  // What this rank owns of a dimension, in the whole grid's coordinates.
  Extent mine(size_t d) const { return split(cells[d], ranks[d], place()[d]); }
  // What it owns, in its block's coordinates.
  Box<Dim> owned() const {
    Box<Dim> box;
    for (size_t d = 0; d < Dim; ++d)
      box[d] = {0, mine(d).count};
    return box;
  }
  // -1 behind a wall.
  int neighbour(const Direction<Dim>& direction) const {
    int number = 0;
    for (size_t d = 0; d < Dim; ++d) {
      const int there = place()[d] + direction[d];
      if (!periodic[d] && (there < 0 || there >= ranks[d]))
        return -1;
      number = number * ranks[d] + (there + ranks[d]) % ranks[d];
    }
    return number;
  }
  // Why no halo of this width fits, by numbers that are the same on all ranks; empty if one does.
  std::string mistake(int width) const {
    if (width < 1)
      return "a halo is at least 1 cell wide, not " + std::to_string(width);
    for (size_t d = 0; d < Dim; ++d) {
      const bool has_neighbours = periodic[d] || ranks[d] > 1;
      const long least = has_neighbours ? width : 1;
      if (cells[d] / ranks[d] < least)
        return "dimension " + std::to_string(d) + ": " + std::to_string(cells[d]) + " cells on " +
               std::to_string(ranks[d]) + " ranks leave a block with fewer than " + std::to_string(least);
    }
    return "";
  }
};

// How a rank's block lies in memory: row-major, with `width` ghosts on every side, those behind
// walls too.
template <int Dim>
struct Shape {
  std::array<long, Dim> counts{};  // owned
  int width = 1;

  Shape(const Grid<Dim>& grid, int halo_width) : width(halo_width) {
    for (size_t d = 0; d < Dim; ++d)
      counts[d] = grid.mine(d).count;
  }
  // In cells, ghosts included.
  size_t size() const { return static_cast<size_t>(stride(0) * (counts[0] + 2 * width)); }
  // Cells from one to the next in a dimension.
  long stride(size_t d) const { return d + 1 == Dim ? 1 : stride(d + 1) * (counts[d + 1] + 2 * width); }
  // The index of a cell or ghost: at(row, column), at(plane, row, column).
  template <class... Coordinates>
  size_t at(Coordinates... coordinates) const {
    static_assert(sizeof...(Coordinates) == Dim, "one coordinate for each dimension");
    return at(std::array<long, Dim>{static_cast<long>(coordinates)...});
  }
  size_t at(const std::array<long, Dim>& coordinates) const {
    long index = 0;
    for (size_t d = 0; d < Dim; ++d)
      index += (coordinates[d] + width) * stride(d);
    return static_cast<size_t>(index);
  }
};

// The cells at the border in a direction, `width` deep: those that the neighbour there has as
// ghosts; or, with the shift outwards, the ghosts here whose owner it is.
template <int Dim>
Box<Dim> border(const Box<Dim>& owned, const Direction<Dim>& direction, int width, bool is_ghost) {
  Box<Dim> box = owned;
  for (size_t d = 0; d < Dim; ++d) {
    if (direction[d] == 0)
      continue;
    const long inner = direction[d] < 0 ? 0 : owned[d].count - width;
    box[d] = {inner + (is_ghost ? direction[d] * width : 0), width};
  }
  return box;
}

// A box without overlaps, and the boxes that have it, as indices.
template <int Dim>
struct Piece {
  Box<Dim> box;
  std::vector<size_t> owners;
};

// Boxes cut where they overlap, so that each cell is in one piece. The pieces' owners are in the
// order of `boxes`.
template <int Dim>
std::vector<Piece<Dim>> cut(const std::vector<Box<Dim>>& boxes) {
  std::vector<Piece<Dim>> pieces(1);
  for (size_t d = 0; d < Dim; ++d) {
    std::vector<long> cuts;
    for (const Box<Dim>& box : boxes)
      cuts.insert(cuts.end(), {box[d].first, box[d].end()});
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Piece<Dim>> finer;
    for (Piece<Dim> piece : pieces)
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        piece.box[d] = {cuts[i], cuts[i + 1] - cuts[i]};
        finer.push_back(piece);
      }
    pieces = finer;
  }
  for (Piece<Dim>& piece : pieces)
    for (size_t i = 0; i < boxes.size(); ++i)
      if (boxes[i].has(piece.box))
        piece.owners.push_back(i);
  std::erase_if(pieces, [](const Piece<Dim>& piece) { return piece.owners.empty(); });
  return pieces;
}

}  // namespace lanyard::halo

#endif  // LANYARD_BENCH_HALO_GRID_H_
