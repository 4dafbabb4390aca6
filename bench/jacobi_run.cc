#include "bench/jacobi_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include "bench/aligned_buffer.h"
#include "bench/collect.h"
#include "bench/jacobi_host.h"
#include "bench/jacobi_kernels.h"
#include "bench/stream_halo.h"

namespace lanyard::bench {
namespace {

// What is moved: to each neighbour the layer at its face, and to the other end of the own block where it wraps.
HaloShape halo_shape(const JacobiLayout& layout) {
  const JacobiShape shape = layout.shape(1);
  HaloShape halo;
  halo.origin = shape.origin();
  halo.stride = shape.stride();
  halo.plane_stride = shape.plane_stride();
  halo.neighbours.count = kFaces;
  for (int face = 0; face < kFaces; ++face) {
    const auto f = static_cast<size_t>(face);
    const int neighbour = layout.neighbour(face);
    halo.neighbours.ranks[f] = neighbour == JacobiLayout::kNobody ? MPI_PROC_NULL : neighbour;
    if (!halo.neighbours.has_message(face) && !layout.wraps(face))
      continue;
    const long out = JacobiLayout::is_low(face) ? -1 : 1;
    const size_t axis = JacobiLayout::axis(face);
    halo.owned[f] = halo.ghost[f] = layer(whole(layout), face);
    (axis == JacobiLayout::kPlanes ? halo.ghost[f].plane
     : axis == JacobiLayout::kRows ? halo.ghost[f].row
                                   : halo.ghost[f].column) += out;
  }
  return halo;
}

template <class F>
void for_each_row(const Region& region, F&& f) {
  for (long p = region.plane; p < region.plane + region.planes; ++p)
    for (long r = region.row; r < region.row + region.rows; ++r)
      f(p, r);
}

// The two generations of a rank.
template <class T>
class JacobiSteps final : public HaloSteps {
 public:
  JacobiSteps(HaloMode mode, bool computes, const JacobiLayout& layout, const JacobiProblem& problem, Stream& stream,
              Nccl* nccl)
      : mode_(mode),
        computes_(computes),
        layout_(layout),
        problem_(problem),
        shape_(layout.shape(sizeof(T))),
        stream_(stream),
        met_(sizeof(uint64_t), stream.gpu()),
        halo_shape_(halo_shape(layout)),
        halo_(mode, MPI_COMM_WORLD, halo_shape_, stream, nccl) {
    for (AlignedBuffer& cells : cells_)
      cells = AlignedBuffer(static_cast<size_t>(shape_.all_cells()) * sizeof(T), stream.gpu());
    for (size_t i = 0; i < 2; ++i)
      steps_[i] = {cells_[i].data(), cells_[1 - i].data(), shape_, jacobi_kernel<T>};
    const JacobiParts split = parts(layout);
    loop_.shape = shape_;
    loop_.inner = split.inner;
    loop_.computes = computes;
    loop_.met = reinterpret_cast<uint64_t*>(met_.data());
    loop_.on_host = jacobi_loop_kernel<T>;
    for (size_t i = 0; i < 2; ++i)
      loop_.cells[i] = cells_[i].data();
    for (int face = 0; face < kFaces; ++face) {
      loop_.wraps[face] = layout.wraps(face);
      if (const Region& slab = split.slabs[static_cast<size_t>(face)]; slab.cells() > 0)
        loop_.slabs[loop_.slab_count++] = slab;
    }
  }

  // All but the first generation's cells and the fixed boundary is no number, and what comes of it is none.
  void fill() override {
    for (size_t i = 0; i < 2; ++i) {
      write(i, [&](T* cells) {
        std::fill_n(cells, shape_.all_cells(), std::numeric_limits<T>::quiet_NaN());
        for_each_row(whole(layout_), [&](long p, long r) {
          T* const row = cells + offset(p, r);
          const double wave = wave_at(p, r);
          for (long c = 0; i == 0 && c < shape_.columns; ++c)
            row[c] = start(wave, c);
          if (layout_.is_fixed(kLeft))
            row[-1] = start(wave, -1);
          if (layout_.is_fixed(kRight))
            row[shape_.columns] = start(wave, shape_.columns);
        });
      });
    }
    met_.write([](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); });
  }

  void poison_messages() override { halo_.poison(); }

  void enqueue(long first, long count) override {
    if (mode_ == HaloMode::kKernel) {
      loop_.steps = static_cast<uint64_t>(count);
      stream_.launch(loop_);
      return;
    }
    for (long step = first; step < first + count; ++step) {
      const auto from = static_cast<size_t>(computes_ ? step % 2 : 0);
      halo_.enqueue_gather(reinterpret_cast<T*>(cells_[from].data()));
      if (computes_)
        stream_.launch(steps_[from]);
    }
  }
  void synchronize() override { halo_.synchronize(); }
  std::string why_not() override {
    if (mode_ != HaloMode::kKernel)
      return halo_.why_not_captured();
    const std::string why = halo_.why_not_by_kernel();
    loop_.messages = halo_.messages();
    return why;
  }
  QueueInfo info() const override { return halo_.info(); }

  // Both require that the stream is empty.

