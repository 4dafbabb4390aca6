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
// Threads: one. Errors end the job (program.h). Memory: a direction one send buffer and two
// receive buffers (mode kSend: one) for the gather, and as much for the scatter if there is one.
#ifndef LANYARD_BENCH_HALO_STREAM_HALO_H_
#define LANYARD_BENCH_HALO_STREAM_HALO_H_

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "bench/halo/block.h"
#include "bench/halo/exchange.h"
#include "bench/queue.h"
#include "bench/stream.h"

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
    if (mode_.way != HaloMode::kMpi)
      queue_.emplace(stream);
    StreamQueue* queue = queue_ ? &*queue_ : nullptr;
    Regions owned, ghost;
    for (int d = 0; d < kDirections; ++d) {
      owned[static_cast<size_t>(d)] = owned_region(d, layout.my_rows().count, layout.my_columns().count);
      ghost[static_cast<size_t>(d)] = ghost_region(d, layout.my_rows().count, layout.my_columns().count);
    }
    const auto make = [&](std::optional<Movement>& movement, const Regions& from, const Regions& to, int first_tag) {
      movement.emplace(from, to, mode, comm, layout, bytes(from), bytes(to), first_tag, stream, queue);
    };
    make(gather_, owned, ghost, 0);
    if (kinds == HaloKinds::kGatherAndScatter)
      make(scatter_, ghost, owned, NeighbourExchange::kTags);
  }
  // Collective: drains.
  ~StreamHalo() { drain(); }
  StreamHalo(const StreamHalo&) = delete;
  StreamHalo& operator=(const StreamHalo&) = delete;

  // `cells` are those of a block of the layout's size (Block's order, with ghosts), in the stream's
  // memory, and must outlive their use here by the stream.

  // From here in the stream on, the ghosts of the block hold what their owners hold. Every rank
  // calls it equally often. Mode kMpi blocks.
  void enqueue_gather(T* cells) { enqueue(*gather_, cells, move_cells<Move::kUnpack>); }
  // From here in the stream on, the owned cells of the block have had added to them what the ghosts
  // of it held elsewhere. The ghosts keep their values. Contributions are added in the order of
  // kDirection. Requires kGatherAndScatter.
  void enqueue_scatter(T* cells) { enqueue(*scatter_, cells, move_cells<Move::kAdd>); }

  // Blocks the host until everything enqueued so far has run. Not collective.
  void synchronize() {
    // Outstanding receives of kRsend forbid waiting for the queue, which reports failures better.
    if (queue_ && (mode_.way != HaloMode::kRsend || mode_.sets > 0))
      queue_->drain();
    else
      stream_.synchronize();
  }
  // As synchronize(), and no receive is left outstanding (kRsend exchanges once more for that).
  // Collective.
  void drain() {
    gather_->exchange.close();
    if (scatter_)
      scatter_->exchange.close();
    if (queue_)
      queue_->drain();
    else
      stream_.synchronize();
  }

  bool has_queue() const { return queue_.has_value(); }
  // Of the queue; null in mode kMpi.
  Json info() const { return queue_ ? queue_->info() : Json(); }

 private:
  static_assert(sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8);

  using Regions = std::array<Region, kDirections>;
  // The arguments of a pack and an unpack kernel, made at first use.
  struct Copies {
    HaloKernel pack, unpack;
  };
  struct Movement {
    template <class... Arguments>
    Movement(const Regions& f, const Regions& t, Arguments&&... arguments)
        : from(f), to(t), exchange(std::forward<Arguments>(arguments)...) {}
    const Regions from, to;
    NeighbourExchange exchange;
    std::map<std::pair<T*, int>, Copies> copies;  // by block and set
  };
  enum class Move { kPack, kUnpack, kAdd };

  static NeighbourExchange::Lengths bytes(const Regions& regions) {
    NeighbourExchange::Lengths lengths;
    for (size_t d = 0; d < kDirections; ++d)
      lengths[d] = static_cast<size_t>(regions[d].cells()) * sizeof(T);
    return lengths;
  }

  // The kernels on host streams.
  template <Move move>
  static void move_cells(void* argument) {
    const HaloKernel& c = *static_cast<const HaloKernel*>(argument);
    for (size_t d = 0; d < kDirections; ++d) {
      const Region& region = c.regions[d];
      T* message = reinterpret_cast<T*>(c.messages[d]);
      for (long r = 0; r < region.rows; ++r, message += region.columns) {
        T* const cells = reinterpret_cast<T*>(c.cells) + (region.row + r + 1) * c.stride + region.column + 1;
        if constexpr (move == Move::kPack)
          std::copy_n(cells, region.columns, message);
        else if constexpr (move == Move::kUnpack)
          std::copy_n(message, region.columns, cells);
        else
          for (long k = 0; k < region.columns; ++k)
            cells[k] += message[k];
      }
    }
  }

  const Copies& copies(Movement& movement, T* cells, void (*unpack)(void*)) {
    const int set = movement.exchange.set();
    const auto [found, is_new] = movement.copies.try_emplace({cells, set});
    Copies& c = found->second;
    if (!is_new)
      return c;
    c.pack.cells = reinterpret_cast<std::byte*>(cells);
    c.pack.stride = layout_.my_columns().count + 2;
    c.pack.cell_bytes = static_cast<int>(sizeof(T));
    c.unpack = c.pack;
    c.unpack.is_pack = false;
    c.pack.on_host = move_cells<Move::kPack>;
    c.unpack.on_host = unpack;
    for (int d = 0; d < kDirections; ++d) {
      c.pack.regions[d] = movement.from[static_cast<size_t>(d)];
      c.pack.messages[d] = movement.exchange.out(d);
      c.unpack.regions[d] = movement.to[static_cast<size_t>(d)];
      c.unpack.messages[d] = movement.exchange.in(set, d);
    }
    return c;
  }

  void enqueue(Movement& movement, T* cells, void (*unpack)(void*)) {
    const Copies& c = copies(movement, cells, unpack);
    movement.exchange.start_receives();
    stream_.launch(c.pack);
    movement.exchange.send_and_wait();
    stream_.launch(c.unpack);
  }

  const HaloMode mode_;
  const CartesianLayout layout_;
  Stream& stream_;
  std::optional<StreamQueue> queue_;
  // After the queue: their requests go first.
  std::optional<Movement> gather_, scatter_;
};

// Checks gather and scatter cell by cell against closed forms: several rounds with values that tell rank, cell and
// round. What this rank found wrong first; empty when nothing is. Collective over MPI_COMM_WORLD.
std::string check_halo(HaloMode mode, const CartesianLayout& layout, int ranks);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_HALO_STREAM_HALO_H_
