#include "bench/life_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "bench/aligned_buffer.h"
#include "bench/block.h"
#include "bench/progress.h"
#include "bench/stream_halo.h"

namespace lanyard::bench {
namespace {

constexpr int kResultTag = 1000;  // beyond StreamHalo's

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

// In messages of at most 1 GiB, as a count is an int.
void transfer(bool is_send, std::vector<Cell>& cells, int peer) {
  constexpr size_t kPiece = size_t{1} << 30;
  for (size_t at = 0; at < cells.size(); at += kPiece) {
    const int count = static_cast<int>(std::min(kPiece, cells.size() - at));
    if (is_send)
      check(MPI_Send(&cells[at], count, MPI_BYTE, peer, kResultTag, MPI_COMM_WORLD), "MPI_Send");
    else
      check(MPI_Recv(&cells[at], count, MPI_BYTE, peer, kResultTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
  }
}

std::optional<LifeGrid> collect(const Block<Cell>& block, const CartesianLayout& layout, const MpiProcess& process) {
  std::vector<Cell> cells = owned_cells(block);
  if (!process.is_first()) {
    transfer(true, cells, 0);
    return std::nullopt;
  }
  LifeGrid grid(layout.rows, layout.columns);
  insert(grid, layout, cells);
  for (int rank = 1; rank < process.ranks(); ++rank) {
    const CartesianLayout owner = layout.of_rank(rank);
    cells.resize(static_cast<size_t>(owner.my_rows().count * owner.my_columns().count));
    transfer(false, cells, rank);
    insert(grid, owner, cells);
  }
  return grid;
}

// The two generations of a rank and the loop over them. Where the stream is a GPU's, the blocks are
// what is filled and read on the host.
class LifeLoop {
 public:
  LifeLoop(HaloMode mode, const LifeRunOptions& options, const CartesianLayout& layout, const Streams& streams)
      : options_(options),
        layout_(layout),
        blocks_{Block<Cell>(layout.my_rows().count, layout.my_columns().count),
                Block<Cell>(layout.my_rows().count, layout.my_columns().count)},
        stream_(streams.make()),
        halo_(mode, MPI_COMM_WORLD, layout, *stream_) {
    for (size_t i = 0; i < 2; ++i) {
      cells_[i] = blocks_[i].data();
      if (stream_->gpu() == nullptr)
        continue;
      on_gpu_[i] = AlignedBuffer(bytes(blocks_[i]), stream_->gpu());
      cells_[i] = reinterpret_cast<Cell*>(on_gpu_[i].data());
    }
    for (size_t i = 0; i < 2; ++i)
      steps_[i] = {cells_[i], cells_[1 - i], blocks_[i].rows(), blocks_[i].columns()};
  }

  // Requires that the stream is empty. Dead ghosts would be plausible, so all but the owned cells
  // of the first generation hold what no cell ever holds.
  void fill(const LifePattern& pattern) {
    constexpr Cell kPoison = 0x55;
    for (Block<Cell>& block : blocks_)
      std::fill_n(block.data(), (block.rows() + 2) * block.stride(), kPoison);
    for (long r = 0; r < blocks_[0].rows(); ++r)
      for (long c = 0; c < blocks_[0].columns(); ++c)
        blocks_[0].at(r, c) = pattern.at(layout_.my_rows().first + r, layout_.my_columns().first + c, layout_.columns);
    for (size_t i = 0; i < 2; ++i)
      if (stream_->gpu() != nullptr)
        stream_->gpu()->write(on_gpu_[i].data(), address(blocks_[i]), bytes(blocks_[i]));
  }

  // In the stream modes the host only enqueues, and waits after every batch.
  void run(long steps, Progress& progress) {
    for (long step = 0; step < steps; ++step) {
      halo_.enqueue_gather(cells_[step % 2]);
      stream_->launch(steps_[step % 2]);
      if ((step + 1) % options_.batch != 0)
        continue;
      if (halo_.mode() != HaloMode::kMpi)
        halo_.synchronize();
      progress.at(step + 1);
    }
    halo_.synchronize();
  }

  QueueInfo info() const { return halo_.info(); }
  // Requires that the stream is empty.
  const Block<Cell>& after(long steps) {
    const size_t i = static_cast<size_t>(steps % 2);
    if (stream_->gpu() != nullptr)
      stream_->gpu()->read(address(blocks_[i]), on_gpu_[i].data(), bytes(blocks_[i]));
    return blocks_[i];
  }

 private:
  static std::byte* address(Block<Cell>& block) { return reinterpret_cast<std::byte*>(block.data()); }
  static size_t bytes(const Block<Cell>& block) { return static_cast<size_t>((block.rows() + 2) * block.stride()); }

  const LifeRunOptions& options_;
  const CartesianLayout& layout_;
  std::array<Block<Cell>, 2> blocks_;
  std::unique_ptr<Stream> stream_;
  std::array<AlignedBuffer, 2> on_gpu_;
  std::array<Cell*, 2> cells_{};  // where the stream has them
  std::array<LifeKernel, 2> steps_;
  StreamHalo<Cell> halo_;
};

}  // namespace

LifeResult run_life(HaloMode mode, const char* name, const LifeRunOptions& options, const CartesianLayout& layout,
                    const LifePattern& pattern, const Streams& streams, const MpiProcess& process) {
  LifeResult result;
  LifeLoop loop(mode, options, layout, streams);
  Progress progress(fmt::format("game_of_life: mode {}", name), options.steps, process.is_first());
  loop.fill(pattern);
  loop.run(options.warmup, progress);
  loop.fill(pattern);
  const QueueInfo before = loop.info();

  process.barrier();
  const auto begin = std::chrono::steady_clock::now();
  loop.run(options.steps, progress);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;

  result.seconds = process.largest(elapsed.count());
  result.nic = loop.info();
  if (mode != HaloMode::kMpi)
    result.entries = entry_figures(before, result.nic);
  if (options.gather_result)
    result.grid = collect(loop.after(options.steps), layout, process);
  return result;
}

}  // namespace lanyard::bench
