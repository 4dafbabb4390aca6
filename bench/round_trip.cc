#include "bench/round_trip.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace lanyard::bench {
namespace {

constexpr int kTag = 0;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

RoundTrip::RoundTrip(const Shape& shape, const MpiProcess& process, Stream* stream, StreamQueue* queue, Nccl* nccl)
    : shape_(shape),
      process_(process),
      peer_(shape.is_to_self ? process.rank() : 1 - process.rank()),
      graph_trips_(shape.silence.count() > 0 ? 1 : kGraphTrips),
      stream_(stream),
      queue_(queue),
      nccl_(nccl) {
  if (shape.mode == PingpongMode::kKernel && shape.silence.count() > 0)
    refusal_ = "one kernel makes all round trips, and no pause";
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
  if (shape_.pack || is_pinned()) {
    for (AlignedBuffer* staging : {&slot->staging_out, &slot->staging_in})
      *staging = is_pinned() ? AlignedBuffer::pinned(shape_.bytes, *gpu()) : AlignedBuffer(shape_.bytes, gpu());
    slot->out = slot->staging_out.data();
    slot->in = slot->staging_in.data();
    slot->pack = {slot->out, slot->source.data(), shape_.bytes};
    slot->unpack = {slot->destination.data(), slot->in, shape_.bytes};
  }
  if (queue_ != nullptr || shape_.mode == PingpongMode::kPersistent) {
    const SendKind kind = is_rsend() || rings_once() ? SendKind::kReady : SendKind::kRegular;
    slot->requests.emplace();
    slot->requests->add_receive(slot->in, shape_.bytes, peer_, kTag + index);
    slot->requests->add_send(kind, slot->out, shape_.bytes, peer_, kTag + index);
    const bool is_merged = shape_.is_merged && is_pinging();
    if (is_merged)
      slot->requests->merge(0, slot->requests->count(), "trip " + std::to_string(index), "none");
    if (queue_ != nullptr)
      slot->requests->match();
    if (is_merged && refusal_.empty())
      refusal_ = slot->requests->why_not_merged(0);
  }
  if (shape_.mode == PingpongMode::kKernel || shape_.mode == PingpongMode::kGraph ||
      shape_.mode == PingpongMode::kFused)
    make_sets(*slot);
  slots_[static_cast<size_t>(index)] = std::move(slot);
}

void RoundTrip::make_sets(Slot& slot) {
  // What GPUs carry themselves is captured whatever the card can.
  if (shape_.mode == PingpongMode::kGraph && slot.requests->goes_by_lane(0))
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
  iterations_ = graphs_.size() * graph_trips_;
  if (nccl_ != nullptr) {
    enqueue(0, 1);  // the first call makes connections, which no capture may
    drain();
  }
  for (uint64_t i = 0; i < graphs_.size(); ++i) {
    gpu()->begin_capture();
    enqueue(i * graph_trips_, (i + 1) * graph_trips_);
    graphs_[i] = gpu()->end_capture();
  }
}

uint64_t RoundTrip::rounded(uint64_t iterations) const {
  if (!has_graphs())
    return iterations;
  const uint64_t graphs = (iterations + graph_trips_ - 1) / graph_trips_;
  return std::max<uint64_t>(graphs, 2) * graph_trips_;  // the first and the last
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
    if (slot.staging_out.data() == nullptr)
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

double RoundTrip::trial(uint64_t iterations, Computation* beside) {
  prepare(iterations);
  if (is_rsend()) {
    // The first receive is ready before the barrier, the peer's first ready send comes after it.
    // Synchronising the stream is right here: waiting for the queue would wait for the receive
    // itself.
    queue_->start(slot(0).receive());
    stream_->synchronize();
  }
  if (is_cpu_driven() && !is_pinging())
    cpu_post(0);
  batches_us_.clear();
  batches_us_.reserve((iterations + batch() - 1) / batch());
  process_.barrier();
  const double start = now();
  if (beside != nullptr)
    beside->begin();
  double silent = 0, last = start;
  for (uint64_t begin = 0; begin < iterations; begin += batch()) {
    const uint64_t end = std::min(iterations, begin + batch());
    if (shape_.silence.count() > 0 && is_pinging()) {
      std::this_thread::sleep_for(shape_.silence);
      silent += now() - last;
      last = now();
    }
    run(begin, end);
    const double over = now();
    batches_us_.push_back((over - last) * 1e6 / (2 * static_cast<double>(end - begin)));
    last = over;
  }
  if (beside != nullptr)
    beside->end();
  const double seconds = now() - start - silent;
  compare();
  return seconds;
}

uint64_t RoundTrip::batch() const {
  if (shape_.silence.count() > 0)
    return 1;
  if (shape_.mode == PingpongMode::kKernel)
    return iterations_;
  return has_graphs() ? std::max<uint64_t>(shape_.batch / graph_trips_, 1) * graph_trips_ : shape_.batch;
}

void RoundTrip::run(uint64_t begin, uint64_t end) {
  switch (shape_.mode) {
    case PingpongMode::kSendrecv: return run_sendrecv(begin, end);
    case PingpongMode::kMpi:
    case PingpongMode::kMpiGpu: return run_cpu(begin, end);
    case PingpongMode::kPersistent: return run_persistent(begin, end);
    case PingpongMode::kNccl:
    case PingpongMode::kSend: enqueue(begin, end); return drain();
    case PingpongMode::kRsend: return run_rsend(begin, end);
    case PingpongMode::kNcclGraph:
    case PingpongMode::kFused:
    case PingpongMode::kGraph: return run_graph(begin, end);
    case PingpongMode::kKernel: return run_kernel();
  }
}

void RoundTrip::run_sendrecv(uint64_t begin, uint64_t end) {
  const int count = static_cast<int>(shape_.bytes);
  const auto send = [&](Slot& s) { check(MPI_Send(s.out, count, MPI_BYTE, peer_, kTag, MPI_COMM_WORLD), "MPI_Send"); };
  for (uint64_t i = begin; i < end; ++i) {
    Slot& s = slot(i);
    if (is_pinging())
      send(s);
    check(MPI_Recv(s.in, count, MPI_BYTE, peer_, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    if (!is_pinging())
      send(s);
  }
}

// It may be posted while the stream still unpacks from its buffer: the message comes only after the peer has got what
// is sent next, and before that the stream is synchronised.
void RoundTrip::cpu_post(uint64_t i) {
  check(MPI_Irecv(slot(i).in, static_cast<int>(shape_.bytes), MPI_BYTE, peer_, kTag, MPI_COMM_WORLD, &ahead_),
        "MPI_Irecv");
}

void RoundTrip::cpu_send(Slot& slot) {
  pack(slot);
  stream_->synchronize();
  check(MPI_Send(slot.out, static_cast<int>(shape_.bytes), MPI_BYTE, peer_, kTag, MPI_COMM_WORLD), "MPI_Send");
}

void RoundTrip::run_cpu(uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    if (is_pinging()) {
      cpu_post(i);
      cpu_send(slot(i));
    }
    check(MPI_Wait(&ahead_, MPI_STATUS_IGNORE), "MPI_Wait");
    unpack(slot(i));
    if (is_pinging())
      continue;
    if (i + 1 < iterations_)
      cpu_post(i + 1);
    cpu_send(slot(i));
  }
  // What was unpacked last: else the next pack comes behind it.
  if (end == iterations_ || shape_.silence.count() > 0)
    stream_->synchronize();
}

void RoundTrip::run_persistent(uint64_t begin, uint64_t end) {
  const auto start = [](MPI_Request& request) { check(MPI_Start(&request), "MPI_Start"); };
  const auto wait = [](MPI_Request& request) { check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait"); };
  for (uint64_t i = begin; i < end; ++i) {
    Slot& s = slot(i);
    start(s.receive());
    if (process_.is_first()) {
      start(s.send());
      wait(s.send());
      wait(s.receive());
    } else {
      wait(s.receive());
      start(s.send());
      wait(s.send());
    }
  }
}

void RoundTrip::pack(Slot& slot) {
  if (shape_.pack)
    stream_->launch(slot.pack);
  else if (is_pinned())
    gpu()->transfer(slot.out, slot.source.data(), shape_.bytes);
}

void RoundTrip::unpack(Slot& slot) {
  if (shape_.pack)
    stream_->launch(slot.unpack);
  else if (is_pinned())
    gpu()->transfer(slot.destination.data(), slot.in, shape_.bytes);
}

// Regular sends wait for the peer's receive by themselves, so any order is correct. Rank 1 starts
// its next receive with its pong, as the received data is out of the buffer: then the clear-to-send
// does not lie on the path from one ping to the next. Not in the last iteration of a batch, for the
// queue's wait would wait for that receive, and rank 0 sends the ping only when its own queue's wait
// is over. What can be one call is one: each costs the stream time.
void RoundTrip::enqueue_trips(uint64_t begin, uint64_t end) {
  if (!is_pinging())
    queue_->start(slot(begin).receive());
  for (uint64_t i = begin; i < end; ++i) {
    Slot& s = slot(i);
    if (is_pinging()) {
      pack(s);
      queue_->start_all(*s.requests);
      queue_->wait_all(*s.requests);
      unpack(s);
      continue;
    }
    wait_for_ping(i, begin);
    unpack(s);
    pack(s);
    if (i + 1 < end) {
      MPI_Request both[] = {slot(i + 1).receive(), s.send()};
      queue_->start_all(2, both);
    } else {
      queue_->start(s.send());
      queue_->wait(s.send());
    }
  }
}

// And for the pong before it, where there is one in this batch.
void RoundTrip::wait_for_ping(uint64_t i, uint64_t begin) {
  if (i == begin)
    return queue_->wait(slot(i).receive());
  MPI_Request both[] = {slot(i).receive(), slot(i - 1).send()};
  queue_->wait_all(2, both);
}

// As enqueue_trips(), whose calls are here parts of the two kernels.
void RoundTrip::enqueue_fused_trips(uint64_t begin, uint64_t end) {
  if (!is_pinging())
    gpu()->launch_send({.bytes = shape_.bytes, .receive = slot(begin).receive_set});
  for (uint64_t i = begin; i < end; ++i) {
    const Slot& s = slot(i);
    if (is_pinging()) {
      gpu()->launch_send({shape_.bytes, s.receive_set, s.send_set, s.pack});
      gpu()->launch_wait({shape_.bytes, s.send_set, s.receive_set, s.unpack});
      continue;
    }
    const MPIX_Device_requests* const before = i > begin ? slot(i - 1).send_set : nullptr;
    const MPIX_Device_requests* const next = i + 1 < end ? slot(i + 1).receive_set : nullptr;
    gpu()->launch_wait({shape_.bytes, before, s.receive_set, s.unpack});
    gpu()->launch_send({shape_.bytes, next, s.send_set, s.pack});
    if (i + 1 == end)
      gpu()->launch_wait({.bytes = shape_.bytes, .sent = s.send_set});
  }
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
  else if (shape_.mode == PingpongMode::kFused)
    enqueue_fused_trips(begin, end);
  else
    enqueue_trips(begin, end);
}

void RoundTrip::drain() {
  if (nccl_ != nullptr)
    stream_->synchronize();
  else
    queue_->drain();
}

void RoundTrip::run_graph(uint64_t begin, uint64_t end) {
  const uint64_t graphs = iterations_ / graph_trips_;
  for (uint64_t i = begin / graph_trips_; i < end / graph_trips_; ++i)
    gpu()->replay(*graphs_[i == 0 ? 0 : i + 1 == graphs ? 2 : 1]);
  drain();
}

void RoundTrip::run_kernel() {
  trips_ = {slots_[kFirst]->sets(), slots_[kEven]->sets(), slots_[kLast]->sets(), iterations_,
            is_pinging(),           shape_.bytes};
  stream_->launch(trips_);
  queue_->drain();
}

// A ready send is legal only if the peer's receive has been started before it. Consecutive
// iterations have different slots (double buffering), so that receive i + 1 can be started while
// the data of i is still in its buffer.
//
// Ping i finds receive i started: rank 1 started it before it sent pong i - 1, and rank 0 sends
// ping i after it has received pong i - 1. Pong i finds receive i started: rank 0 started it in
// iteration i - 1, before it sent ping i, and rank 1 sends pong i after it has received ping i.
// Both receives 0 are started before the barrier in trial().
//
// The receive of the next batch's first iteration is outstanding at the end of a batch, where only
// the stream can be waited for; the queue's wait would never return, as the peer sends that message
// in the next batch.
void RoundTrip::run_rsend(uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    Slot& s = slot(i);
    const bool has_next = i + 1 < iterations_;
    if (process_.is_first()) {
      pack(s);
      queue_->start(s.send());
      if (has_next)
        queue_->start(slot(i + 1).receive());
      queue_->wait_all(*s.requests);
      unpack(s);
    } else {
      if (has_next)
        queue_->start(slot(i + 1).receive());
      wait_for_ping(i, begin);
      unpack(s);
      pack(s);
      queue_->start(s.send());
      if (i + 1 == end)
        queue_->wait(s.send());
    }
  }
  if (end < iterations_)
    stream_->synchronize();
  else
    queue_->drain();
}

}  // namespace lanyard::bench
