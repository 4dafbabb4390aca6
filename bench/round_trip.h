// One ping-pong between ranks 0 and 1 at one message size, in any of nine ways.
//
// An iteration is a ping from rank 0 and a pong from rank 1. Each rank sends only when the message
// before has arrived (and been unpacked): the classic measurement of latency. With pack, kernels
// copy each message from the user's array to a send buffer, and from a receive buffer to the user's
// array (Bridges et al., section VI.A). Without, messages go from array to array.
//
// The first and the last timed iteration have slots (buffers and requests) of their own. Payloads
// differ in every iteration, so these are compared byte by byte after the clock has stopped. The
// iterations between share one slot (two in mode rsend and with Shape::two_buffers), which is
// compared too. Receive buffers are poisoned first.
//
// With a GPU's stream, arrays and buffers are in GPU memory, and kMpi copies messages to and from
// pinned host memory on the stream.
//
// With Shape::is_merged the ping and its pong are an exchange on the rank that pings. The other
// rank cannot have one: it waits for the ping alone before its pong.
//
// Memory a rank: 6 times the message size without pack (8 times with two slots
// between), twice that with pack.
#ifndef LANYARD_BENCH_ROUND_TRIP_H_
#define LANYARD_BENCH_ROUND_TRIP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bench/kernels.h"
#include "bench/nccl.h"
#include "bench/payload.h"
#include "bench/program.h"
#include "bench/queue.h"
#include "bench/stream.h"

namespace lanyard::bench {

enum class PingpongMode {
  kSendrecv,    // MPI_Send and MPI_Recv of the arrays, no stream: the baseline
  kPersistent,  // MPI_Start and MPI_Wait on persistent requests, no stream
  kNccl,        // as kSend, with the sends and receives of NCCL (nccl.h)
  kNcclGraph,   // kNccl, captured and replayed
  kMpi,         // the CPU drives: pack kernel, synchronise the stream, MPI_Send, MPI_Recv, unpack kernel
  kSend,        // stream-triggered persistent sends
  kRsend,       // stream-triggered persistent ready sends, receives started one iteration ahead
  kGraph,       // kSend, captured and replayed as graphs of kGraphTrips iterations; streams of GPUs only
  kKernel,      // one kernel a trial starts, waits and copies
};

class RoundTrip {
 public:
  struct Shape {
    PingpongMode mode = PingpongMode::kSendrecv;
    size_t bytes = 0;
    bool pack = false;
    uint64_t batch = 64;       // iterations enqueued at a time
    bool is_to_self = false;   // modes kSend, kGraph, kKernel: an iteration is one message from a rank to itself
    bool is_merged = false;    // mode kSend: who pings has each pair of send and receive as an exchange
    bool two_buffers = false;  // not in kGraph and kKernel: iterations take turns at two slots
  };
  static constexpr uint64_t kGraphTrips = 20;

  // Allocates, and in the stream modes matches: collective over both ranks. `stream`: null in
  // kSendrecv and kPersistent. `queue`: null there, in kMpi and in NCCL's modes. `nccl`: only in
  // NCCL's modes. All must outlive this object.
  RoundTrip(const Shape& shape, const MpiProcess& process, Stream* stream, StreamQueue* queue, Nccl* nccl = nullptr);
  ~RoundTrip();
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;

  // Why this mode cannot run here; empty when it can, which trial() requires. Of this rank.
  const std::string& refusal() const { return refusal_; }

  // The iterations that trial() takes for so many: whole graphs in mode kGraph.
  uint64_t rounded(uint64_t iterations) const;

  // Fills and poisons, runs that many iterations, compares. Collective. Returns the seconds this
  // rank took; rank 0's are the measurement. What is wrong, if anything, is in error() from then
  // on.
  double trial(uint64_t iterations);
  // The first mismatch this rank has seen; empty while there is none.
  const std::string& error() const { return error_; }

 private:
  // A ping and a pong of their own. The staging buffers exist with pack only, pinned ones in mode
  // kMpi with a GPU.
  struct Slot {
    AlignedBuffer source, destination, staging_out, staging_in, pinned_out, pinned_in;
    std::byte* out = nullptr;  // what is sent: source or staging_out
    std::byte* in = nullptr;   // what is received into: destination or staging_in
    CopyKernel pack, unpack;
    std::optional<RequestSet> requests;           // the receive, the send
    uint64_t iteration = 0;                       // whose payload it holds
    MPIX_Device_requests* receive_set = nullptr;  // mode kKernel
    MPIX_Device_requests* send_set = nullptr;
    MPI_Request& receive() { return (*requests)[0]; }
    MPI_Request& send() { return (*requests)[1]; }
    TripsKernel::Slot sets() const { return {receive_set, send_set, pack, unpack}; }
  };
  enum SlotIndex { kFirst, kEven, kOdd, kLast, kSlots };

  bool is_persistent() const { return shape_.mode == PingpongMode::kPersistent; }
  bool is_rsend() const { return shape_.mode == PingpongMode::kRsend; }
  bool has_graphs() const { return shape_.mode == PingpongMode::kGraph || shape_.mode == PingpongMode::kNcclGraph; }
  bool alternates() const { return is_rsend() || shape_.two_buffers; }
  // In kKernel to itself, one ring an iteration starts all: sends are ready, in a
  // set with the receives.
  bool rings_once() const { return shape_.is_to_self && shape_.mode == PingpongMode::kKernel; }
  // Who sends first.
  bool is_pinging() const { return shape_.is_to_self || process_.is_first(); }
  Gpu* gpu() const { return stream_ != nullptr ? stream_->gpu() : nullptr; }
  void make_slot(int index);
  // Modes kKernel and kGraph: both need the card to go on without calls of the host.
  void make_sets(Slot& slot);
  void free_sets(Slot& slot);
  void capture_graphs();
  SlotIndex slot_index(uint64_t i) const;
  Slot& slot(uint64_t i) { return *slots_[slot_index(i)]; }

  void prepare(uint64_t iterations);
  void compare();
  void run();

  // One side of a CPU-driven iteration each.
  void cpu_send(Slot& slot);
  void cpu_receive(Slot& slot);
  void run_cpu();
  // Stream modes.
  void pack(Slot& slot);
  void unpack(Slot& slot);
  void enqueue(uint64_t begin, uint64_t end);
  void drain(bool is_last = true);
  void enqueue_trips(uint64_t begin, uint64_t end);
  void enqueue_nccl_trips(uint64_t begin, uint64_t end);
  void wait_for_ping(uint64_t i, uint64_t begin);
  void run_batches();
  void run_graph();
  void run_kernel();

  const Shape shape_;
  const MpiProcess& process_;
  const int peer_;
  Stream* const stream_;
  StreamQueue* const queue_;
  Nccl* const nccl_;
  std::array<std::unique_ptr<Slot>, kSlots> slots_;
  // For the first iterations, those between, and the last: each iteration uses the same slot as in
  // mode kSend. Destroyed before the requests in them.
  std::array<Graph, 3> graphs_;
  TripsKernel trips_;
  std::string refusal_;
  uint64_t iterations_ = 0;      // of the trial that runs
  uint64_t next_iteration_ = 0;  // number of the next iteration over all trials: no payload comes twice
  std::string error_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_ROUND_TRIP_H_
