// One ping-pong between ranks 0 and 1 at one message size, in any of eleven ways.
//
// An iteration is a ping from rank 0 and a pong from rank 1. Rank 1 sends its pong only when the
// ping has arrived (and been unpacked), rank 0 its next ping only when the pong has: the classic
// measurement of latency. With pack, each message is copied by a kernel from the user's array into
// the sent buffer, and by another from the received buffer into the user's array, as in Bridges et
// al., section VI.A; without, messages go from array to array.
//
// What proves the data: the first and the last timed iteration have slots (buffers and requests) of
// their own, so their payloads, different for every iteration, still lie there after the last
// iteration and are compared byte by byte, and nothing of it happens while the clock runs. The
// iterations between share one slot (two in mode rsend, whose receives must be ready ahead, and where
// Shape::two_buffers asks for it), whose contents are compared too. Receive buffers are poisoned first.
//
// Where the stream is a GPU's the arrays and buffers are the GPU's memory. But messages of kMpi are sent from and
// received into pinned memory of the host: kernels pack and unpack there, or without pack the stream copies. kMpiGpu
// hands the GPU's memory to the MPI.
//
// Receives of kMpi and kMpiGpu are posted ahead, before the rank sends what the message answers.
//
// Modes nccl and nccl-graph are send and graph with the sends and receives of NCCL (nccl.h), in memory of GPUs.
//
// Mode graph replays captured graphs of kGraphTrips iterations (one with silence between them): one for the first
// iterations, one for the last, one for all between them, so that each iteration has the slot that it has in mode send.
// Mode kernel is one kernel a trial. Mode fused replays graphs as mode graph does, of two kernels half a round trip:
// one that packs, into the receiver's buffer where it may, and starts, and one that waits and unpacks.
//
// With Shape::is_to_self an iteration is one message that a rank sends to itself, both ranks at
// once: what it takes to ring the card and to see that it has fired.
//
// With Shape::is_merged the ping and its pong are an exchange of the rank that pings, which starts them together and
// waits for them together. The other cannot have one: its pong answers a ping that it has waited for by itself, or it
// would start the pair before the ping has come.
//
// Memory a rank: 6 times the message size without pack (8 times with two slots between), twice that with pack.
#ifndef LANYARD_BENCH_ROUND_TRIP_H_
#define LANYARD_BENCH_ROUND_TRIP_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/aligned_buffer.h"
#include "bench/computation.h"
#include "bench/kernels.h"
#include "bench/mpi_process.h"
#include "bench/nccl.h"
#include "bench/payload.h"
#include "bench/request_set.h"
#include "bench/stream.h"
#include "bench/stream_queue.h"

namespace lanyard::bench {

enum class PingpongMode {
  kSendrecv,    // MPI_Send and MPI_Recv of the arrays, no stream: the baseline
  kPersistent,  // MPI_Start and MPI_Wait on persistent requests, no stream
  kNccl,        // pack kernel, NCCL's send and receive, unpack kernel, all enqueued
  kNcclGraph,   // kNccl, captured and replayed
  kMpi,         // the CPU drives: post the receive, pack kernel, synchronise the stream, MPI_Send, wait, unpack kernel
  kMpiGpu,      // kMpi with messages in GPU memory, which the MPI takes
  kSend,        // stream-triggered persistent sends
  kRsend,       // stream-triggered persistent ready sends, receives started one iteration ahead
  kGraph,       // kSend, captured and replayed; streams of GPUs only
  kKernel,      // one kernel starts, waits and copies
  kFused,       // two kernels half a round trip start, wait and copy, captured and replayed
};

class RoundTrip {
 public:
  struct Shape {
    PingpongMode mode = PingpongMode::kSendrecv;
    size_t bytes = 0;
    bool pack = false;
    uint64_t batch = 64;      // iterations enqueued at a time
    bool is_to_self = false;  // modes kSend, kGraph, kKernel, kFused
    bool is_merged = false;   // mode kSend: who pings has each pair of send and receive as an exchange
    // Every round trip is timed by itself, after a pause that the rank which pings makes. Not in kKernel.
    std::chrono::duration<double> silence{};
    bool two_buffers = false;  // not in kGraph, kKernel and kFused: iterations take turns at two slots
  };
  static constexpr uint64_t kGraphTrips = 20;

  // Allocates, and in the stream modes matches: collective over both ranks. stream: null in
  // kSendrecv and kPersistent; queue: null there, in kMpi, in kMpiGpu, and in NCCL's modes, which alone have `nccl`.
  // All outlive this object.
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
  // on. With a computation beside it, which begins with it, the time until both are over.
  double trial(uint64_t iterations, Computation* beside = nullptr);
  // Of the last trial, on the rank that pings: half a round trip in us, the mean of each batch of those that the host
  // enqueues or makes at a time (mode kKernel: all).
  const std::vector<double>& batches_us() const { return batches_us_; }
  // The first mismatch this rank has seen; empty while there is none.
  const std::string& error() const { return error_; }

