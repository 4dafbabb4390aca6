// Generations<Dim, T>: a rank's block of cells in two generations, in a stream's memory. A step
// fills the ghosts of one by a halo exchange and computes the other from it. And the options of
// programs that make such steps.
#ifndef LANYARD_BENCH_GENERATIONS_H_
#define LANYARD_BENCH_GENERATIONS_H_

#include <mpi.h>

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lanyard/lanyard.hpp>
#include "bench/halo/halo.h"
#include "bench/program.h"
#include "bench/report.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct LoopOptions {
  long steps = 100;
  long warmup = 8;
  long batch = 12;
  std::string memory = "host";
  std::string format = "text";
};

constexpr long kMany = std::numeric_limits<int>::max();

inline void add_loop_options(CLI::App& app, LoopOptions& o) {
  app.add_option("--steps", o.steps, "timed steps (default: 100)")->check(CLI::Range(1L, kMany));
  app.add_option("--warmup", o.warmup, "steps before the timed ones (default: 8)")->check(CLI::Range(0L, kMany));
  app.add_option("--batch", o.batch, "on a queue: steps enqueued before the host waits (default: 12)")
      ->check(CLI::Range(1L, kMany));
  add_memory(app, o.memory);
  add_format(app, o.format);
}

template <int Dim, class T>
class Generations {
 public:
  // Collective over comm, whose ranks the grid numbers. The halo is one cell wide. There is a queue
  // but in mode kMpi. After every `batch` steps the host waits.
  Generations(const halo::Grid<Dim>& grid, const halo::Options& options, const Streams& streams, long batch,
              MPI_Comm comm)
      : comm_(comm), batch_(batch), stream_(streams.make()) {
    if (options.mode.way != halo::Mode::kMpi)
      queue_.emplace(*stream_);
    halo_.emplace(grid, options, std::vector{halo::cell_type<T>()}, comm, *stream_,
                  queue_ ? queue_->handle() : MPIX_QUEUE_NULL);
    for (size_t i = 0; i < 2; ++i) {
      buffers_[i] = AlignedBuffer(shape().size() * sizeof(T), stream_->gpu());
      fields_[i] = &halo_->bind(cells(i));
    }
  }

  const halo::Grid<Dim>& grid() const { return halo_->grid(); }
  const halo::Shape<Dim>& shape() const { return halo_->shape(); }
  Stream& stream() { return *stream_; }
  halo::Halo<Dim>& halo() { return *halo_; }
  const typename halo::Halo<Dim>::Fields& fields(size_t generation) const { return *fields_[generation]; }
  // In the stream's memory.
  T* cells(size_t generation) { return reinterpret_cast<T*>(buffers_[generation].data()); }

  // Calls f(generation, cells) with host memory that becomes each generation's. Requires that the
  // stream is empty.
  template <class F>
  void fill(const F& f) {
    for (size_t i = 0; i < 2; ++i)
      buffers_[i].write([&](std::span<std::byte> bytes) { f(i, reinterpret_cast<T*>(bytes.data())); });
  }
  // What f says of host memory that has a generation's cells.
  template <class F>
  auto read(size_t generation, const F& f) const {
    return buffers_[generation].read(
        [&](std::span<const std::byte> bytes) { return f(reinterpret_cast<const T*>(bytes.data())); });
  }

  // Calls step(i) for each step i. Where there is a queue it only enqueues, and the host waits
  // after every batch.
  template <class Step>
  void run(long steps, Progress& progress, const Step& step) {
    for (long i = 0; i < steps; ++i) {
      step(i);
      if ((i + 1) % batch_ != 0)
        continue;
      if (queue_)
        halo_->synchronize();
      progress.at(i + 1);
    }
    halo_->synchronize();
  }
  // Seconds of the slowest rank for run(). Collective.
  template <class Step>
  double timed(long steps, Progress& progress, const Step& step) {
    check(MPI_Barrier(comm_), "MPI_Barrier");
    const double begin = MPI_Wtime();
    run(steps, progress, step);
    double seconds = MPI_Wtime() - begin;
    check(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm_), "MPI_Allreduce");
    return seconds;
  }

  // Of the queue; null without one.
  Json info() const { return queue_ ? queue_->info() : Json(); }

  // All cells of the whole grid that a generation has, on rank 0, row-major; nothing elsewhere.
  // Requires that the stream is empty. Collective.
  std::vector<T> collect(size_t generation) const {
    constexpr int kTag = 1000;  // beyond a halo's
    std::array<long, Dim> sizes;
    std::array<halo::Extent, Dim> owned;
    for (size_t d = 0; d < Dim; ++d) {
      sizes[d] = shape().counts[d] + 2 * shape().width;
      owned[d] = {shape().width, shape().counts[d]};
    }
    std::vector<T> whole;
    read(generation, [&](const T* block) {
      MPI_Datatype sent = box_type(sizes, owned);
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(block, 1, sent, 0, kTag, comm_, &request), "MPI_Isend");
      int ranks = 0;
      check(MPI_Comm_size(comm_, &ranks), "MPI_Comm_size");
      for (int rank = 0; grid().rank == 0 && rank < ranks; ++rank) {
        const halo::Grid<Dim> owner = grid().of_rank(rank);
        for (size_t d = 0; d < Dim; ++d)
          owned[d] = owner.mine(d);
        whole.resize(std::accumulate(owner.cells.begin(), owner.cells.end(), size_t{1}, std::multiplies<>()));
        MPI_Datatype received = box_type(owner.cells, owned);
        check(MPI_Recv(whole.data(), 1, received, rank, kTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
        check(MPI_Type_free(&received), "MPI_Type_free");
      }
      check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
      check(MPI_Type_free(&sent), "MPI_Type_free");
    });
    return whole;
  }

 private:
  // A box of an array of these sizes.
  static MPI_Datatype box_type(const std::array<long, Dim>& all, const std::array<halo::Extent, Dim>& box) {
    std::array<int, Dim> sizes, counts, first;
    for (size_t d = 0; d < Dim; ++d) {
      sizes[d] = static_cast<int>(all[d]);
      counts[d] = static_cast<int>(box[d].count);
      first[d] = static_cast<int>(box[d].first);
    }
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(
        MPI_Type_create_subarray(Dim, sizes.data(), counts.data(), first.data(), MPI_ORDER_C, datatype_of<T>(), &type),
        "MPI_Type_create_subarray");
    check(MPI_Type_commit(&type), "MPI_Type_commit");
    return type;
  }

  const MPI_Comm comm_;
  const long batch_;
  std::unique_ptr<Stream> stream_;
  std::optional<StreamQueue> queue_;
  std::array<AlignedBuffer, 2> buffers_;
  std::optional<halo::Halo<Dim>> halo_;
  std::array<const typename halo::Halo<Dim>::Fields*, 2> fields_{};
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_GENERATIONS_H_
