// Halo<Dim>: keeps the ghost cells of arrays on a grid of ranks, in the order of a stream.
//
//     namespace halo = lanyard::halo;
//     const halo::Grid<2> grid = halo::make_grid<2>(MPI_COMM_WORLD, {1000, 800}, {true, false});
//     lanyard::HostStream stream;   // or a stream of CUDA or HIP, and halo::GpuStream (gpu.h)
//     lanyard::Queue queue(stream);
//     halo::HostStream kernels(stream);
//     halo::Halo<2> exchange(grid, {.width = 1}, {halo::cell_type<double>()}, MPI_COMM_WORLD,
//                            kernels, queue.handle());
//     std::vector<double> u(exchange.shape().size());   // u[exchange.shape().at(row, column)]
//     const auto& fields = exchange.bind(u.data());
//     for (int step = 0; step < 1000; ++step) {
//       exchange.enqueue_gather(fields);
//       stream.launch([&u, step] { compute(u, step); });  // copied; runs later
//     }
//     exchange.drain();
//
// All of these must be gone before MPI_Finalize: put them into a function. With two arrays in turn
// bind both, and gather now the one, now the other.
//
// A gather copies owned cells into the neighbours' ghosts. A scatter combines ghosts with the cells
// of their owners: as a sum, a minimum, a maximum, or by replacing them. Each is one pack kernel
// for all neighbours and arrays, one message to each neighbour, and one unpack kernel. A neighbour
// is a direction: two ranks may exchange several messages, and a rank in a periodic dimension of
// its own sends messages to itself. Ghosts behind walls are in the arrays and never touched: the
// program fills them. A side is a wall where Grid::neighbour() is negative.
//
// In all modes but kMpi nothing blocks the host, so a whole time loop can be enqueued. Bound what
// is enqueued by calling synchronize() every few steps: beyond the card's entries (entries_depth in
// Lanyard_Queue_get_info) starts wait in memory, which is slower. In mode kMpi the calls have the
// same effect but block until the messages have moved.
//
// Errors: std::invalid_argument for what the caller got wrong, thrown on every rank before anything
// is matched; lanyard::Error for what MPI or Lanyard says, if the error handlers of comm and of
// MPI_COMM_WORLD return. Threads: one. Memory: a neighbour one
// send buffer and two receive buffers (kSend without two sets and kCollective: one) for the
// gather, and as much for the scatter if there is one.
//
// The files of this folder need C++20, lanyard.hpp and mpi.h, and nothing else of the tree: copy
// the folder, and link Lanyard before the MPI.
//
// Source: StreamHalo in Bridges et al., section IV, after Cabana's halo.
#ifndef LANYARD_BENCH_HALO_HALO_H_
#define LANYARD_BENCH_HALO_HALO_H_

#include <mpi.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <lanyard/lanyard.hpp>
#include "grid.h"
#include "messages.h"
#include "stream.h"

namespace lanyard::halo {

// A grid on all ranks of a communicator. Where `ranks` has a 0 MPI_Dims_create chooses.
template <int Dim>
Grid<Dim> make_grid(MPI_Comm comm, const std::array<long, Dim>& cells, const std::array<bool, Dim>& periodic,
                    const std::array<int, Dim>& ranks = {}) {
  Grid<Dim> grid{cells, periodic, ranks, 0};
  int size = 0;
  check(MPI_Comm_rank(comm, &grid.rank));
  check(MPI_Comm_size(comm, &size));
  check(MPI_Dims_create(size, Dim, grid.ranks.data()));
  return grid;
}

// What the halo launches its kernels on: a host stream, borrowed. The program's own kernels go to
// that stream itself.
class HostStream final : public Stream {
 public:
  explicit HostStream(lanyard::HostStream& stream) : stream_(stream) {}
  void synchronize() override { stream_.synchronize(); }
  void launch(const BoxCopies& copies) override {
    stream_.launch(copy_boxes_on_host, const_cast<BoxCopies*>(&copies));  // which only reads it
  }

 private:
  lanyard::HostStream& stream_;
};

struct Options {
  int width = 1;
  bool has_corners = true;  // neighbours at edges and corners; a 5- or 7-point stencil needs faces only
  Mode mode{};
  bool has_scatter = false;  // enqueue_scatter() is called, too
  int first_tag = 0;         // kTags tags of the communicator from here on are taken
};

// An array of a block: its owned cell (0, ..., 0), and the distance in cells from one to the next
// in each dimension.
template <int Dim>
struct Array {
  void* origin = nullptr;
  std::array<long, Dim> step{};
  CellType type = CellType::kDouble;
};

template <int Dim>
class Halo {
  static_assert(Dim == 2 || Dim == 3);

