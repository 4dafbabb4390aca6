// The messages of one kind of halo exchange: buffers for all neighbours and the requests that move
// them. It knows nothing of cells; Halo packs and unpacks. One exchange is, in stream order:
//
//   kMpi         pack | on the host: post receives, synchronise the stream, send | wait | unpack
//                (GPU memory: all messages are copied to pinned host memory after the pack, and
//                from there before the unpack, in one piece each)
//   kSend        start receives | pack | start sends | wait | unpack
//   kReadySend   start the next exchange's receives | pack | start ready sends | wait | unpack
//   either, with sets 1 or 2, and kCollective
//                pack | start all | wait | unpack
//
// kMpi, kReadySend and sets 2 have two sets of receive buffers; exchange i uses set i mod 2.
// Lanyard's bench/README.md says why every ready send finds its receive started.
//
// After every exchange of kReadySend, sets 0, receives are outstanding. So the host may wait for
// the stream, but not for the queue, until close() has ended the sequence with one exchange more,
// whose data is ignored.
#ifndef LANYARD_BENCH_HALO_MESSAGES_H_
#define LANYARD_BENCH_HALO_MESSAGES_H_

#include <mpi.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <lanyard/lanyard.hpp>
#include "stream.h"

namespace lanyard::halo {

// How messages move.
struct Mode {
  enum Way {
    kMpi,         // by the host, with MPI
    kSend,        // on the stream, by regular sends
    kReadySend,   // on the stream, by ready sends
    kCollective,  // on the stream, by one neighbour collective
  };
  Way way = kSend;
  // How kSend and kReadySend start a step's requests (Lanyard_Request_set_info). 0: each by itself.
  // 1: as one exchange. 2: as one exchange with two sets, in turn. More sets take fewer
  // deferred-work entries a step. Any number of steps will do. 0 in the other ways.
  int sets = 0;
};

// Whom a message goes to and a message of the same length comes from.
struct Peer {
  int rank = 0;
  int out_tag = 0, in_tag = 0;
  size_t bytes = 0;
};

// Throws lanyard::Error where MPI returns an error.
inline void check(int code) { OnError().take(code); }

class Messages {
 public:
  static constexpr int kSets = 2;  // at most

  // Allocates, matches, primes. Collective over comm, but for a rank without peers. Message i goes
  // to peers[i]; tags of set s are higher by s * tags_of_set. Sends that go to one rank have their
  // receives there listed in the reverse order, as the opposites of directions are. The stream, and
  // the queue on it, outlive this object; kMpi needs no queue.
  Messages(Mode mode, MPI_Comm comm, std::vector<Peer> peers, int tags_of_set, Stream& stream, Lanyard_Queue queue)
      : mode_(mode), comm_(comm), peers_(std::move(peers)), stream_(stream), queue_(queue) {
    if (peers_.empty())
      return;
    for (const Peer& peer : peers_) {
      constexpr size_t kLine = 64;  // no two messages share a cache line
      offsets_.push_back(bytes_);
      bytes_ += (peer.bytes + kLine - 1) / kLine * kLine;
    }
    out_ = Side(bytes_, stream, !has_queue());
    for (int s = 0; s < sets(); ++s) {
      in_[index(s)] = Side(bytes_, stream, !has_queue());
      if (mode_.way == Mode::kCollective)
        make_collective();
      else if (has_queue())
        make_requests(s, s * tags_of_set);
    }
    match_all(requests_);
    for (const Request& request : requests_)
      handles_.push_back(request.handle());
    host_requests_.assign(2 * peers_.size(), MPI_REQUEST_NULL);
    prime();
  }
  // Requires close() since the last exchange, and that everything has run.
  ~Messages() {
    requests_.clear();
    if (graph_ != MPI_COMM_NULL)
      MPI_Comm_free(&graph_);
  }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // The set of the exchange to come: 0 and 1 in turn, always 0 where there is one.
  int set() const { return set_; }
  int sets() const { return has_two_sets() ? kSets : 1; }
  std::byte* out(size_t i) { return out_.buffer.data() + offsets_[i]; }
  std::byte* in(int set, size_t i) { return in_[index(set)].buffer.data() + offsets_[i]; }

  // An exchange: start_receives(), the pack kernel, send(), wait(), the unpack kernel. kMpi blocks
  // the host until the pack kernel has run, in send(), and until the messages are there, in wait();
  // the others block the stream only, in wait(). After a close() the first start_receives() is
  // collective.
  void start_receives() {
    if (!is_primed_)
      prime();
    if (mode_.way == Mode::kSend && mode_.sets == 0)
      start(0, peers_.size());
    if (is_ahead())
      start(first(1 - set_), peers_.size());
  }
  void send() {
    if (!has_queue())
      send_on_host();
    else if (is_one_start())
      start(first(set_), requests_of_set());
    else
      start(first(set_) + peers_.size(), peers_.size());
  }
  void wait() {
    Side& in = in_[index(set_)];
    if (has_queue()) {
      check(Lanyard_Enqueue_waitall(queue_, static_cast<int>(requests_of_set()), handles_.data() + first(set_)));
    } else {
      check(MPI_Waitall(static_cast<int>(host_requests_.size()), host_requests_.data(), MPI_STATUSES_IGNORE));
      if (stream_.gpu() != nullptr)
        stream_.gpu()->transfer(in.buffer.data(), in.staging.data(), bytes_);
    }
    if (has_two_sets())
      set_ = 1 - set_;
  }

  // Enqueues what leaves no receive outstanding. Every rank calls it after equally many exchanges.
  void close() {
    if (!is_ahead() || !is_primed_)
      return;
    // An exchange without receives ahead. Its receives are started on every rank, so it is as legal
    // as any other.
    send();
    wait();
    is_primed_ = false;
  }
  // Whether receives are outstanding between exchanges.
  bool is_ahead() const { return mode_.way == Mode::kReadySend && mode_.sets == 0; }

