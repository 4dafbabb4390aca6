// StreamHalo: fills and adds up the ghost cells of a rank's part of a grid, in the order of a stream.
//
// It models Cabana's StreamHalo (Bridges et al., section IV): neighbours and cells are as a HaloShape has them, on a
// periodic two-dimensional grid eight, depth 1, corners sent to the corner neighbours themselves. A gather copies owned
// cells into the neighbours' ghosts; a scatter adds ghost values to the cells of their owners. Each is one pack kernel
// for all neighbours, the messages (NeighbourExchange says how, and why ready sends are legal), and one unpack kernel
// for all.
//
// In the stream modes nothing blocks the host, so a whole time loop can be enqueued; bound what is
// enqueued by calling synchronize() every few steps. Where the host sends the calls have the same
// effect but block until the messages have moved. In mode kKernel a kernel does it all.
//
// Threads: one. Errors end the job (mpi_check.h). Memory: a direction one send buffer and two
// receive buffers (mode kSend: one) for the gather, and as much for the scatter if there is one.
#ifndef LANYARD_BENCH_STREAM_HALO_H_
#define LANYARD_BENCH_STREAM_HALO_H_

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/block.h"
#include "bench/cartesian_layout.h"
#include "bench/neighbour_exchange.h"
#include "bench/stream.h"
#include "bench/stream_queue.h"

namespace lanyard::bench {

enum class HaloKinds { kGather, kGatherAndScatter };

// Who the neighbours are, and which cells they share.
struct HaloShape {
  Neighbours neighbours;
  // By direction: what the neighbour there has as ghosts, and what it owns; of no cells where there is nobody.
  std::array<Region, kDirections> owned, ghost;
  // Cells before the first owned one, from row to row, and from plane to plane.
  long origin = 0;
  long stride = 0;
  long plane_stride = 0;
};

// That of a Block.
inline HaloShape halo_shape(const CartesianLayout& layout) {
  const long rows = layout.my_rows().count, columns = layout.my_columns().count;
  HaloShape shape;
  shape.stride = columns + 2;
  shape.origin = shape.stride + 1;
  shape.neighbours.count = kDirections;
  for (int d = 0; d < kDirections; ++d) {
    const auto i = static_cast<size_t>(d);
    shape.neighbours.ranks[i] = layout.neighbour(d);
    shape.owned[i] = owned_region(d, rows, columns);
    shape.ghost[i] = ghost_region(d, rows, columns);
  }
  return shape;
}

// T: trivially copyable, of 1, 4 or 8 bytes; with scatter, with += too.
template <class T>
class StreamHalo {
 public:
  // Creates a queue on the stream where the mode has one, the requests, and matches them. Collective over
  // comm. The stream, and `nccl` in kNccl, outlive this object; the stream has no queue yet. Tags 0 to 31 of comm are
  // taken. kGatherAndScatter: on host streams only.
  StreamHalo(HaloMode mode, MPI_Comm comm, const HaloShape& shape, Stream& stream, Nccl* nccl = nullptr,
             HaloKinds kinds = HaloKinds::kGather)
      : mode_(mode), shape_(shape), stream_(stream) {
    if (has_queue(mode_))
      queue_.emplace(stream);
    StreamQueue* queue = queue_ ? &*queue_ : nullptr;
    const NeighbourExchange::Lengths owned = bytes(shape.owned), ghost = bytes(shape.ghost);
    gather_.emplace(mode, comm, shape.neighbours, owned, ghost, 0, stream, queue, nccl);
    if (kinds == HaloKinds::kGatherAndScatter)
      scatter_.emplace(mode, comm, shape.neighbours, ghost, owned, NeighbourExchange::kTags, stream, queue);
  }
  // Collective: drains.
  ~StreamHalo() { drain(); }
  StreamHalo(const StreamHalo&) = delete;
  StreamHalo& operator=(const StreamHalo&) = delete;

  // `cells` are those of a block of the shape, with ghosts, in the stream's memory, and must outlive their use here by
  // the stream.

  // From here in the stream on, the ghosts of the block hold what their owners hold. Every rank
  // calls it equally often. Blocks where the host sends.
  void enqueue_gather(T* cells) {
    exchange(*gather_, cells, gathers_, shape_.owned, shape_.ghost, unpack_kernel<false>);
  }
  // From here in the stream on, the owned cells of the block have had added to them what the ghosts
  // of it held elsewhere. The ghosts keep their values. Contributions are added in the order of
  // kDirection. Requires kGatherAndScatter.
  void enqueue_scatter(T* cells) {
    exchange(*scatter_, cells, scatters_, shape_.ghost, shape_.owned, unpack_kernel<true>);
  }

  // Blocks the host until everything enqueued so far has run. Not collective.
  void synchronize() {
    // Outstanding receives of kRsend forbid waiting for the queue, which reports failures better.
    if (queue_ && mode_ != HaloMode::kRsend)
      queue_->drain();
    else
      stream_.synchronize();
  }
  // As synchronize(), and no receive is left outstanding (kRsend exchanges once more for that).
  // Collective.
  void drain() {
    gather_->close();
    if (scatter_)
      scatter_->close();
    if (queue_)
      queue_->drain();
    else
      stream_.synchronize();
  }

