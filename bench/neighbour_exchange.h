// The messages of one kind of halo exchange: buffers for the neighbours, of which there are eight at most, and the
// requests that move them.
//
// It knows nothing of cells; StreamHalo packs and unpacks. One exchange is, in stream order:
//
//   kMpi    on the host: post receives | pack | on the host: synchronise the stream, send, wait for all | unpack
//           (on a GPU the messages are in pinned host memory, where its kernels write and read them)
//   kPersistent
//           the same by persistent requests, which are not matched
//   kMpiGpu as kMpi, the messages in the GPU's memory, which the MPI takes
//   kSend   start receives | pack | start sends, wait for all | unpack
//   kRsend  start the next exchange's receives | pack | start ready sends, wait for all of this
//           exchange | unpack
//   kMergedSend, kMergedRsend
//           pack | start all, wait for all | unpack, each set of requests being an exchange in
//           Lanyard's sense (MPIX_Request_set_info)
//   kPairedSend, kPairedRsend
//           the same, the two sets of requests being those of one exchange
//   kNccl   pack | one group of NCCL's sends and receives | unpack
//   kCollective
//           pack | start, wait | unpack, the request being a neighbour collective on a graph of the directions
//   kKernel whatever a kernel does with messages(); nothing is enqueued here
//
// All but kSend, kMergedSend, kNccl and kCollective have two sets of receive buffers; exchange i uses set i mod 2.
// Where the host sends that lets receives be posted early: what unpacks set i mod 2 ran before the synchronisation of
// exchange i - 1.
//
// Why a ready send of kRsend always finds its receive started, without a further message. Let A
// send to B in exchange i.
//   1. Whoever sends to a rank also receives from it (each direction has its opposite). So B
//      sends to A in every exchange, and both count the same exchanges.
//   2. B's stream starts its receives i in exchange i - 1, before it triggers its sends i - 1.
//   3. A's stream triggers its sends i only after its wait for the receives i - 1; so after B's
//      message i - 1 has arrived; so after B has triggered it; so, by 2, after B has started its
//      receives i.
//   4. For i = 0, prime() starts receives 0 and lets the stream pass them before an MPI_Barrier;
//      no exchange is enqueued before that barrier.
// And the set of exchange i + 1 is free when its receives are started in exchange i: it was waited
// for and unpacked in exchange i - 1, earlier in the same stream. One set would not do: its buffers
// hold the data of exchange i until they are unpacked, which comes after the sends of i. Sends need
// no second buffers, as exchange i waits for them.
//
// Why a ready send of kMergedRsend keeps what it promises there, that B's wait for the last use of
// the set is over and its buffers may be written: A starts its sends i after its wait i - 1, so after
// B's message i - 1 has arrived, so after B has started i - 1, so after B has waited for i - 2, the
// last use of the set, and unpacked it. (For i = 0 and 1 the set has not been used yet.) In kPairedSend Lanyard finds
// that by itself.
//
// After every exchange of kRsend receives are outstanding. So the host may wait for the stream, but
// not for the queue, until close() has ended the sequence with one exchange more, whose data is
// ignored.
//
// Messages are told apart by tag, since several neighbours may be one rank: a message that its
// sender sends in direction d of n in set s has tag first_tag + n s + d. An exchange uses kTags tags at most.
// A collective has no tags: of several edges between two ranks the first of the one is the first of the other, so both
// list them by the sender's direction.
#ifndef LANYARD_BENCH_NEIGHBOUR_EXCHANGE_H_
#define LANYARD_BENCH_NEIGHBOUR_EXCHANGE_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "bench/aligned_buffer.h"
#include "bench/cartesian_layout.h"
#include "bench/graph_communicator.h"
#include "bench/nccl.h"
#include "bench/request_set.h"
#include "bench/stream.h"
#include "bench/stream_queue.h"

namespace lanyard::bench {

enum class HaloMode {
  kMpi,
  kPersistent,
  kMpiGpu,
  kNccl,
  kSend,
  kRsend,
  kMergedSend,
  kMergedRsend,
  kPairedSend,
  kPairedRsend,
  kCollective,
  kKernel
};

// Whether the host sends, by plain MPI.
constexpr bool is_cpu_driven(HaloMode mode) {
  return mode == HaloMode::kMpi || mode == HaloMode::kPersistent || mode == HaloMode::kMpiGpu;
}
// Whether its messages are Lanyard's.
constexpr bool has_queue(HaloMode mode) { return !is_cpu_driven(mode) && mode != HaloMode::kNccl; }

// The same with each step's requests merged, where there are such.
inline HaloMode merged(HaloMode mode) {
  switch (mode) {
    case HaloMode::kSend: return HaloMode::kMergedSend;
    case HaloMode::kRsend: return HaloMode::kMergedRsend;
    default: return mode;
  }
}
// ... and each two steps' requests the sets of one exchange.
inline HaloMode paired(HaloMode mode) {
  switch (mode) {
    case HaloMode::kSend: return HaloMode::kPairedSend;
    case HaloMode::kRsend: return HaloMode::kPairedRsend;
    default: return mode;
  }
}

// ... and each step's requests one collective's, where they are regular.
inline HaloMode collective(HaloMode mode) { return mode == HaloMode::kSend ? HaloMode::kCollective : mode; }

// The ranks in all directions. The opposite of a direction is what it would be if the order were turned round.
struct Neighbours {
  int count = 0;  // of directions
  // MPI_PROC_NULL: there is no message. Where a rank is its own neighbour, what it packs in the opposite direction is
  // then what it unpacks.
  std::array<int, kDirections> ranks{};

