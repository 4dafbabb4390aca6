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
// With a GPU's stream, arrays and buffers are in GPU memory, and mode mpi copies messages to and
// from pinned host memory on the stream.
//
// With Shape::is_merged the ping and its pong are an exchange on the rank that pings. The other
// rank cannot have one: it waits for the ping alone before its pong.
//
// Memory a rank: 6 times the message size without pack (8 times with two slots
// between), twice that with pack.
#ifndef LANYARD_BENCH_ROUND_TRIP_H_
#define LANYARD_BENCH_ROUND_TRIP_H_

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "bench/nccl.h"
#include "bench/payload.h"
#include "bench/program.h"
#include "bench/stream.h"
#include "bench/streams.h"

namespace lanyard::bench {

struct PingpongMode {
  const char* name;
  enum class Means { kMpi, kNccl, kQueue } means;
  enum class Way {
    kHost,        // without a stream: MPI_Send and MPI_Recv of the arrays
    kPersistent,  // without a stream: MPI_Start and MPI_Wait
    kStream,      // on the stream; MPI: pack kernel, synchronise the stream, MPI_Send, MPI_Recv, unpack kernel
    kReady,       // as kStream, by ready sends, receives started one iteration ahead
    kGraph,       // kStream, captured and replayed as graphs of kGraphTrips iterations; streams of GPUs only
    kKernel,      // one kernel a trial starts, waits and copies
  } way;

  bool has_stream() const { return way != Way::kHost && way != Way::kPersistent; }
  // Whether it is part of "all".
  bool is_usual(bool on_device) const {
    return on_device ? has_stream() : means != Means::kNccl && way != Way::kGraph && way != Way::kKernel;
  }
};

class RoundTrip {
  using Means = PingpongMode::Means;
  using Way = PingpongMode::Way;

 public:
  struct Shape {
    const PingpongMode& mode;
    size_t bytes = 0;
    bool pack = false;
    uint64_t batch = 64;       // iterations enqueued at a time
    bool is_to_self = false;   // by a queue, but for kReady: an iteration is one message from a rank to itself
    bool is_merged = false;    // by a queue, kStream: who pings has each pair of send and receive as an exchange
    bool two_buffers = false;  // not in kGraph and kKernel: iterations take turns at two slots
  };
  static constexpr uint64_t kGraphTrips = 20;

  // Allocates, and where there is a queue matches: collective over both ranks. What the mode uses
  // of `stream`, `queue` and `nccl` is not null, and outlives this object.
  RoundTrip(const Shape& shape, const MpiProcess& process, Stream* stream, StreamQueue* queue, Nccl* nccl)
      : shape_(shape),
        process_(process),
        peer_(shape.is_to_self ? process.rank() : 1 - process.rank()),
        stream_(shape.mode.has_stream() ? stream : nullptr),
        queue_(means() == Means::kQueue ? queue : nullptr),
        nccl_(means() == Means::kNccl ? nccl : nullptr) {
    for (int index = 0; index < kSlots; ++index)
      if (index != kOdd || alternates())
        make_slot(index);
    if (way() == Way::kGraph)
      capture_graphs();
  }
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;

  // Why this mode cannot run here; empty when it can, which trial() requires. Of this rank.
  const std::string& refusal() const { return refusal_; }

  // The iterations that trial() takes for so many: whole graphs where there are graphs.
  uint64_t rounded(uint64_t iterations) const {
    if (way() != Way::kGraph)
      return iterations;
    const uint64_t graphs = (iterations + kGraphTrips - 1) / kGraphTrips;
    return std::max<uint64_t>(graphs, 2) * kGraphTrips;  // the first and the last
  }

  // Fills and poisons, runs that many iterations, compares. Collective. Returns the seconds this
  // rank took; rank 0's are the measurement. What is wrong, if anything, is in error() from then
  // on.
  double trial(uint64_t iterations) {
    prepare(iterations);
    if (is_ready()) {
      // The first receive is ready before the barrier, the peer's first ready send comes after it.
      // Synchronising the stream is right here: waiting for the queue would wait for the receive
      // itself.
      queue_->start(slot(0).receive());
      stream_->synchronize();
    }
    process_.barrier();
    const double begin = MPI_Wtime();
    run();
    const double seconds = MPI_Wtime() - begin;
    compare();
    return seconds;
  }
  // The first mismatch this rank has seen; empty while there is none.
  const std::string& error() const { return error_; }

