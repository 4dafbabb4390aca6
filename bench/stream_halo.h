// StreamHalo: fills and adds up the ghost cells of a periodic two-dimensional grid, in the order of
// a stream.
//
// It models Cabana's StreamHalo (Bridges et al., section IV): eight neighbours, depth 1, corners
// sent to the corner neighbours themselves. A gather copies owned cells into the neighbours'
// ghosts; a scatter adds ghost values to the cells of their owners. Each is one pack kernel for all
// neighbours, the messages (NeighbourExchange says how, and why ready sends are legal), and one
// unpack kernel for all.
//
// In the stream modes nothing blocks the host, so a whole time loop can be enqueued; bound what is
// enqueued by calling synchronize() every few steps. In mode kMpi the calls have the same effect
// but block until the messages have moved.
//
// Threads: one. Errors end the job (mpi_check.h). Memory: a direction one send buffer and two
// receive buffers (mode kSend: one) for the gather, and as much for the scatter if there is one.
#ifndef LANYARD_BENCH_STREAM_HALO_H_
#define LANYARD_BENCH_STREAM_HALO_H_

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "bench/block.h"
#include "bench/cartesian_layout.h"
#include "bench/neighbour_exchange.h"
#include "bench/stream.h"
#include "bench/stream_queue.h"

namespace lanyard::bench {

enum class HaloKinds { kGather, kGatherAndScatter };

// T: trivially copyable, of 1, 4 or 8 bytes; with scatter, with += too.
template <class T>
class StreamHalo {
 public:
  // Creates a queue on the stream (but for kMpi), the requests, and matches them. Collective over
  // comm. The stream outlives this object and has no queue yet. Tags 0 to 31 of comm are taken.
  // kGatherAndScatter: on host streams only.
  StreamHalo(HaloMode mode, MPI_Comm comm, const CartesianLayout& layout, Stream& stream,
             HaloKinds kinds = HaloKinds::kGather)
      : mode_(mode), layout_(layout), stream_(stream) {
    if (mode_ != HaloMode::kMpi)
      queue_.emplace(stream);
    StreamQueue* queue = queue_ ? &*queue_ : nullptr;
    const long rows = layout.my_rows().count;
    const long columns = layout.my_columns().count;
    for (int d = 0; d < kDirections; ++d) {
      owned_[index(d)] = owned_region(d, rows, columns);
      ghost_[index(d)] = ghost_region(d, rows, columns);
    }
    gather_.emplace(mode, comm, layout, bytes(owned_), bytes(ghost_), 0, stream, queue);
    if (kinds == HaloKinds::kGatherAndScatter)
      scatter_.emplace(mode, comm, layout, bytes(ghost_), bytes(owned_), NeighbourExchange::kTags, stream, queue);
  }
  // Collective: drains.
  ~StreamHalo() { drain(); }
  StreamHalo(const StreamHalo&) = delete;
  StreamHalo& operator=(const StreamHalo&) = delete;

  // `cells` are those of a block of the layout's size (Block's order, with ghosts), in the stream's
  // memory, and must outlive their use here by the stream.

  // From here in the stream on, the ghosts of the block hold what their owners hold. Every rank
  // calls it equally often. Mode kMpi blocks.
  void enqueue_gather(T* cells) { exchange(*gather_, cells, gathers_, owned_, ghost_, unpack_kernel<false>); }
  // From here in the stream on, the owned cells of the block have had added to them what the ghosts
  // of it held elsewhere. The ghosts keep their values. Contributions are added in the order of
  // kDirection. Requires kGatherAndScatter.
  void enqueue_scatter(T* cells) { exchange(*scatter_, cells, scatters_, ghost_, owned_, unpack_kernel<true>); }

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

  HaloMode mode() const { return mode_; }
  // Of the queue; empty in mode kMpi.
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
  static T* row(const HaloKernel& c, const Region& region, long r) {
    return reinterpret_cast<T*>(c.cells) + (region.row + r + 1) * c.stride + region.column + 1;
  }

  static void pack_kernel(void* argument) {
    const HaloKernel& c = *static_cast<const HaloKernel*>(argument);
    for (size_t d = 0; d < kDirections; ++d) {
      const Region& region = c.regions[d];
      T* out = reinterpret_cast<T*>(c.messages[d]);
      for (long r = 0; r < region.rows; ++r, out += region.columns)
        std::copy_n(row(c, region, r), region.columns, out);
    }
  }
  template <bool add>
  static void unpack_kernel(void* argument) {
    const HaloKernel& c = *static_cast<const HaloKernel*>(argument);
    for (size_t d = 0; d < kDirections; ++d) {
      const Region& region = c.regions[d];
      const T* in = reinterpret_cast<const T*>(c.messages[d]);
      for (long r = 0; r < region.rows; ++r, in += region.columns) {
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
    c->pack.stride = c->unpack.stride = layout_.my_columns().count + 2;
    c->pack.cell_bytes = c->unpack.cell_bytes = static_cast<int>(sizeof(T));
    c->unpack.is_pack = false;
    c->pack.on_host = pack_kernel;
    c->unpack.on_host = unpack;
    for (int d = 0; d < kDirections; ++d) {
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
  const CartesianLayout layout_;
  Stream& stream_;
  std::optional<StreamQueue> queue_;
  std::array<Region, kDirections> owned_, ghost_;
  // After the queue: their requests go first.
  std::optional<NeighbourExchange> gather_, scatter_;
  CopiesList gathers_, scatters_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAM_HALO_H_
