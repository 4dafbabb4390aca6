#include "bench/round_trip.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace lanyard::bench {
namespace {

constexpr int kTag = 0;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

RoundTrip::RoundTrip(const Shape& shape, const MpiProcess& process, Stream* stream, StreamQueue* queue, Nccl* nccl)
    : shape_(shape),
      process_(process),
      peer_(shape.is_to_self ? process.rank() : 1 - process.rank()),
      stream_(stream),
      queue_(queue),
      nccl_(nccl) {
  for (int index = 0; index < kSlots; ++index)
    if (index != kOdd || alternates())
      make_slot(index);
  if (has_graphs())
    capture_graphs();
}

RoundTrip::~RoundTrip() {
  for (const auto& slot : slots_)
    if (slot != nullptr)
      free_sets(*slot);
}

void RoundTrip::make_slot(int index) {
  auto slot = std::make_unique<Slot>();
  slot->source = AlignedBuffer(shape_.bytes, gpu());
  slot->destination = AlignedBuffer(shape_.bytes, gpu());
  slot->out = slot->source.data();
  slot->in = slot->destination.data();
  if (shape_.pack) {
    slot->staging_out = AlignedBuffer(shape_.bytes, gpu());
    slot->staging_in = AlignedBuffer(shape_.bytes, gpu());
    slot->out = slot->staging_out.data();
    slot->in = slot->staging_in.data();
    slot->pack = {slot->out, slot->source.data(), shape_.bytes};
    slot->unpack = {slot->destination.data(), slot->in, shape_.bytes};
  }
  if (shape_.mode == PingpongMode::kMpi && gpu() != nullptr) {
    slot->pinned_out = AlignedBuffer::pinned(shape_.bytes, *gpu());
    slot->pinned_in = AlignedBuffer::pinned(shape_.bytes, *gpu());
  }
  if (queue_ != nullptr || is_persistent()) {
    slot->requests.emplace();
    slot->requests->add_receive(slot->in, shape_.bytes, peer_, kTag + index);
    slot->requests->add_send(is_rsend() || rings_once(), slot->out, shape_.bytes, peer_, kTag + index);
    const bool is_merged = shape_.is_merged && is_pinging();
    if (is_merged)
      slot->requests->merge(0, slot->requests->count(), "trip " + std::to_string(index), "none");
    if (queue_ != nullptr)
      slot->requests->match();
    if (is_merged && refusal_.empty())
      refusal_ = slot->requests->facts(0).value("lanyard_exchange_why", "");
  }
  if (shape_.mode == PingpongMode::kKernel || shape_.mode == PingpongMode::kGraph)
    make_sets(*slot);
  slots_[static_cast<size_t>(index)] = std::move(slot);
}

void RoundTrip::make_sets(Slot& slot) {
  // What GPUs carry themselves is captured whatever the card can.
  if (shape_.mode == PingpongMode::kGraph && slot.requests->facts(0).value("lanyard_route", "") == "lane")
    return;
  if (rings_once()) {
    if (refusal_.empty())
      refusal_ = queue_->try_make_set(slot.requests->count(), slot.requests->data(), slot.send_set);
    return;
  }
  if (refusal_.empty())
    refusal_ = queue_->try_make_set(1, &slot.receive(), slot.receive_set);
  if (refusal_.empty())
    refusal_ = queue_->try_make_set(1, &slot.send(), slot.send_set);
  // Captures are refused where sets are: the answer was all that was wanted.
  if (shape_.mode == PingpongMode::kGraph)
    free_sets(slot);
}

void RoundTrip::free_sets(Slot& slot) {
  if (slot.receive_set != nullptr)
    queue_->free_set(slot.receive_set);
  if (slot.send_set != nullptr)
    queue_->free_set(slot.send_set);
}

void RoundTrip::capture_graphs() {
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

uint64_t RoundTrip::rounded(uint64_t iterations) const {
  if (!has_graphs())
    return iterations;
  const uint64_t graphs = (iterations + kGraphTrips - 1) / kGraphTrips;
  return std::max<uint64_t>(graphs, 2) * kGraphTrips;  // the first and the last
}

RoundTrip::SlotIndex RoundTrip::slot_index(uint64_t i) const {
  if (i == 0)
    return kFirst;
  if (i + 1 == iterations_)
    return kLast;
  return alternates() && i % 2 == 1 ? kOdd : kEven;
}

void RoundTrip::prepare(uint64_t iterations) {
  iterations_ = iterations;
  const uint64_t of_slot[kSlots] = {0, 2, 1, iterations - 1};
  for (size_t index = 0; index < kSlots; ++index) {
    if (slots_[index] == nullptr)
      continue;
    Slot& slot = *slots_[index];
    slot.iteration = next_iteration_ + of_slot[index];
    const Payload mine({process_.rank(), peer_, slot.iteration});
    const Payload theirs({peer_, process_.rank(), slot.iteration});
    const auto poison = [](const Payload& payload) {
      return [&payload](std::span<std::byte> bytes) { payload.poison(bytes); };
    };
    slot.source.write([&](std::span<std::byte> bytes) { mine.fill(bytes); });
    slot.destination.write(poison(theirs));
    if (!shape_.pack)
      continue;
    slot.staging_out.write(poison(mine));
    slot.staging_in.write(poison(theirs));
  }
}

// The slots that the trial has used, the first iteration's before the others.
void RoundTrip::compare() {
  bool used[kSlots] = {};
  for (uint64_t i = 0; i < std::min<uint64_t>(iterations_, 4); ++i)
    used[slot_index(i)] = true;
  if (iterations_ > 1)
    used[kLast] = true;
  for (size_t index = 0; index < kSlots && error_.empty(); ++index) {
    if (!used[index])
      continue;
    Slot& slot = *slots_[index];
    const Payload theirs({peer_, process_.rank(), slot.iteration});
    const auto mismatch = slot.destination.read([&](std::span<const std::byte> bytes) { return theirs.verify(bytes); });
    if (!mismatch)
      continue;
    error_ = fmt::format(
        "{} bytes, iteration {} of {}: byte {} that rank {} received from rank {} is {:#04x}, "
        "should be {:#04x}",
        shape_.bytes, slot.iteration - next_iteration_, iterations_, mismatch->index, process_.rank(), peer_,
        std::to_integer<int>(mismatch->found), std::to_integer<int>(mismatch->expected));
  }
  next_iteration_ += iterations_;
}

double RoundTrip::trial(uint64_t iterations) {
  prepare(iterations);
  if (is_rsend()) {
    // The first receive is ready before the barrier, the peer's first ready send comes after it.
    // Synchronising the stream is right here: waiting for the queue would wait for the receive
    // itself.
    queue_->start(slot(0).receive());
    stream_->synchronize();
  }
  process_.barrier();
  const double begin = now();
  run();
  const double seconds = now() - begin;
  compare();
  return seconds;
}

void RoundTrip::run() {
  switch (shape_.mode) {
    case PingpongMode::kSendrecv:
    case PingpongMode::kPersistent:
    case PingpongMode::kMpi: return run_cpu();
    case PingpongMode::kNccl:
    case PingpongMode::kSend:
    case PingpongMode::kRsend: return run_batches();
    case PingpongMode::kNcclGraph:
    case PingpongMode::kGraph: return run_graph();
    case PingpongMode::kKernel: return run_kernel();
  }
}

void RoundTrip::cpu_send(Slot& slot) {
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
void RoundTrip::cpu_receive(Slot& slot) {
  if (is_persistent())
    return check(MPI_Wait(&slot.receive(), MPI_STATUS_IGNORE), "MPI_Wait");
  std::byte* const in = gpu() != nullptr ? slot.pinned_in.data() : slot.in;
  check(MPI_Recv(in, static_cast<int>(shape_.bytes), MPI_BYTE, peer_, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
        "MPI_Recv");
  if (gpu() != nullptr)
    gpu()->transfer(slot.in, in, shape_.bytes);
  if (stream_ != nullptr)
    unpack(slot);
}

void RoundTrip::run_cpu() {
  for (uint64_t i = 0; i < iterations_; ++i) {
    if (is_persistent())
      check(MPI_Start(&slot(i).receive()), "MPI_Start");
    if (process_.is_first()) {
      cpu_send(slot(i));
      cpu_receive(slot(i));
    } else {
      cpu_receive(slot(i));
      cpu_send(slot(i));
    }
  }
  if (stream_ != nullptr)
    stream_->synchronize();  // the last unpack kernel
}

void RoundTrip::pack(Slot& slot) {
  if (shape_.pack)
    stream_->launch(slot.pack);
}

void RoundTrip::unpack(Slot& slot) {
  if (shape_.pack)
    stream_->launch(slot.unpack);
}

// Regular sends wait for the peer's receive, so any order is correct. Rank 1 starts its next
// receive with its pong: then no ping waits for the clear-to-send. Except in a batch's last
// iteration: the drain would wait for that receive, and rank 0 pings only after its own drain. As
// few calls as possible, since each costs the stream time. In rsend receives start one iteration
// ahead: README.md says why every ready send finds its receive started.
void RoundTrip::enqueue_trips(uint64_t begin, uint64_t end) {
  if (!is_pinging() && !is_rsend())
    queue_->start(slot(begin).receive());
  for (uint64_t i = begin; i < end; ++i) {
    Slot& s = slot(i);
    const bool starts_next = is_rsend() && i + 1 < iterations_;
    if (is_pinging()) {
      pack(s);
      if (is_rsend())
        queue_->start(s.send());
      else
        queue_->start_all(*s.requests);
      if (starts_next)
        queue_->start(slot(i + 1).receive());
      queue_->wait_all(*s.requests);
      unpack(s);
      continue;
    }
    if (starts_next)
      queue_->start(slot(i + 1).receive());
    wait_for_ping(i, begin);
    unpack(s);
    pack(s);
    if (is_rsend() || i + 1 == end) {
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
void RoundTrip::wait_for_ping(uint64_t i, uint64_t begin) {
  if (i == begin)
    return queue_->wait(slot(i).receive());
  MPI_Request both[] = {slot(i).receive(), slot(i - 1).send()};
  queue_->wait_all(2, both);
}

void RoundTrip::enqueue_nccl_trips(uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    Slot& s = slot(i);
    if (is_pinging()) {
      pack(s);
      nccl_->send(s.out, shape_.bytes, peer_);
    }
    nccl_->receive(s.in, shape_.bytes, peer_);
    unpack(s);
    if (!is_pinging()) {
      pack(s);
      nccl_->send(s.out, shape_.bytes, peer_);
    }
  }
}

void RoundTrip::enqueue(uint64_t begin, uint64_t end) {
  if (nccl_ != nullptr)
    enqueue_nccl_trips(begin, end);
  else
    enqueue_trips(begin, end);
}

// In rsend the first receive of the next batch is already started. queue_->drain() would never
// return, as the peer sends that message in the next batch.
void RoundTrip::drain(bool is_last) {
  if (nccl_ != nullptr || (is_rsend() && !is_last))
    stream_->synchronize();
  else
    queue_->drain();
}

void RoundTrip::run_batches() {
  for (uint64_t begin = 0; begin < iterations_; begin += shape_.batch) {
    const uint64_t end = std::min(iterations_, begin + shape_.batch);
    enqueue(begin, end);
    drain(end == iterations_);
  }
}

void RoundTrip::run_graph() {
  const uint64_t replays = iterations_ / kGraphTrips;
  const uint64_t batch = std::max<uint64_t>(shape_.batch / kGraphTrips, 1);
  for (uint64_t i = 0; i < replays; ++i) {
    gpu()->replay(graphs_[i == 0 ? 0 : i + 1 == replays ? 2 : 1]);
    if ((i + 1) % batch == 0 || i + 1 == replays)
      drain();
  }
}

void RoundTrip::run_kernel() {
  trips_ = {slots_[kFirst]->sets(), slots_[kEven]->sets(), slots_[kLast]->sets(), iterations_, is_pinging()};
  stream_->launch(trips_);
  queue_->drain();
}

}  // namespace lanyard::bench