  // The arguments of the kernels for some arrays and one set of buffers, and what they point to.
  struct Lists {
    BoxCopies pack;
    std::array<BoxCopies, 4> unpack;  // by Combine
    AlignedBuffer pack_memory, unpack_memory;
  };

 public:
  // Scatter and gather, two sets each, all directions of the largest grid.
  static constexpr int kTags = 2 * Messages::kSets * 27;

  // Arrays that are exchanged together, made ready for it.
  class Fields {
   public:
    Fields(const Fields&) = delete;
    Fields& operator=(const Fields&) = delete;

   private:
    friend class Halo;
    Fields() = default;
    std::array<Lists, Messages::kSets> gather, scatter;
  };

  // For arrays of these types, all exchanged by the same messages. Creates the requests and matches
  // them. Collective over comm, whose ranks the grid numbers. The stream, and but for kMpi the
  // queue on it, outlive this object.
  Halo(const Grid<Dim>& grid, const Options& options, std::vector<CellType> types, MPI_Comm comm, Stream& stream,
       Lanyard_Queue queue = LANYARD_QUEUE_NULL)
      : grid_(grid),
        options_(options),
        types_(std::move(types)),
        shape_(grid, options.width),
        stream_(stream),
        queue_(queue) {
    refuse(grid.mistake(options.width));
    refuse(types_.empty() ? "a halo without types of cells" : "");
    const bool has_sets = options.mode.way == Mode::kSend || options.mode.way == Mode::kReadySend;
    refuse(options.mode.sets < 0 || options.mode.sets > (has_sets ? 2 : 0) ? "this mode has not so many sets" : "");
    refuse(queue == LANYARD_QUEUE_NULL && options.mode.way != Mode::kMpi ? "this mode needs a queue" : "");
    const std::vector<Direction<Dim>> all = directions<Dim>();
    std::vector<Box<Dim>> owned, ghosts;
    std::vector<Peer> peers;
    for (size_t i = 0; i < all.size(); ++i) {
      const int rank = grid.neighbour(all[i]);
      const bool is_face = std::count(all[i].begin(), all[i].end(), 0) == Dim - 1;
      if (rank < 0 || !(is_face || options.has_corners))
        continue;
      // No rank owns more than the first.
      const size_t most = message_bytes(border<Dim>(grid.of_rank(0).owned(), all[i], options.width, false));
      refuse(most > INT_MAX ? "a message of " + std::to_string(most) + " bytes is too long" : "");
      owned.push_back(border<Dim>(grid.owned(), all[i], options.width, false));
      ghosts.push_back(border<Dim>(grid.owned(), all[i], options.width, true));
      // A message has the tag of the direction in which its sender sent it.
      const int tag = options.first_tag + static_cast<int>(i);
      const int opposite = options.first_tag + static_cast<int>(all.size() - 1 - i);
      peers.push_back({rank, tag, opposite, message_bytes(owned.back())});
    }
    gather_.emplace(*this, owned, ghosts, whole(ghosts), peers, comm);
    if (!options.has_scatter)
      return;
    for (Peer& peer : peers) {
      peer.out_tag += kTags / 2;
      peer.in_tag += kTags / 2;
    }
    std::vector<Piece<Dim>> pieces = cut(owned);
    // What comes from lower ranks is combined first.
    for (Piece<Dim>& piece : pieces)
      std::stable_sort(piece.owners.begin(), piece.owners.end(),
                       [&](size_t a, size_t b) { return peers[a].rank < peers[b].rank; });
    scatter_.emplace(*this, ghosts, owned, pieces, peers, comm);
  }
  // Collective: drains. Errors are ignored; call drain() before to hear of them.
  ~Halo() {
    try {
      drain();
    } catch (const std::exception&) {
    }
  }
  Halo(const Halo&) = delete;
  Halo& operator=(const Halo&) = delete;

  const Grid<Dim>& grid() const { return grid_; }
  // How an array given by its beginning lies in memory.
  const Shape<Dim>& shape() const { return shape_; }

