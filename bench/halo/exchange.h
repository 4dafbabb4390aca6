// The messages of one kind of halo exchange: buffers for the eight neighbours and the requests that move them. It knows
// nothing of cells; StreamHalo packs and unpacks. One exchange is, in stream order:
//
//   kMpi    pack | on the host: post receives, synchronise the stream, send, wait for all | unpack
//           (GPU memory: all messages are copied to pinned host memory after the pack, and from there before the
//           unpack, in one piece each)
//   kSend   start receives | pack | start sends, wait for all | unpack
//   kRsend  start the next exchange's receives | pack | start ready sends, wait for all of this exchange | unpack
//   either, with sets 1 or 2
//           pack | start all, wait for all | unpack
//   kCollective
//           pack | start, wait | unpack; the request is a neighbour collective on a graph of the eight directions
//
// kMpi, kRsend and sets 2 have two sets of receive buffers; exchange i uses set i mod 2. README.md says why every ready
// send finds its receive started.
//
// After every exchange of kRsend, sets 0, receives are outstanding. So the host may wait for the stream, but not for
// the queue, until close() has ended the sequence with one exchange more, whose data is ignored.
//
// A message that its sender sends in direction d in set s has tag first_tag + 8 s + d, as several neighbours may be one
// rank. An exchange uses kTags tags. A collective has no tags: the first of several edges between two ranks is the
// first on both sides, so both list them by the sender's direction.
#ifndef LANYARD_BENCH_HALO_EXCHANGE_H_
#define LANYARD_BENCH_HALO_EXCHANGE_H_

#include <array>
#include <cstddef>

#include "bench/halo/block.h"
#include "bench/queue.h"
#include "bench/stream.h"

namespace lanyard::bench {

// How the messages of a halo move.
struct HaloMode {
  enum Way { kMpi, kSend, kRsend, kCollective };
  Way way = kMpi;
  // kSend, kRsend: 1, the requests of a step are an exchange in Lanyard's sense (MPIX_Request_set_info); 2, the
  // requests of two steps are the sets of one exchange. 0: neither.
  int sets = 0;
};

class NeighbourExchange {
 public:
  static constexpr int kTags = 2 * kDirections;
  using Lengths = std::array<size_t, kDirections>;

  // Allocates, matches, primes. Collective over comm, whose ranks the layout numbers. bytes_out[d]
  // go to the neighbour in direction d, bytes_in[d] come from it. The stream, and but for kMpi the
  // queue, outlive this object.
  NeighbourExchange(HaloMode mode, MPI_Comm comm, const CartesianLayout& layout, const Lengths& bytes_out,
                    const Lengths& bytes_in, int first_tag, Stream& stream, StreamQueue* queue);
  // Requires close() since the last exchange, and that everything has run.
  ~NeighbourExchange();
  NeighbourExchange(const NeighbourExchange&) = delete;
  NeighbourExchange& operator=(const NeighbourExchange&) = delete;

  // The set of the exchange to come: 0 and 1 in turn, always 0 where there is one.
  int set() const { return set_; }
  std::byte* out(int direction) { return out_.message(direction); }
  std::byte* in(int set, int direction) { return sets_[index(set)].in.message(direction); }

  // An exchange: start_receives(), then the pack kernel, send_and_wait(), then the unpack kernel.
  // kMpi blocks the host in send_and_wait(); the others block the stream only. After a close() the
  // first start_receives() is collective.
  void start_receives();
  void send_and_wait();

  // Enqueues what leaves no receive outstanding. Every rank calls it after equally many exchanges.
  void close();

 private:
  // The eight messages of one way, one after another in the stream's memory.
  class Messages {
   public:
    Messages() = default;
    // is_staged: with a copy in pinned memory.
    Messages(const Lengths& bytes, Gpu* gpu, bool is_staged);
    std::byte* message(int direction) { return buffer_.data() + offsets_[index(direction)]; }
    // The place that MPI sees in mode kMpi.
    std::byte* staged(int direction) {
      return (staging_.data() != nullptr ? staging_ : buffer_).data() + offsets_[index(direction)];
    }
    size_t bytes(int direction) const { return bytes_[index(direction)]; }
    // Enqueue the copies between the two.
    void stage(Gpu& gpu) { gpu.transfer(staging_.data(), buffer_.data(), total_); }
    void unstage(Gpu& gpu) { gpu.transfer(buffer_.data(), staging_.data(), total_); }

   private:
    Lengths bytes_{}, offsets_{};
    size_t total_ = 0;
    AlignedBuffer buffer_, staging_;
  };
  struct Set {
    Messages in;
    // Stream modes: of its requests, the receives by direction, then the sends by direction; or the collective's.
    int first = 0;
  };
  static constexpr int kMessages = 2 * kDirections;  // of a set

  static size_t index(int i) { return static_cast<size_t>(i); }
  MPI_Request* receives(const Set& set) { return requests_.data() + set.first; }
  MPI_Request* sends(const Set& set) { return receives(set) + kDirections; }
  void make_requests(int set, int first_tag);
  void make_collective();
  void prime();
  void exchange_on_host(Set& set);
  bool has_queue() const { return mode_.way != HaloMode::kMpi; }
  bool is_collective() const { return mode_.way == HaloMode::kCollective; }
  bool has_two_sets() const { return mode_.way == HaloMode::kMpi || mode_.way == HaloMode::kRsend || mode_.sets == 2; }
  // The requests of a step are started by one call.
  bool is_one_start() const { return mode_.sets > 0 || is_collective(); }
  // Receives are started one exchange ahead.
  bool is_ahead() const { return mode_.way == HaloMode::kRsend && mode_.sets == 0; }
  int requests_of_set() const { return is_collective() ? 1 : kMessages; }

  const HaloMode mode_;
  const MPI_Comm comm_;
  const CartesianLayout layout_;
  const int first_tag_;
  Stream& stream_;
  StreamQueue* const queue_;
  Messages out_;
  std::array<Set, 2> sets_;
  MPI_Comm graph_ = MPI_COMM_NULL;  // kCollective: of the neighbours
  RequestSet requests_;
  std::array<MPI_Request, kMessages> host_requests_{};  // kMpi
  int set_ = 0;
  bool is_primed_ = false;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_HALO_EXCHANGE_H_
