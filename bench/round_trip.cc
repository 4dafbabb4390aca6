#include "bench/round_trip.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace lanyard::bench {
namespace {

constexpr int kTag = 0;

template <class Copy>
void copy_kernel(void* argument) {
  const Copy& copy = *static_cast<const Copy*>(argument);
  std::memcpy(copy.to, copy.from, copy.bytes);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

RoundTrip::RoundTrip(const Shape& shape, const MpiProcess& process, HostStream* stream,
                     StreamQueue* queue)
    : shape_(shape), process_(process), peer_(1 - process.rank()), stream_(stream), queue_(queue) {
  for (int index = 0; index < kSlots; ++index)
    if (index != kOdd || is_rsend()) make_slot(index);
}

void RoundTrip::make_slot(int index) {
  auto slot = std::make_unique<Slot>();
  slot->source = AlignedBuffer(shape_.bytes);
  slot->destination = AlignedBuffer(shape_.bytes);
  slot->out = slot->source.data();
  slot->in = slot->destination.data();
  if (shape_.pack) {
    slot->staging_out = AlignedBuffer(shape_.bytes);
    slot->staging_in = AlignedBuffer(shape_.bytes);
    slot->out = slot->staging_out.data();
    slot->in = slot->staging_in.data();
    slot->pack = {slot->out, slot->source.data(), shape_.bytes};
    slot->unpack = {slot->destination.data(), slot->in, shape_.bytes};
  }
  if (queue_ != nullptr || shape_.mode == PingpongMode::kPersistent) {
    const SendKind kind = is_rsend() ? SendKind::kReady : SendKind::kRegular;
    slot->requests.emplace();
    slot->requests->add_receive(slot->in, shape_.bytes, peer_, kTag + index);
    slot->requests->add_send(kind, slot->out, shape_.bytes, peer_, kTag + index);
    if (queue_ != nullptr) slot->requests->match();
  }
  slots_[static_cast<size_t>(index)] = std::move(slot);
}

RoundTrip::SlotIndex RoundTrip::slot_index(uint64_t i) const {
  if (i == 0) return kFirst;
  if (i + 1 == iterations_) return kLast;
  return is_rsend() && i % 2 == 1 ? kOdd : kEven;
}

void RoundTrip::prepare(uint64_t iterations) {
  iterations_ = iterations;
  const uint64_t of_slot[kSlots] = {0, 2, 1, iterations - 1};
  for (size_t index = 0; index < kSlots; ++index) {
    if (slots_[index] == nullptr) continue;
    Slot& slot = *slots_[index];
    slot.iteration = next_iteration_ + of_slot[index];
    const Payload mine({process_.rank(), peer_, slot.iteration});
    const Payload theirs({peer_, process_.rank(), slot.iteration});
    mine.fill(slot.source.span());
    theirs.poison(slot.destination.span());
    if (!shape_.pack) continue;
    mine.poison(slot.staging_out.span());
    theirs.poison(slot.staging_in.span());
  }
}

// The slots that the trial has used, the first iteration's before the others.
void RoundTrip::compare() {
  bool used[kSlots] = {};
  for (uint64_t i = 0; i < std::min<uint64_t>(iterations_, 4); ++i) used[slot_index(i)] = true;
  if (iterations_ > 1) used[kLast] = true;
  for (size_t index = 0; index < kSlots && error_.empty(); ++index) {
    if (!used[index]) continue;
    Slot& slot = *slots_[index];
    const Payload theirs({peer_, process_.rank(), slot.iteration});
    const auto mismatch = theirs.verify(slot.destination.span());
    if (!mismatch) continue;
    error_ = fmt::format(
        "{} bytes, iteration {} of {}: byte {} that rank {} received from rank {} is {:#04x}, "
        "should be {:#04x}",
        shape_.bytes, slot.iteration - next_iteration_, iterations_, mismatch->index,
        process_.rank(), peer_, std::to_integer<int>(mismatch->found),
        std::to_integer<int>(mismatch->expected));
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
    case PingpongMode::kMpi:
      return run_cpu();
    case PingpongMode::kPersistent:
      return run_persistent();
    case PingpongMode::kSend:
      return run_send();
    case PingpongMode::kRsend:
      return run_rsend();
  }
}

void RoundTrip::cpu_send(Slot& slot) {
  if (stream_ != nullptr) {
    pack(slot);
    stream_->synchronize();
  }
  check(MPI_Send(slot.out, static_cast<int>(shape_.bytes), MPI_BYTE, peer_, kTag, MPI_COMM_WORLD),
        "MPI_Send");
}

void RoundTrip::cpu_receive(Slot& slot) {
  check(MPI_Recv(slot.in, static_cast<int>(shape_.bytes), MPI_BYTE, peer_, kTag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE),
        "MPI_Recv");
  if (stream_ != nullptr) unpack(slot);
}

void RoundTrip::run_cpu() {
  for (uint64_t i = 0; i < iterations_; ++i) {
    if (process_.is_first()) {
      cpu_send(slot(i));
      cpu_receive(slot(i));
    } else {
      cpu_receive(slot(i));
      cpu_send(slot(i));
    }
  }
  if (stream_ != nullptr) stream_->synchronize();  // the last unpack kernel
}

void RoundTrip::run_persistent() {
  const auto start = [](MPI_Request& request) { check(MPI_Start(&request), "MPI_Start"); };
  const auto wait = [](MPI_Request& request) {
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  };
  for (uint64_t i = 0; i < iterations_; ++i) {
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
  if (shape_.pack) stream_->launch(copy_kernel<Copy>, &slot.pack);
}

void RoundTrip::unpack(Slot& slot) {
  if (shape_.pack) stream_->launch(copy_kernel<Copy>, &slot.unpack);
}

// Regular sends wait for the peer's receive by themselves, so any order is correct. Rank 1 starts
// its next receive before its pong, as soon as the received data is out of the buffer: then the
// clear-to-send does not lie on the path from one ping to the next. Not in the last iteration of a
// batch, for the queue's wait would wait for that receive, and rank 0 sends the ping only when its
// own queue's wait is over.
void RoundTrip::run_send() {
  for (uint64_t begin = 0; begin < iterations_; begin += shape_.batch) {
    const uint64_t end = std::min(iterations_, begin + shape_.batch);
    if (!process_.is_first()) queue_->start(slot(begin).receive());
    for (uint64_t i = begin; i < end; ++i) {
      Slot& s = slot(i);
      if (process_.is_first()) {
        queue_->start(s.receive());
        pack(s);
        queue_->start(s.send());
        queue_->wait_all(*s.requests);
        unpack(s);
      } else {
        queue_->wait(s.receive());
        unpack(s);
        if (i + 1 < end) queue_->start(slot(i + 1).receive());
        pack(s);
        queue_->start(s.send());
        queue_->wait(s.send());
      }
    }
    queue_->drain();
  }
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
void RoundTrip::run_rsend() {
  for (uint64_t begin = 0; begin < iterations_; begin += shape_.batch) {
    const uint64_t end = std::min(iterations_, begin + shape_.batch);
    for (uint64_t i = begin; i < end; ++i) {
      Slot& s = slot(i);
      const bool has_next = i + 1 < iterations_;
      if (process_.is_first()) {
        pack(s);
        queue_->start(s.send());
        if (has_next) queue_->start(slot(i + 1).receive());
        queue_->wait_all(*s.requests);
        unpack(s);
      } else {
        if (has_next) queue_->start(slot(i + 1).receive());
        queue_->wait(s.receive());
        unpack(s);
        pack(s);
        queue_->start(s.send());
        queue_->wait(s.send());
      }
    }
    if (end < iterations_)
      stream_->synchronize();
    else
      queue_->drain();
  }
}

}  // namespace lanyard::bench