  // Prepares the exchange of arrays that begin at these places, of this halo's types and shape, in
  // the stream's memory. The result lives as long as this object; the arrays must outlive their use
  // by the stream. Local; allocates, and waits for a GPU's stream.
  template <class... T>
  const Fields& bind(T*... arrays) {
    std::array<long, Dim> steps;
    for (size_t d = 0; d < Dim; ++d)
      steps[d] = shape_.stride(d);
    const size_t origin = shape_.at(std::array<long, Dim>{});
    return bind(std::vector<Array<Dim>>{{arrays + origin, steps, cell_type<T>()}...});
  }
  // The same for arrays that lie in memory in ways of their own.
  const Fields& bind(const std::vector<Array<Dim>>& arrays) {
    refuse(arrays.size() != types_.size() ? "not as many arrays as this halo has types" : "");
    for (size_t i = 0; i < arrays.size(); ++i)
      refuse(arrays[i].type != types_[i] ? "array " + std::to_string(i) + " is not of this halo's type" : "");
    fields_.push_back(std::unique_ptr<Fields>(new Fields));
    Fields& fields = *fields_.back();
    prepare(*gather_, arrays, fields.gather);
    if (scatter_)
      prepare(*scatter_, arrays, fields.scatter);
    return fields;
  }

  // From here in the stream on, the ghosts hold what their owners hold. Every rank calls it equally
  // often. kMpi blocks.
  void enqueue_gather(const Fields& fields) {
    begin_gather(fields);
    end_gather(fields);
  }
  // The same in two halves: kernels that are launched between them run while the messages are under
  // way. They may read all cells and write those that no neighbour has as ghosts, and touch no
  // ghosts.
  void begin_gather(const Fields& fields) { begin(*gather_, fields.gather); }
  void end_gather(const Fields& fields) { end(*gather_, fields.gather, Combine::kReplace); }

  // From here in the stream on, the owned cells are combined with what ghosts of them held
  // elsewhere: first the cell itself, then the ghosts by their rank, then by the direction in which
  // they lie from here. So results are the same bit by bit whenever the grid is. Ghosts keep their
  // values. Requires Options::has_scatter. Else as enqueue_gather().
  void enqueue_scatter(const Fields& fields, Combine combine) {
    refuse(scatter_ ? "" : "a scatter of a halo without Options::has_scatter");
    begin(*scatter_, fields.scatter);
    end(*scatter_, fields.scatter, combine);
  }

  // Blocks the host until everything enqueued so far has run, and throws if a message failed. Not
  // collective.
  void synchronize() {
    // Outstanding receives of ready sends forbid waiting for the queue, which reports failures.
    if (queue_ == LANYARD_QUEUE_NULL || gather_->messages.is_ahead())
      stream_.synchronize();
    else
      check(Lanyard_Queue_wait(queue_));
  }
  // As synchronize(), and no receive is left outstanding: ready sends exchange once more for that.
  // Collective.
  void drain() {
    for (std::optional<Movement>* movement : {&gather_, &scatter_})
      if (*movement && !(*movement)->is_empty())
        (*movement)->messages.close();
    if (queue_ == LANYARD_QUEUE_NULL)
      stream_.synchronize();
    else
      check(Lanyard_Queue_wait(queue_));
  }

 private:
  // What moves one way: the boxes of each message where it is packed and where it is unpacked, and
  // the latter in pieces.
  struct Movement {
    Movement(Halo& halo, const std::vector<Box<Dim>>& from_boxes, const std::vector<Box<Dim>>& to_boxes,
             const std::vector<Piece<Dim>>& to_pieces, const std::vector<Peer>& peers, MPI_Comm comm)
        : from(from_boxes),
          to(to_boxes),
          pieces(to_pieces),
          messages(halo.options_.mode, comm, peers, kTags / 4, halo.stream_, halo.queue_) {}
    bool is_empty() const { return from.empty(); }
    const std::vector<Box<Dim>> from, to;
    const std::vector<Piece<Dim>> pieces;
    Messages messages;
  };
  static void refuse(const std::string& why) {
    if (!why.empty())
      throw std::invalid_argument("halo: " + why);
  }

  // A message has the arrays one after another, each row-major and aligned for any type.
  size_t section_bytes(size_t array, const Box<Dim>& box) const {
    return (static_cast<size_t>(box.cells()) * cell_bytes(types_[array]) + 7) / 8 * 8;
  }
  size_t message_bytes(const Box<Dim>& box) const {
    size_t bytes = 0;
    for (size_t a = 0; a < types_.size(); ++a)
      bytes += section_bytes(a, box);
    return bytes;
  }

  // One piece for each box.
  static std::vector<Piece<Dim>> whole(const std::vector<Box<Dim>>& boxes) {
    std::vector<Piece<Dim>> pieces;
    for (size_t i = 0; i < boxes.size(); ++i)
      pieces.push_back({boxes[i], {i}});
    return pieces;
  }

