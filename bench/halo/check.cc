#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "bench/halo/block.h"
#include "bench/halo/stream_halo.h"
#include "bench/payload.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

using Value = uint64_t;         // sums wrap around, the same on both sides
constexpr int kRounds = 5;      // odd, and enough to use both sets of receive buffers twice
constexpr int kDrainAfter = 2;  // begins anew in the middle

Value owned_value(long row, long column, int round) {
  return mix(mix(static_cast<Value>(row) << 32 | static_cast<uint32_t>(column)) + static_cast<Value>(round));
}
// What the ghost of `rank` at its local (row, column) contributes.
Value ghost_value(int rank, long row, long column, int round) {
  const Value cell = static_cast<Value>(row + 1) << 32 | static_cast<uint32_t>(column + 1);
  return mix(mix(cell) ^ mix(static_cast<Value>(rank) << 8 | static_cast<Value>(round)));
}

template <class F>
void for_each_ghost(const CartesianLayout& layout, F&& f) {
  const long rows = layout.my_rows().count, columns = layout.my_columns().count;
  for (int d = 0; d < kDirections; ++d) {
    const Region region = ghost_region(d, rows, columns);
    for (long r = region.row; r < region.row + region.rows; ++r)
      for (long c = region.column; c < region.column + region.columns; ++c)
        f(r, c);
  }
}

long wrapped(long index, long count) { return (index + count) % count; }

class HaloCheck {
 public:
  HaloCheck(HaloMode mode, const CartesianLayout& layout, int ranks)
      : layout_(layout),
        ranks_(ranks),
        rows_(layout.my_rows()),
        columns_(layout.my_columns()),
        block_(rows_.count, columns_.count),
        expected_(rows_.count, columns_.count),
        halo_(mode, MPI_COMM_WORLD, layout, stream_, HaloKinds::kGatherAndScatter) {}

  std::string run() {
    std::string error;
    // Every rank goes through every round, whatever it finds.
    for (int round = 0; round < kRounds; ++round) {
      const std::string found[] = {gather(round), scatter(round)};
      for (const std::string& what : found)
        if (error.empty())
          error = what;
      if (round == kDrainAfter)
        halo_.drain();
    }
    return error;
  }

 private:
  std::string gather(int round) {
    for (long r = 0; r < rows_.count; ++r)
      for (long c = 0; c < columns_.count; ++c)
        block_.at(r, c) = owned_value(rows_.first + r, columns_.first + c, round);
    for_each_ghost(layout_, [&](long r, long c) { block_.at(r, c) = ~ghost(r, c, round); });
    halo_.enqueue_gather(block_.data());
    halo_.synchronize();
    std::string error;
    for_each_ghost(layout_, [&](long r, long c) {
      if (error.empty() && block_.at(r, c) != ghost(r, c, round))
        error = fmt::format("gather, round {}: rank {} has a wrong ghost at local ({}, {})", round, layout_.rank, r, c);
    });
    return error;
  }

  // What its owner has there.
  Value ghost(long r, long c, int round) const {
    return owned_value(wrapped(rows_.first + r, layout_.rows), wrapped(columns_.first + c, layout_.columns), round);
  }

  std::string scatter(int round) {
    for (long r = 0; r < rows_.count; ++r)
      for (long c = 0; c < columns_.count; ++c)
        block_.at(r, c) = expected_.at(r, c) = owned_value(rows_.first + r, columns_.first + c, round);
    for_each_ghost(layout_, [&](long r, long c) { block_.at(r, c) = ghost_value(layout_.rank, r, c, round); });
    for (int rank = 0; rank < ranks_; ++rank)
      expect_from(layout_.of_rank(rank), round);
    halo_.enqueue_scatter(block_.data());
    halo_.synchronize();
    for (long r = 0; r < rows_.count; ++r)
      for (long c = 0; c < columns_.count; ++c)
        if (block_.at(r, c) != expected_.at(r, c))
          return fmt::format("scatter, round {}: rank {} has a wrong sum at local ({}, {})", round, layout_.rank, r, c);
    std::string error;
    for_each_ghost(layout_, [&](long r, long c) {
      if (error.empty() && block_.at(r, c) != ghost_value(layout_.rank, r, c, round))
        error = fmt::format("scatter, round {}: rank {} has changed its ghost at local ({}, {})", round, layout_.rank,
                            r, c);
    });
    return error;
  }

  // Adds what another rank's ghosts contribute to the cells of this one.
  void expect_from(const CartesianLayout& other, int round) {
    const Extent rows = other.my_rows(), columns = other.my_columns();
    for_each_ghost(other, [&](long r, long c) {
      const long row = wrapped(rows.first + r, layout_.rows) - rows_.first;
      const long column = wrapped(columns.first + c, layout_.columns) - columns_.first;
      if (row < 0 || row >= rows_.count || column < 0 || column >= columns_.count)
        return;
      expected_.at(row, column) += ghost_value(other.rank, r, c, round);
    });
  }

  const CartesianLayout& layout_;
  const int ranks_;
  const Extent rows_, columns_;
  Block<Value> block_, expected_;
  HostStream stream_;
  StreamHalo<Value> halo_;
};

}  // namespace

std::string check_halo(HaloMode mode, const CartesianLayout& layout, int ranks) {
  return HaloCheck(mode, layout, ranks).run();
}

}  // namespace lanyard::bench