  // The owned cells, by plane, row and column.
  std::vector<T> after(long steps) const {
    std::vector<T> owned;
    owned.reserve(static_cast<size_t>(shape_.cells()));
    read(static_cast<size_t>(steps % 2), [&](const T* cells) {
      for_each_row(whole(layout_), [&](long p, long r) {
        const T* const row = cells + offset(p, r);
        owned.insert(owned.end(), row, row + shape_.columns);
      });
    });
    return owned;
  }
  // Of a run without computing: the first cell or ghost that is not as it began; empty if there is none. A kernel that
  // makes its own exchanges has no ghosts where its block wraps.
  std::string difference_from_start() const {
    std::string wrong;
    read(0, [&](const T* cells) {
      compare(cells, whole(layout_), "cell", wrong);
      for (int face = 0; face < kFaces; ++face)
        if (mode_ != HaloMode::kKernel || halo_shape_.neighbours.has_message(face))
          compare(cells, halo_shape_.ghost[static_cast<size_t>(face)], "ghost", wrong);
    });
    return wrong;
  }

 private:
  static constexpr int kLeft = 2, kRight = 3;  // faces

  long offset(long plane, long row) const {
    return shape_.origin() + plane * shape_.plane_stride() + row * shape_.stride();
  }
  // Of a local plane and row, ghosts included.
  double wave_at(long plane, long row) const {
    const auto global = [&](size_t axis, long local) {
      return (layout_.mine(axis).first + local + layout_.cells[axis]) % layout_.cells[axis];
    };
    return problem_.wave(global(JacobiLayout::kPlanes, plane), global(JacobiLayout::kRows, row));
  }
  T start(double wave, long column) const {
    return problem_.template start<T>(wave, layout_.mine(JacobiLayout::kColumns).first + column);
  }
  void compare(const T* cells, const Region& region, const char* what, std::string& wrong) const {
    for_each_row(region, [&](long p, long r) {
      const double wave = wave_at(p, r);
      for (long c = region.column; c < region.column + region.columns && wrong.empty(); ++c) {
        const T found = cells[offset(p, r) + c], expected = start(wave, c);
        if (std::memcmp(&found, &expected, sizeof(T)) != 0)
          wrong = fmt::format("rank {}: local {} ({}, {}, {}) is {}, should be {}", layout_.rank, what, p, r, c, found,
                              expected);
      }
    });
  }
  template <class F>
  void write(size_t generation, F&& f) {
    cells_[generation].write([&](std::span<std::byte> bytes) { f(reinterpret_cast<T*>(bytes.data())); });
  }
  template <class F>
  void read(size_t generation, F&& f) const {
    cells_[generation].read([&](std::span<const std::byte> bytes) { f(reinterpret_cast<const T*>(bytes.data())); });
  }

  const HaloMode mode_;
  const bool computes_;
  const JacobiLayout& layout_;
  const JacobiProblem& problem_;
  const JacobiShape shape_;
  Stream& stream_;
  std::array<AlignedBuffer, 2> cells_;
  AlignedBuffer met_;
  std::array<JacobiKernel, 2> steps_;
  JacobiLoop loop_;
  const HaloShape halo_shape_;
  StreamHalo<T> halo_;
};

template <class T>
std::vector<T> collect_grid(std::vector<T> mine, const JacobiLayout& layout, const JacobiProblem& problem,
                            const MpiProcess& process) {
  std::vector<T> grid(process.is_first() ? static_cast<size_t>(problem.count()) : 0);
  const auto insert = [&](int rank, const std::vector<T>& cells) {
    const JacobiLayout owner = layout.of_rank(rank);
    const Extent planes = owner.mine(JacobiLayout::kPlanes), rows = owner.mine(JacobiLayout::kRows),
                 columns = owner.mine(JacobiLayout::kColumns);
    const T* from = cells.data();
    for_each_row(whole(owner), [&](long p, long r) {
      const long row = (planes.first + p) * problem.rows() + rows.first + r;
      std::copy_n(from, columns.count, &grid[static_cast<size_t>(row * problem.columns() + columns.first)]);
      from += columns.count;
    });
  };
  collect(
      std::move(mine), process, [&](int rank) { return layout.of_rank(rank).shape(sizeof(T)).cells(); }, insert);
  return grid;
}

}  // namespace

template <class T>
JacobiResult<T> run_jacobi(HaloMode mode, const std::string& what, const JacobiRunOptions& options,
                           const JacobiLayout& layout, const JacobiProblem& problem, const Streams& streams,
                           const MpiProcess& process) {
  JacobiResult<T> result;
  JacobiSteps<T>* steps = nullptr;
  const auto make = [&](Stream& stream, Nccl* nccl) {
    auto made = std::make_unique<JacobiSteps<T>>(mode, options.computes, layout, problem, stream, nccl);
    steps = made.get();
    return made;
  };
  const auto finish = [&] {
    if (!options.verifies)
      return;
    if (options.computes)
      result.grid = collect_grid(steps->after(options.halo.steps), layout, problem, process);
    else
      result.wrong = steps->difference_from_start();
  };
  static_cast<HaloRunResult&>(result) = run_halo(mode, what, options.halo, streams, process, make, finish);
  return result;
}

template JacobiResult<float> run_jacobi(HaloMode, const std::string&, const JacobiRunOptions&, const JacobiLayout&,
                                        const JacobiProblem&, const Streams&, const MpiProcess&);
template JacobiResult<double> run_jacobi(HaloMode, const std::string&, const JacobiRunOptions&, const JacobiLayout&,
                                         const JacobiProblem&, const Streams&, const MpiProcess&);

}  // namespace lanyard::bench