  // Where a box of an array lies. A box one column wide is seen as one row of that length.
  static Place place(const Box<Dim>& box, const Array<Dim>& array) {
    Place place{static_cast<std::byte*>(array.origin), {}};
    for (size_t d = 0; d < Dim; ++d) {
      place.first += box[d].first * array.step[d] * static_cast<long>(cell_bytes(array.type));
      place.step[3 - Dim + d] = array.step[d];
    }
    if (box[Dim - 1].count == 1)
      std::swap(place.step[1], place.step[2]);
    return place;
  }
  // Where a piece of a box of an array lies in the message that has the box.
  Place place_in_message(const Box<Dim>& piece, const Box<Dim>& box, std::byte* message, size_t array) const {
    for (size_t a = 0; a < array; ++a)
      message += section_bytes(a, box);
    Array<Dim> section{message, {}, types_[array]};
    Box<Dim> inside = piece;
    long step = 1;
    for (size_t d = Dim; d-- > 0; step *= box[d].count) {
      inside[d].first -= box[d].first;
      section.step[d] = step;
    }
    return place(inside, section);
  }

  void prepare(Movement& movement, const std::vector<Array<Dim>>& arrays, std::array<Lists, Messages::kSets>& lists) {
    Messages& messages = movement.messages;
    for (int set = 0; set < messages.sets(); ++set) {
      Lists& l = lists[static_cast<size_t>(set)];
      l.pack_memory = list(
          whole(movement.from), movement.from, arrays, [&](size_t i) { return messages.out(i); }, l.pack);
      BoxCopies unpack;
      l.unpack_memory = list(
          movement.pieces, movement.to, arrays, [&](size_t i) { return messages.in(set, i); }, unpack);
      unpack.is_pack = false;
      for (size_t c = 0; c < l.unpack.size(); ++c) {
        l.unpack[c] = unpack;
        l.unpack[c].combine = static_cast<Combine>(c);
      }
    }
  }

  // The copies between the arrays' pieces and the messages that have them; message i begins at
  // message(i) and has boxes[i]. Returns the memory in which the list is.
  template <class Message>
  AlignedBuffer list(const std::vector<Piece<Dim>>& pieces, const std::vector<Box<Dim>>& boxes,
                     const std::vector<Array<Dim>>& arrays, const Message& message, BoxCopies& copies) {
    std::vector<BoxCopy> list;
    std::vector<Place> parts;
    for (size_t a = 0; a < arrays.size(); ++a) {
      for (const Piece<Dim>& piece : pieces) {
        BoxCopy copy;
        copy.type = types_[a];
        copy.array = place(piece.box, arrays[a]);
        for (size_t d = 0; d < Dim; ++d)
          copy.counts[3 - Dim + d] = piece.box[d].count;
        if (copy.counts[2] == 1)
          std::swap(copy.counts[1], copy.counts[2]);
        copy.parts = static_cast<int>(piece.owners.size());
        for (size_t i : piece.owners)
          parts.push_back(place_in_message(piece.box, boxes[i], message(i), a));
        copies.cells += copy.cells();
        copy.end = copies.cells;
        list.push_back(copy);
      }
    }
    copies.count = static_cast<int>(list.size());
    const size_t bytes = list.size() * sizeof(BoxCopy);
    AlignedBuffer memory(bytes + parts.size() * sizeof(Place), stream_.gpu());
    const Place* next = reinterpret_cast<const Place*>(memory.data() + bytes);
    for (BoxCopy& copy : list)
      copy.messages = std::exchange(next, next + copy.parts);
    copies.boxes = reinterpret_cast<const BoxCopy*>(memory.data());
    memory.write([&](std::span<std::byte> contents) {
      std::copy_n(reinterpret_cast<const std::byte*>(list.data()), bytes, contents.begin());
      std::copy_n(reinterpret_cast<const std::byte*>(parts.data()), parts.size() * sizeof(Place),
                  contents.begin() + static_cast<long>(bytes));
    });
    return memory;
  }
  void begin(Movement& movement, const std::array<Lists, Messages::kSets>& lists) {
    if (movement.is_empty())
      return;
    movement.messages.start_receives();
    stream_.launch(lists[static_cast<size_t>(movement.messages.set())].pack);
    movement.messages.send();
  }
  void end(Movement& movement, const std::array<Lists, Messages::kSets>& lists, Combine combine) {
    if (movement.is_empty())
      return;
    const Lists& l = lists[static_cast<size_t>(movement.messages.set())];
    movement.messages.wait();
    stream_.launch(l.unpack[static_cast<size_t>(combine)]);
  }

  const Grid<Dim> grid_;
  const Options options_;
  const std::vector<CellType> types_;
  const Shape<Dim> shape_;
  Stream& stream_;
  const Lanyard_Queue queue_;
  std::optional<Movement> gather_, scatter_;
  std::vector<std::unique_ptr<Fields>> fields_;
};

}  // namespace lanyard::halo

#endif  // LANYARD_BENCH_HALO_HALO_H_
