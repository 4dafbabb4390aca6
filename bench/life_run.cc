#include "bench/life_run.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "bench/aligned_buffer.h"
#include "bench/block.h"
#include "bench/collect.h"
#include "bench/stream_halo.h"

namespace lanyard::bench {
namespace {

std::vector<Cell> owned_cells(const Block<Cell>& block) {
  std::vector<Cell> cells;
  cells.reserve(static_cast<size_t>(block.rows() * block.columns()));
  for (long r = 0; r < block.rows(); ++r)
    for (long c = 0; c < block.columns(); ++c)
      cells.push_back(block.at(r, c));
  return cells;
}

void insert(LifeGrid& grid, const CartesianLayout& owner, const std::vector<Cell>& cells) {
  const Extent rows = owner.my_rows(), columns = owner.my_columns();
  const Cell* from = cells.data();
  for (long r = 0; r < rows.count; ++r, from += columns.count)
    std::copy_n(from, columns.count, &grid.at(rows.first + r, columns.first));
}

std::optional<LifeGrid> collect_grid(const Block<Cell>& block, const CartesianLayout& layout,
                                     const MpiProcess& process) {
  std::optional<LifeGrid> grid;
  if (process.is_first())
    grid.emplace(layout.rows, layout.columns);
  collect(
      owned_cells(block), process,
      [&](int rank) { return layout.of_rank(rank).my_rows().count * layout.of_rank(rank).my_columns().count; },
      [&](int rank, const std::vector<Cell>& cells) { insert(*grid, layout.of_rank(rank), cells); });
  return grid;
}

// The two generations of a rank. Where the stream is a GPU's, the blocks are what is filled and read on the host.
class LifeLoop final : public HaloSteps {
 public:
  LifeLoop(HaloMode mode, const CartesianLayout& layout, const LifePattern& pattern, Stream& stream, Nccl* nccl)
      : layout_(layout),
        pattern_(pattern),
        blocks_{Block<Cell>(layout.my_rows().count, layout.my_columns().count),
                Block<Cell>(layout.my_rows().count, layout.my_columns().count)},
        stream_(stream),
        halo_(mode, MPI_COMM_WORLD, halo_shape(layout), stream_, nccl) {
    for (size_t i = 0; i < 2; ++i) {
      cells_[i] = blocks_[i].data();
      if (stream_.gpu() == nullptr)
        continue;
      on_gpu_[i] = AlignedBuffer(bytes(blocks_[i]), stream_.gpu());
      cells_[i] = reinterpret_cast<Cell*>(on_gpu_[i].data());
    }
    for (size_t i = 0; i < 2; ++i)
      steps_[i] = {cells_[i], cells_[1 - i], blocks_[i].rows(), blocks_[i].columns()};
  }

  // Dead ghosts would be plausible, so all but the owned cells of the first generation hold what no cell ever holds.
  void fill() override {
    constexpr Cell kPoison = 0x55;
    for (Block<Cell>& block : blocks_)
      std::fill_n(block.data(), (block.rows() + 2) * block.stride(), kPoison);
    for (long r = 0; r < blocks_[0].rows(); ++r)
      for (long c = 0; c < blocks_[0].columns(); ++c)
        blocks_[0].at(r, c) = pattern_.at(layout_.my_rows().first + r, layout_.my_columns().first + c, layout_.columns);
    for (size_t i = 0; i < 2; ++i)
      if (stream_.gpu() != nullptr)
        stream_.gpu()->write(on_gpu_[i].data(), address(blocks_[i]), bytes(blocks_[i]));
  }
  void poison_messages() override { halo_.poison(); }
  void enqueue(long first, long count) override {
    for (long step = first; step < first + count; ++step) {
      halo_.enqueue_gather(cells_[step % 2]);
      stream_.launch(steps_[step % 2]);
    }
  }
  void synchronize() override { halo_.synchronize(); }
  std::string why_not() override { return halo_.why_not_captured(); }
  QueueInfo info() const override { return halo_.info(); }

  // Requires that the stream is empty.
  const Block<Cell>& after(long steps) {
    const size_t i = static_cast<size_t>(steps % 2);
    if (stream_.gpu() != nullptr)
      stream_.gpu()->read(address(blocks_[i]), on_gpu_[i].data(), bytes(blocks_[i]));
    return blocks_[i];
  }

 private:
  static std::byte* address(Block<Cell>& block) { return reinterpret_cast<std::byte*>(block.data()); }
  static size_t bytes(const Block<Cell>& block) { return static_cast<size_t>((block.rows() + 2) * block.stride()); }

  const CartesianLayout& layout_;
  const LifePattern& pattern_;
  std::array<Block<Cell>, 2> blocks_;
  Stream& stream_;
  std::array<AlignedBuffer, 2> on_gpu_;
  std::array<Cell*, 2> cells_{};  // where the stream has them
  std::array<LifeKernel, 2> steps_;
  StreamHalo<Cell> halo_;
};

}  // namespace

LifeResult run_life(HaloMode mode, const char* name, const HaloRunOptions& options, bool gather_result,
                    const CartesianLayout& layout, const LifePattern& pattern, const Streams& streams,
                    const MpiProcess& process) {
  LifeResult result;
  LifeLoop* loop = nullptr;
  const auto make = [&](Stream& stream, Nccl* nccl) {
    auto made = std::make_unique<LifeLoop>(mode, layout, pattern, stream, nccl);
    loop = made.get();
    return made;
  };
  const auto finish = [&] {
    if (gather_result)
      result.grid = collect_grid(loop->after(options.steps), layout, process);
  };
  static_cast<HaloRunResult&>(result) =
      run_halo(mode, std::string("game_of_life: mode ") + name, options, streams, process, make, finish);
  return result;
}

}  // namespace lanyard::bench