 private:
  // A ping and a pong of their own. The staging buffers exist with pack only, pinned ones where MPI
  // moves a GPU's messages.
  struct Slot {
    AlignedBuffer source, destination, staging_out, staging_in, pinned_out, pinned_in;
    std::byte* out = nullptr;  // what is sent: source or staging_out
    std::byte* in = nullptr;   // what is received into: destination or staging_in
    CopyKernel pack, unpack;
    RequestSet requests;     // the receive, the send
    uint64_t iteration = 0;  // whose payload it holds
    DeviceRequests receive_set, send_set;
    MPI_Request& receive() { return requests[0]; }
    MPI_Request& send() { return requests[1]; }
    TripsKernel::Slot sets() const { return {receive_set.get(), send_set.get(), pack, unpack}; }
  };
  enum SlotIndex { kFirst, kEven, kOdd, kLast, kSlots };

  Means means() const { return shape_.mode.means; }
  Way way() const { return shape_.mode.way; }
  bool is_persistent() const { return way() == Way::kPersistent; }
  bool is_ready() const { return way() == Way::kReady; }
  bool alternates() const { return is_ready() || shape_.two_buffers; }
  // In a kernel to itself, one ring an iteration starts all: sends are ready, in a set with the
  // receives.
  bool rings_once() const { return shape_.is_to_self && way() == Way::kKernel; }
  // Who sends first.
  bool is_pinging() const { return shape_.is_to_self || process_.is_first(); }
  Gpu* gpu() const { return stream_ != nullptr ? stream_->gpu() : nullptr; }

  void make_slot(int index) {
    Slot& slot = slots_[static_cast<size_t>(index)].emplace();
    for (AlignedBuffer* buffer : {&slot.source, &slot.destination})
      *buffer = AlignedBuffer(shape_.bytes, gpu());
    slot.out = slot.source.data();
    slot.in = slot.destination.data();
    if (shape_.pack) {
      for (AlignedBuffer* buffer : {&slot.staging_out, &slot.staging_in})
        *buffer = AlignedBuffer(shape_.bytes, gpu());
      slot.out = slot.staging_out.data();
      slot.in = slot.staging_in.data();
      slot.pack = {slot.out, slot.source.data(), shape_.bytes};
      slot.unpack = {slot.destination.data(), slot.in, shape_.bytes};
    }
    if (means() == Means::kMpi && gpu() != nullptr)
      for (AlignedBuffer* buffer : {&slot.pinned_out, &slot.pinned_in})
        *buffer = AlignedBuffer::pinned(shape_.bytes, *gpu());
    if (queue_ == nullptr && !is_persistent())
      return;
    slot.requests.add_receive(slot.in, shape_.bytes, peer_, kTag + index);
    slot.requests.add_send(is_ready() || rings_once(), slot.out, shape_.bytes, peer_, kTag + index);
    const bool is_merged = shape_.is_merged && is_pinging();
    if (is_merged)
      slot.requests.merge(0, slot.requests.count(), "trip " + std::to_string(index));
    if (queue_ != nullptr)
      slot.requests.match();
    if (is_merged && refusal_.empty())
      refusal_ = slot.requests.facts(0).value("lanyard_exchange_why", "");
    if (queue_ != nullptr && (way() == Way::kKernel || way() == Way::kGraph))
      make_sets(slot);
  }

  // Kernels and graphs need the card to go on without calls of the host.
  void make_sets(Slot& slot) {
    // What GPUs carry themselves is captured whatever the card can.
    if (way() == Way::kGraph && slot.requests.facts(0).value("lanyard_route", "") == "lane")
      return;
    DeviceRequests receive, send;
    if (refusal_.empty() && !rings_once())
      receive = queue_->make_set(slot.requests.part(0, 1), refusal_);
    if (refusal_.empty())
      send = queue_->make_set(rings_once() ? slot.requests.part(0, 2) : slot.requests.part(1, 1), refusal_);
    // Captures are refused where sets are: the answer was all that was wanted.
    if (way() == Way::kGraph)
      return;
    slot.receive_set = std::move(receive);
    slot.send_set = std::move(send);
  }

  void capture_graphs() {
    if (gpu() == nullptr)
      refusal_ = "host streams capture no graphs";
    if (!refusal_.empty())
      return;
    // As if there were so many iterations as graphs.
    iterations_ = graphs_.size() * kGraphTrips;
    if (nccl_ != nullptr) {
      enqueue(0, 1);  // the first call makes connections, which no capture may
      drain();
    }
    for (uint64_t i = 0; i < graphs_.size(); ++i) {
      gpu()->begin_capture();
      enqueue(i * kGraphTrips, (i + 1) * kGraphTrips);
      graphs_[i] = gpu()->end_capture();
    }
  }