 private:
  // All messages of one way, one after another.
  struct Side {
    Side() = default;
    Side(size_t bytes, Stream& stream, bool is_on_host) : buffer(bytes, stream.gpu()) {
      if (is_on_host && stream.gpu() != nullptr)
        staging = AlignedBuffer::pinned(bytes, *stream.gpu());
    }
    std::byte* seen_by_mpi() { return staging.data() != nullptr ? staging.data() : buffer.data(); }
    AlignedBuffer buffer, staging;
  };

  static size_t index(int i) { return static_cast<size_t>(i); }
  static int count(size_t bytes) { return static_cast<int>(bytes); }
  bool has_queue() const { return mode_.way != Mode::kMpi; }
  bool has_two_sets() const { return mode_.way == Mode::kMpi || mode_.way == Mode::kReadySend || mode_.sets == 2; }
  // The requests of a step are started by one call.
  bool is_one_start() const { return mode_.sets > 0 || mode_.way == Mode::kCollective; }
  // Of a set the receives come first, then the sends; or there is the collective.
  size_t requests_of_set() const { return mode_.way == Mode::kCollective ? 1 : 2 * peers_.size(); }
  size_t first(int set) const { return index(set) * requests_of_set(); }

  void start(size_t from, size_t many) {
    check(Lanyard_Enqueue_startall(queue_, static_cast<int>(many), handles_.data() + from));
  }

  void make_requests(int set, int tags) {
    for (size_t i = 0; i < peers_.size(); ++i)
      requests_.push_back(
          Request::receive({in(set, i), peers_[i].bytes}, peers_[i].rank, tags + peers_[i].in_tag, comm_));
    const auto make_send = mode_.way == Mode::kReadySend ? Request::ready_send : Request::send;
    for (size_t i = 0; i < peers_.size(); ++i)
      requests_.push_back(make_send({out(i), peers_[i].bytes}, peers_[i].rank, tags + peers_[i].out_tag, comm_, {}));
    for (size_t i = first(set); i < requests_.size(); ++i) {
      if (mode_.sets == 1)
        requests_[i].set_exchange("halo " + std::to_string(set));
      if (mode_.sets == 2)
        requests_[i].set_exchange("halo", set);
    }
  }

  // A collective has no tags: the first of several edges between two ranks is the first on both
  // sides.
  void make_collective() {
    std::vector<int> from, to, in_bytes, out_bytes;
    std::vector<MPI_Aint> in_places, out_places;
    const std::vector<MPI_Datatype> types(peers_.size(), MPI_BYTE);
    for (size_t i = 0, j = peers_.size(); i < peers_.size(); ++i) {
      to.push_back(peers_[i].rank);
      out_bytes.push_back(count(peers_[i].bytes));
      out_places.push_back(static_cast<MPI_Aint>(offsets_[i]));
      --j;
      from.push_back(peers_[j].rank);
      in_bytes.push_back(count(peers_[j].bytes));
      in_places.push_back(static_cast<MPI_Aint>(offsets_[j]));
    }
    const int many = static_cast<int>(peers_.size());
    check(MPI_Dist_graph_create_adjacent(comm_, many, from.data(), MPI_UNWEIGHTED, many, to.data(), MPI_UNWEIGHTED,
                                         MPI_INFO_NULL, 0, &graph_));
    MPI_Request request = MPI_REQUEST_NULL;
    check(Lanyard_Neighbor_alltoallw_init(out_.buffer.data(), out_bytes.data(), out_places.data(), types.data(),
                                          in_[0].buffer.data(), in_bytes.data(), in_places.data(), types.data(), graph_,
                                          MPI_INFO_NULL, &request));
    requests_.emplace_back(request);
  }

  void prime() {
    if (is_ahead()) {
      start(first(set_), peers_.size());
      stream_.synchronize();  // not the queue: it would wait for the receives to complete
      check(MPI_Barrier(comm_));
    }
    is_primed_ = true;
  }

  void send_on_host() {
    Side& in = in_[index(set_)];
    if (stream_.gpu() != nullptr)
      stream_.gpu()->transfer(out_.staging.data(), out_.buffer.data(), bytes_);
    const size_t many = peers_.size();
    for (size_t i = 0; i < many; ++i)  // while the pack kernel runs
      check(MPI_Irecv(in.seen_by_mpi() + offsets_[i], count(peers_[i].bytes), MPI_BYTE, peers_[i].rank,
                      peers_[i].in_tag, comm_, &host_requests_[i]));
    stream_.synchronize();
    for (size_t i = 0; i < many; ++i)
      check(MPI_Isend(out_.seen_by_mpi() + offsets_[i], count(peers_[i].bytes), MPI_BYTE, peers_[i].rank,
                      peers_[i].out_tag, comm_, &host_requests_[many + i]));
  }

  const Mode mode_;
  const MPI_Comm comm_;
  const std::vector<Peer> peers_;
  Stream& stream_;
  const Lanyard_Queue queue_;
  std::vector<size_t> offsets_;  // of a message among those of its way
  size_t bytes_ = 0;
  Side out_;
  std::array<Side, kSets> in_;
  MPI_Comm graph_ = MPI_COMM_NULL;  // kCollective: of the neighbours
  std::vector<Request> requests_;
  std::vector<MPI_Request> handles_;
  std::vector<MPI_Request> host_requests_;  // kMpi
  int set_ = 0;
  bool is_primed_ = false;
};

}  // namespace lanyard::halo

#endif  // LANYARD_BENCH_HALO_MESSAGES_H_
