#include "bench/life_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "bench/block.h"
#include "bench/host_stream.h"
#include "bench/progress.h"
#include "bench/stream_halo.h"

namespace lanyard::bench {
namespace {

constexpr int kResultTag = 1000;  // beyond StreamHalo's

std::vector<Cell> owned_cells(const Block<Cell>& block) {
  std::vector<Cell> cells;
  cells.reserve(static_cast<size_t>(block.rows() * block.columns()));
  for (long r = 0; r < block.rows(); ++r)
    for (long c = 0; c < block.columns(); ++c) cells.push_back(block.at(r, c));
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
      check(MPI_Recv(&cells[at], count, MPI_BYTE, peer, kResultTag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE),
            "MPI_Recv");
  }
}

std::optional<LifeGrid> collect(const Block<Cell>& block, const CartesianLayout& layout,
                                const MpiProcess& process) {
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

// The two generations of a rank and the loop over them.
class LifeLoop {
 public:
  LifeLoop(HaloMode mode, const LifeRunOptions& options, const CartesianLayout& layout)
      : options_(options),
        layout_(layout),
        blocks_{Block<Cell>(layout.my_rows().count, layout.my_columns().count),
                Block<Cell>(layout.my_rows().count, layout.my_columns().count)},
        steps_{LifeStep{&blocks_[0], &blocks_[1]}, LifeStep{&blocks_[1], &blocks_[0]}},
        halo_(mode, MPI_COMM_WORLD, layout, stream_) {}

  // Requires that the stream is empty. Dead ghosts would be plausible, so all but the owned cells
  // of the first generation hold what no cell ever holds.
  void fill(const LifePattern& pattern) {
    constexpr Cell kPoison = 0x55;
    for (Block<Cell>& block : blocks_)
      std::fill_n(block.data(), (block.rows() + 2) * block.stride(), kPoison);
    for (long r = 0; r < blocks_[0].rows(); ++r)
      for (long c = 0; c < blocks_[0].columns(); ++c)
        blocks_[0].at(r, c) = pattern.at(layout_.my_rows().first + r,
                                         layout_.my_columns().first + c, layout_.columns);
  }

  // In the stream modes the host only enqueues, and waits after every batch.
  void run(long steps, Progress& progress) {
    for (long step = 0; step < steps; ++step) {
      LifeStep& arguments = steps_[step % 2];
      halo_.enqueue_gather(*arguments.from);
      stream_.launch(life_kernel, &arguments);
      if ((step + 1) % options_.batch != 0) continue;
      if (halo_.mode() != HaloMode::kMpi) halo_.synchronize();
      progress.at(step + 1);
    }
    halo_.synchronize();
  }

  QueueInfo info() const { return halo_.info(); }
  const Block<Cell>& after(long steps) const { return blocks_[steps % 2]; }

 private:
  const LifeRunOptions& options_;
  const CartesianLayout& layout_;
  std::array<Block<Cell>, 2> blocks_;
  std::array<LifeStep, 2> steps_;
  HostStream stream_;
  StreamHalo<Cell> halo_;
};

}  // namespace

LifeResult run_life(HaloMode mode, const char* name, const LifeRunOptions& options,
                    const CartesianLayout& layout, const LifePattern& pattern,
                    const MpiProcess& process) {
  LifeResult result;
  LifeLoop loop(mode, options, layout);
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
  if (mode != HaloMode::kMpi) result.entries = entry_figures(before, result.nic);
  if (options.gather_result) result.grid = collect(loop.after(options.steps), layout, process);
  return result;
}

}  // namespace lanyard::bench