  SlotIndex slot_index(uint64_t i) const {
    if (i == 0)
      return kFirst;
    if (i + 1 == iterations_)
      return kLast;
    return alternates() && i % 2 == 1 ? kOdd : kEven;
  }
  Slot& slot(uint64_t i) { return *slots_[slot_index(i)]; }

  void prepare(uint64_t iterations) {
    iterations_ = iterations;
    const uint64_t of_slot[kSlots] = {0, 2, 1, iterations - 1};
    for (size_t index = 0; index < kSlots; ++index) {
      if (!slots_[index])
        continue;
      Slot& slot = *slots_[index];
      slot.iteration = next_iteration_ + of_slot[index];
      const Payload mine({process_.rank(), peer_, slot.iteration});
      const Payload theirs({peer_, process_.rank(), slot.iteration});
      slot.source.write([&](std::span<std::byte> bytes) { mine.fill(bytes); });
      slot.destination.write([&](std::span<std::byte> bytes) { theirs.poison(bytes); });
      if (!shape_.pack)
        continue;
      slot.staging_out.write([&](std::span<std::byte> bytes) { mine.poison(bytes); });
      slot.staging_in.write([&](std::span<std::byte> bytes) { theirs.poison(bytes); });
    }
  }

  // The slots that the trial has used, the first iteration's before the others.
  void compare() {
    bool used[kSlots] = {};
    for (uint64_t i = 0; i < std::min<uint64_t>(iterations_, 4); ++i)
      used[slot_index(i)] = true;
    if (iterations_ > 1)
      used[kLast] = true;
    for (size_t index = 0; index < kSlots && error_.empty(); ++index) {
      if (!used[index])
        continue;
      const Slot& slot = *slots_[index];
      const Payload theirs({peer_, process_.rank(), slot.iteration});
      const auto wrong = slot.destination.read([&](std::span<const std::byte> bytes) { return theirs.verify(bytes); });
      if (wrong)
        error_ = fmt::format(
            "{} bytes, iteration {} of {}: byte {} that rank {} received from rank {} is {:#04x}, should be {:#04x}",
            shape_.bytes, slot.iteration - next_iteration_, iterations_, wrong->index, process_.rank(), peer_,
            std::to_integer<int>(wrong->found), std::to_integer<int>(wrong->expected));
    }
    next_iteration_ += iterations_;
  }

  void run() {
    if (means() == Means::kMpi)
      run_cpu();
    else if (way() == Way::kGraph)
      run_graph();
    else if (way() == Way::kKernel)
      run_kernel();
    else
      run_batches();
  }

  // ---- One side of an iteration that the host drives