 private:
  // A ping and a pong of their own. The staging buffers exist with pack, and in mode kMpi with a GPU, where they are
  // pinned.
  struct Slot {
    AlignedBuffer source, destination, staging_out, staging_in;
    std::byte* out = nullptr;  // what is sent: source or staging_out
    std::byte* in = nullptr;   // what is received into: destination or staging_in
    CopyKernel pack, unpack;
    std::optional<RequestSet> requests;           // the receive, the send
    uint64_t iteration = 0;                       // whose payload it holds
    MPIX_Device_requests* receive_set = nullptr;  // modes kKernel and kFused
    MPIX_Device_requests* send_set = nullptr;
    MPI_Request& receive() { return (*requests)[0]; }
    MPI_Request& send() { return (*requests)[1]; }
    TripsKernel::Slot sets() const { return {receive_set, send_set, pack, unpack}; }
  };
  enum SlotIndex { kFirst, kEven, kOdd, kLast, kSlots };

  bool is_rsend() const { return shape_.mode == PingpongMode::kRsend; }
  bool has_graphs() const {
    return shape_.mode == PingpongMode::kGraph || shape_.mode == PingpongMode::kNcclGraph ||
           shape_.mode == PingpongMode::kFused;
  }
  bool alternates() const { return is_rsend() || shape_.two_buffers; }
  // A kernel that sends itself messages sets something going by one ring an iteration: ready sends, in a set with the
  // receives.
  bool rings_once() const { return shape_.is_to_self && shape_.mode == PingpongMode::kKernel; }
  // Who sends first.
  bool is_pinging() const { return shape_.is_to_self || process_.is_first(); }
  bool is_cpu_driven() const { return shape_.mode == PingpongMode::kMpi || shape_.mode == PingpongMode::kMpiGpu; }
  bool is_pinned() const { return shape_.mode == PingpongMode::kMpi && gpu() != nullptr; }
  Gpu* gpu() const { return stream_ != nullptr ? stream_->gpu() : nullptr; }
  void make_slot(int index);
  // Modes kKernel, kFused and kGraph: all need the card to go on without calls of the host.
  void make_sets(Slot& slot);
  void free_sets(Slot& slot);
  void capture_graphs();
  SlotIndex slot_index(uint64_t i) const;
  Slot& slot(uint64_t i) { return *slots_[slot_index(i)]; }

  void prepare(uint64_t iterations);
  void compare();
  // The iterations that the host enqueues before it waits.
  uint64_t batch() const;
  // Those of one batch. Each blocks until the rank's messages have moved.
  void run(uint64_t begin, uint64_t end);

  void run_sendrecv(uint64_t begin, uint64_t end);
  void cpu_post(uint64_t i);
  void cpu_send(Slot& slot);
  void run_cpu(uint64_t begin, uint64_t end);
  void run_persistent(uint64_t begin, uint64_t end);
  // Stream modes.
  void pack(Slot& slot);
  void unpack(Slot& slot);
  void enqueue(uint64_t begin, uint64_t end);
  void drain();
  void enqueue_trips(uint64_t begin, uint64_t end);
  void enqueue_fused_trips(uint64_t begin, uint64_t end);
  void enqueue_nccl_trips(uint64_t begin, uint64_t end);
  void wait_for_ping(uint64_t i, uint64_t begin);
  void run_graph(uint64_t begin, uint64_t end);
  void run_kernel();
  void run_rsend(uint64_t begin, uint64_t end);

  const Shape shape_;
  const MpiProcess& process_;
  const int peer_;
  const uint64_t graph_trips_;
  Stream* const stream_;
  StreamQueue* const queue_;
  Nccl* const nccl_;
  std::array<std::unique_ptr<Slot>, kSlots> slots_;
  // Destroyed before the requests in them: of the first iterations, of those between, of the last.
  std::array<std::unique_ptr<Graph>, 3> graphs_;
  TripsKernel trips_;
  std::string refusal_;
  uint64_t iterations_ = 0;               // of the trial that runs
  uint64_t next_iteration_ = 0;           // number of the next iteration over all trials: no payload comes twice
  MPI_Request ahead_ = MPI_REQUEST_NULL;  // kMpi, kMpiGpu: the receive that is posted
  std::vector<double> batches_us_;
  std::string error_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_ROUND_TRIP_H_