  // Messages then hold no numbers until an exchange has moved some. Collective. Requires that everything enqueued has
  // run, and that no rank enqueues more before all have returned.
  void poison() {
    gather_->poison();
    if (scatter_)
      scatter_->poison();
  }

  // Why a graph cannot capture gathers; empty where it can. Modes kNccl and kSend.
  std::string why_not_captured() { return gather_->why_not_captured(); }
  // Mode kKernel, likewise for kernels that gather; and what they do it with.
  std::string why_not_by_kernel() { return gather_->why_not_by_kernel(); }
  KernelMessages messages() { return gather_->messages(); }

  HaloMode mode() const { return mode_; }
  // Of the queue; empty where there is none.
  QueueInfo info() const { return queue_ ? queue_->info() : QueueInfo(); }

 private:
  static_assert(sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8);

  // The arguments of a pack and an unpack kernel: made once a block and set, at first use, then the
  // same for ever.
  struct Copies {
    int set = 0;
    HaloKernel pack, unpack;
  };
  using CopiesList = std::vector<std::unique_ptr<Copies>>;

  static size_t index(int i) { return static_cast<size_t>(i); }
  static NeighbourExchange::Lengths bytes(const std::array<Region, kDirections>& regions) {
    NeighbourExchange::Lengths lengths;
    for (size_t d = 0; d < kDirections; ++d)
      lengths[d] = static_cast<size_t>(regions[d].cells()) * sizeof(T);
    return lengths;
  }
  // Row r of all rows in all planes of the region.
  static T* row(const HaloKernel& c, const Region& region, long r) {
    return reinterpret_cast<T*>(c.cells) + c.origin + (region.plane + r / region.rows) * c.plane_stride +
           (region.row + r % region.rows) * c.stride + region.column;
  }
  static long rows(const Region& region) { return region.planes * region.rows; }

  static void pack_kernel(void* argument) {
    const HaloKernel& c = *static_cast<const HaloKernel*>(argument);
    for (size_t d = 0; d < kDirections; ++d) {
      const Region& region = c.regions[d];
      T* out = reinterpret_cast<T*>(c.messages[d]);
      for (long r = 0; r < rows(region); ++r, out += region.columns)
        std::copy_n(row(c, region, r), region.columns, out);
    }
  }
  template <bool add>
  static void unpack_kernel(void* argument) {
    const HaloKernel& c = *static_cast<const HaloKernel*>(argument);
    for (size_t d = 0; d < kDirections; ++d) {
      const Region& region = c.regions[d];
      const T* in = reinterpret_cast<const T*>(c.messages[d]);
      for (long r = 0; r < rows(region); ++r, in += region.columns) {
        T* to = row(c, region, r);
        for (long k = 0; k < region.columns; ++k) {
          if constexpr (add)
            to[k] += in[k];
          else
            to[k] = in[k];
        }
      }
    }
  }

  Copies& copies(CopiesList& list, NeighbourExchange& exchange, T* cells, const std::array<Region, kDirections>& from,
                 const std::array<Region, kDirections>& to, void (*unpack)(void*)) {
    auto* const address = reinterpret_cast<std::byte*>(cells);
    const int set = exchange.set();
    for (const auto& c : list)
      if (c->pack.cells == address && c->set == set)
        return *c;
    auto c = std::make_unique<Copies>();
    c->set = set;
    c->pack.cells = c->unpack.cells = address;
    c->pack.origin = c->unpack.origin = shape_.origin;
    c->pack.stride = c->unpack.stride = shape_.stride;
    c->pack.plane_stride = c->unpack.plane_stride = shape_.plane_stride;
    c->pack.cell_bytes = c->unpack.cell_bytes = static_cast<int>(sizeof(T));
    c->unpack.is_pack = false;
    c->pack.on_host = pack_kernel;
    c->unpack.on_host = unpack;
    for (int d = 0; d < shape_.neighbours.count; ++d) {
      c->pack.regions[d] = from[index(d)];
      c->pack.messages[d] = exchange.out(d);
      c->unpack.regions[d] = to[index(d)];
      c->unpack.messages[d] = exchange.in(set, d);
    }
    list.push_back(std::move(c));
    return *list.back();
  }

  void exchange(NeighbourExchange& exchange, T* cells, CopiesList& list, const std::array<Region, kDirections>& from,
                const std::array<Region, kDirections>& to, void (*unpack)(void*)) {
    const Copies& c = copies(list, exchange, cells, from, to, unpack);
    exchange.start_receives();
    stream_.launch(c.pack);
    exchange.send_and_wait();
    stream_.launch(c.unpack);
  }

  const HaloMode mode_;
  const HaloShape shape_;
  Stream& stream_;
  std::optional<StreamQueue> queue_;
  // After the queue: their requests go first.
  std::optional<NeighbourExchange> gather_, scatter_;
  CopiesList gathers_, scatters_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAM_HALO_H_