  void cpu_send(Slot& slot) {
    if (is_persistent()) {
      check(MPI_Start(&slot.send()), "MPI_Start");
      return check(MPI_Wait(&slot.send(), MPI_STATUS_IGNORE), "MPI_Wait");
    }
    const std::byte* out = slot.out;
    if (stream_ != nullptr) {
      pack(slot);
      if (gpu() != nullptr) {
        gpu()->transfer(slot.pinned_out.data(), slot.out, shape_.bytes);
        out = slot.pinned_out.data();
      }
      stream_->synchronize();
    }
    check(MPI_Send(out, static_cast<int>(shape_.bytes), MPI_BYTE, peer_, kTag, MPI_COMM_WORLD), "MPI_Send");
  }
  // The stream has done with the pinned buffer before the next receive into it: a rank that has
  // received synchronises before it sends, and sends before it receives again.
  void cpu_receive(Slot& slot) {
    if (is_persistent())
      return check(MPI_Wait(&slot.receive(), MPI_STATUS_IGNORE), "MPI_Wait");
    std::byte* const in = gpu() != nullptr ? slot.pinned_in.data() : slot.in;
    check(MPI_Recv(in, static_cast<int>(shape_.bytes), MPI_BYTE, peer_, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          "MPI_Recv");
    if (gpu() != nullptr)
      gpu()->transfer(slot.in, in, shape_.bytes);
    unpack(slot);
  }
  void run_cpu() {
    for (uint64_t i = 0; i < iterations_; ++i) {
      if (is_persistent())
        check(MPI_Start(&slot(i).receive()), "MPI_Start");
      if (process_.is_first())
        cpu_send(slot(i));
      cpu_receive(slot(i));
      if (!process_.is_first())
        cpu_send(slot(i));
    }
    if (stream_ != nullptr)
      stream_->synchronize();  // the last unpack kernel
  }

  // ---- On the stream

  void pack(Slot& slot) {
    if (shape_.pack)
      stream_->launch(slot.pack);
  }
  void unpack(Slot& slot) {
    if (shape_.pack)
      stream_->launch(slot.unpack);
  }

  // Regular sends wait for the peer's receive, so any order is correct. Rank 1 starts its next
  // receive with its pong: then no ping waits for the clear-to-send. Except in a batch's last
  // iteration: the drain would wait for that receive, and rank 0 pings only after its own drain. As
  // few calls as possible, since each costs the stream time. In rsend receives start one iteration
  // ahead: README.md says why every ready send finds its receive started.
  void enqueue_trips(uint64_t begin, uint64_t end) {
    if (!is_pinging() && !is_ready())
      queue_->start(slot(begin).receive());
    for (uint64_t i = begin; i < end; ++i) {
      Slot& s = slot(i);
      const bool starts_next = is_ready() && i + 1 < iterations_;
      if (is_pinging()) {
        pack(s);
        if (is_ready())
          queue_->start(s.send());
        else
          queue_->start_all(s.requests);
        if (starts_next)
          queue_->start(slot(i + 1).receive());
        queue_->wait_all(s.requests);
        unpack(s);
        continue;
      }
      if (starts_next)
        queue_->start(slot(i + 1).receive());
      wait_for_ping(i, begin);
      unpack(s);
      pack(s);
      if (is_ready() || i + 1 == end) {
        queue_->start(s.send());
      } else {
        MPI_Request both[] = {slot(i + 1).receive(), s.send()};
        queue_->start_all(2, both);
      }
      if (i + 1 == end)
        queue_->wait(s.send());
    }
  }
  // And for the pong before it, where there is one in this batch.
  void wait_for_ping(uint64_t i, uint64_t begin) {
    if (i == begin)
      return queue_->wait(slot(i).receive());
    MPI_Request both[] = {slot(i).receive(), slot(i - 1).send()};
    queue_->wait_all(2, both);
  }

  void enqueue_nccl_trips(uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      Slot& s = slot(i);
      const auto send = [&] {
        pack(s);
        nccl_->send(s.out, shape_.bytes, peer_);
      };
      if (is_pinging())
        send();
      nccl_->receive(s.in, shape_.bytes, peer_);
      unpack(s);
      if (!is_pinging())
        send();
    }
  }

  void enqueue(uint64_t begin, uint64_t end) {
    nccl_ != nullptr ? enqueue_nccl_trips(begin, end) : enqueue_trips(begin, end);
  }

  // In rsend the first receive of the next batch is already started. queue_->drain() would never
  // return, as the peer sends that message in the next batch.
  void drain(bool is_last = true) {
    nccl_ != nullptr || (is_ready() && !is_last) ? stream_->synchronize() : queue_->drain();
  }

  void run_batches() {
    for (uint64_t begin = 0; begin < iterations_; begin += shape_.batch) {
      const uint64_t end = std::min(iterations_, begin + shape_.batch);
      enqueue(begin, end);
      drain(end == iterations_);
    }
  }
  void run_graph() {
    const uint64_t replays = iterations_ / kGraphTrips;
    const uint64_t batch = std::max<uint64_t>(shape_.batch / kGraphTrips, 1);
    for (uint64_t i = 0; i < replays; ++i) {
      gpu()->replay(graphs_[i == 0 ? 0 : i + 1 == replays ? 2 : 1]);
      if ((i + 1) % batch == 0 || i + 1 == replays)
        drain();
    }
  }
  void run_kernel() {
    trips_ = {slots_[kFirst]->sets(), slots_[kEven]->sets(), slots_[kLast]->sets(), iterations_, is_pinging()};
    stream_->launch(trips_);
    queue_->drain();
  }

  static constexpr int kTag = 0;

  const Shape shape_;
  const MpiProcess& process_;
  const int peer_;
  Stream* const stream_;
  StreamQueue* const queue_;
  Nccl* const nccl_;
  std::array<std::optional<Slot>, kSlots> slots_;
  // For the first iterations, those between, and the last: each iteration uses the same slot as
  // without graphs. Destroyed before the requests in them.
  std::array<Graph, 3> graphs_;
  TripsKernel trips_;
  std::string refusal_;
  uint64_t iterations_ = 0;      // of the trial that runs
  uint64_t next_iteration_ = 0;  // number of the next iteration over all trials: no payload comes twice
  std::string error_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_ROUND_TRIP_H_