  int opposite(int direction) const { return count - 1 - direction; }
  int rank(int direction) const { return ranks[static_cast<size_t>(direction)]; }
  bool has_message(int direction) const { return rank(direction) != MPI_PROC_NULL; }
};

class NeighbourExchange {
 public:
  static constexpr int kTags = 2 * kDirections;
  using Lengths = std::array<size_t, kDirections>;

  // Allocates, matches, primes. Collective over comm. bytes_out[d]
  // go to the neighbour in direction d, bytes_in[d] come from it. The stream, the queue where the mode has one, and
  // `nccl` in kNccl (then of comm's ranks, and of this stream) outlive this object.
  NeighbourExchange(HaloMode mode, MPI_Comm comm, const Neighbours& neighbours, const Lengths& bytes_out,
                    const Lengths& bytes_in, int first_tag, Stream& stream, StreamQueue* queue, Nccl* nccl = nullptr);
  // Requires close() since the last exchange, and that everything has run.
  ~NeighbourExchange();
  NeighbourExchange(const NeighbourExchange&) = delete;
  NeighbourExchange& operator=(const NeighbourExchange&) = delete;

  // The set of the exchange to come: 0 and 1 in turn, but in modes kSend, kMergedSend, kNccl and kCollective always 0.
  int set() const { return set_; }
  std::byte* out(int direction) { return out_.message(direction); }
  std::byte* in(int set, int direction) {
    return neighbours_.has_message(direction) ? sets_[index(set)].in.message(direction)
                                              : out_.message(neighbours_.opposite(direction));
  }

  // An exchange: start_receives(), then the pack kernel, send_and_wait(), then the unpack kernel.
  // kMpi and kMpiGpu block the host in send_and_wait(); the others block the stream only. After a close() the
  // first start_receives() is collective.
  void start_receives();
  void send_and_wait();

  // Why a graph cannot capture exchanges; empty where it can. Modes kNccl and kSend.
  std::string why_not_captured();

  // Mode kKernel: why no kernel can make exchanges, empty where one can; and what it makes them of.
  std::string why_not_by_kernel();
  KernelMessages messages();

  // Overwrites all messages with bytes 0xFF, of which floating-point numbers are none, so that an exchange which moves
  // nothing shows. Collective: ends receives ahead first, as close(), and starts them again. Requires that everything
  // enqueued has run, and that no rank enqueues more before all have returned.
  void poison();

  // Enqueues what leaves no receive outstanding. Every rank calls it after equally many exchanges.
  void close();

 private:
  // The messages of one way, one after another in memory that the stream reaches.
  class Messages {
   public:
    Messages() = default;
    // is_pinned: of the host, for the GPU.
    Messages(const Lengths& bytes, Gpu* gpu, bool is_pinned);
    std::byte* message(int direction) { return buffer_.data() + offsets_[index(direction)]; }
    size_t bytes(int direction) const { return bytes_[index(direction)]; }
    void poison();

   private:
    Lengths bytes_{}, offsets_{};
    AlignedBuffer buffer_;
  };
  struct Set {
    Messages in;
    // Of its requests, the receives by direction, then the sends by direction; or the collective's.
    int first = 0;
    MPIX_Device_requests* for_receives = nullptr;  // mode kKernel
    MPIX_Device_requests* for_sends = nullptr;
  };

  static size_t index(int i) { return static_cast<size_t>(i); }
  MPI_Request* receives(const Set& set) { return requests_.data() + set.first; }
  MPI_Request* sends(const Set& set) { return receives(set) + messages_; }
  bool has_requests() const { return has_queue(mode_) || mode_ == HaloMode::kPersistent; }
  void make_requests(int set, int first_tag);
  void make_collective();
  void prime();
  void receive_on_host(Set& set);
  void exchange(Set& set);
  void exchange_on_host();
  void exchange_by_persistent(Set& set);
  void exchange_by_nccl(Set& set);
  bool is_paired() const { return mode_ == HaloMode::kPairedSend || mode_ == HaloMode::kPairedRsend; }
  bool is_merged() const { return mode_ == HaloMode::kMergedSend || mode_ == HaloMode::kMergedRsend || is_paired(); }
  bool is_collective() const { return mode_ == HaloMode::kCollective; }
  bool has_two_sets() const {
    return mode_ != HaloMode::kSend && mode_ != HaloMode::kMergedSend && mode_ != HaloMode::kNccl && !is_collective();
  }
  int requests_of_set() const { return is_collective() ? 1 : 2 * messages_; }

  const HaloMode mode_;
  const MPI_Comm comm_;
  const Neighbours neighbours_;
  const int messages_;  // each way
  const int first_tag_;
  Stream& stream_;
  StreamQueue* const queue_;
  Nccl* const nccl_;
  Messages out_;
  std::array<Set, 2> sets_;
  std::optional<GraphCommunicator> graph_;  // kCollective
  RequestSet requests_;
  std::array<MPI_Request, 2 * kDirections> host_requests_{};  // kMpi, kMpiGpu: receives, sends
  int set_ = 0;
  bool is_primed_ = false;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_NEIGHBOUR_EXCHANGE_H_
