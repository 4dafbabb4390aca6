#include "nicsim/threaded/device_mover.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "nicsim/threaded/threaded_nic.h"
#include "nicsim/wire/wire.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

using nic::LocalSpan;
using nic::RegionId;

static_assert(sizeof(DeviceMemory::Loan) == kLoanBytes);

DeviceMover::DeviceMover(DeviceMemory& memory, const ModelLimits& limits, ThreadedNic& nic)
    : memory_(memory), nic_(nic), borrowings_(memory), regions_(limits.max_regions), sent_(limits.max_in_flight) {}

DeviceMover::~DeviceMover() {
  for (const Move& move : moves_) {
    if (move.phase == Move::Phase::kCopy) {
      for (Result<bool> ended = false; ended.ok() && !ended.value(); ended = memory_.has_ended(move.copy))
        sched_yield();
    }
    if (move.staging != nullptr)
      memory_.give_staging(move.staging);
  }
  for (const Arrival& arrival : arrivals_)
    memory_.give_staging(arrival.staging);
  for (Sent& sent : sent_)
    end(sent);
}

void DeviceMover::add_region(RegionId id, void* base, uint64_t bytes, int device) {
  Region& region = regions_[id.value];
  region = Region{};
  region.device = device;
  region.base = static_cast<std::byte*>(base);
  region.bytes = bytes;
  // If the same memory is registered elsewhere now, it is unchanged: peers
  // may keep their borrowings.
  const auto same = std::find_if(regions_.begin(), regions_.end(), [&](const Region& other) {
    return &other != &region && device != DeviceMemory::kHost && other.device == device && other.base == region.base &&
           other.bytes == bytes;
  });
  region.registration = same != regions_.end() ? same->registration : ++registrations_;
}

void DeviceMover::remove_region(RegionId id) {
  LANYARD_CHECK(!is_busy(id), "no copy may be in flight for a region that is removed");
  borrowings_.forget(id);
  regions_[id.value] = Region{};
}

// Lends the whole region, at most once. Returns whether it is lent.
bool DeviceMover::lend(Region& region) {
  if (region.loan != nullptr || !region.lendable)
    return region.loan != nullptr;
  const Result<DeviceMemory::Loan> loan = memory_.lend(region.base, region.bytes);
  region.lendable = loan.ok();
  if (loan.ok())
    region.loan = std::make_unique<const DeviceMemory::Loan>(loan.value());
  return loan.ok();
}

void DeviceMover::move(const Packet& packet, LocalSpan from, const Landing& landing) {
  begin({.fills = !is_device(from.region),
         .spreads = !is_device(landing.region),
         .packet = packet,
         .from = address(from),
         .to = landing.address,
         .source = from.region,
         .target = landing.region});
}

void DeviceMover::send(uint32_t peer, const Packet& packet, LocalSpan from) {
  Sent& sent = sent_[packet.token];
  sent = {.peer = peer, .packet = packet, .from = from};
  Region& region = regions_[from.region.value];
  if (!pulls_[peer] || !lend(region))
    return stage(sent);
  sent.state = Sent::State::kOffered;
  Packet offer = packet;
  offer.kind = PacketKind::kPull;
  offer.operand = from.offset;
  offer.loan = region.registration;
  nic_.wire_->send(peer, offer, region.loan->bytes.data());
}

void DeviceMover::stage(const Sent& sent) {
  sent_[sent.packet.token].state = Sent::State::kStaging;
  begin({.goal = Move::Goal::kSend,
         .packet = sent.packet,
         .peer = sent.peer,
         .from = address(sent.from),
         .source = sent.from.region});
}

void DeviceMover::end(Sent& sent) {
  if (sent.state == Sent::State::kSent)
    memory_.give_staging(sent.staging);
  sent.state = Sent::State::kNone;
}

void DeviceMover::pull_refused(const Packet& packet) {
  if (packet.token >= sent_.size())
    return;
  const Sent& sent = sent_[packet.token];
  if (sent.state != Sent::State::kOffered || sent.peer != packet.source)
    return;
  pulls_[packet.source] = false;
  stage(sent);
}

Result<std::byte*> DeviceMover::place(const Packet& packet, const Landing& landing) {
  const Result<std::byte*> staging = memory_.take_staging(packet.bytes);
  if (staging.ok())
    arrivals_.push_back({packet, landing, staging.value()});
  return staging;
}

std::vector<DeviceMover::Arrival>::iterator DeviceMover::find(const Packet& packet) {
  return std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& each) {
    const Packet& other = each.packet;
    return other.source == packet.source && other.token == packet.token && other.bytes == packet.bytes;
  });
}

bool DeviceMover::landed(const Packet& packet) {
  const auto found = find(packet);
  if (found == arrivals_.end())
    return false;
  const Arrival arrival = *found;
  arrivals_.erase(found);
  begin({.packet = arrival.packet,
         .from = arrival.staging,
         .to = arrival.landing.address,
         .staging = arrival.staging,
         .target = arrival.landing.region});
  return true;
}

void DeviceMover::abandoned(const Packet& packet) {
  const auto found = find(packet);
  if (found == arrivals_.end())
    return;
  memory_.give_staging(found->staging);
  arrivals_.erase(found);
}

bool DeviceMover::pull(const Packet& packet, const Landing& landing, const std::byte* bytes) {
  DeviceMemory::Loan loan;
  std::memcpy(loan.bytes.data(), bytes, sizeof loan.bytes);
  const std::byte* borrowed =
      borrowings_.borrow(packet.source, packet.loan, loan, landing.region, regions_[landing.region.value].device);
  if (borrowed == nullptr)
    return false;
  // Another process wrote the packet: check it.
  const uint64_t lent = memory_.lent_bytes(loan);
  if (packet.operand > lent || packet.bytes > lent - packet.operand) {
    borrowings_.ended(borrowed);
    return false;
  }
  begin({.spreads = !is_device(landing.region),
         .packet = packet,
         .from = borrowed + packet.operand,
         .to = landing.address,
         .borrowed = borrowed,
         .target = landing.region});
  return true;
}

// The peer's operations have failed. Memory that it lent may hold other data by now,
// so its pulls do not count.
void DeviceMover::peer_lost(uint32_t peer) {
  for (Sent& sent : sent_) {
    if (sent.peer == peer)
      end(sent);
  }
  for (Move& move : moves_) {
    if (move.goal == Move::Goal::kSend ? move.peer == peer : move.borrowed != nullptr && move.packet.source == peer)
      move.dropped = true;
  }
}

void DeviceMover::touch(const Move& move, uint32_t delta) {
  for (const RegionId region : {move.source, move.target}) {
    if (region.valid())
      regions_[region.value].moves += delta;
  }
}

void DeviceMover::begin(Move move) {
  touch(move, 1);
  const bool stages = move.goal == Move::Goal::kSend || move.fills || move.spreads;
  move.phase = move.fills ? Move::Phase::kFill : Move::Phase::kStart;
  if (stages) {
    const Result<std::byte*> staging = memory_.take_staging(move.packet.bytes);
    if (staging.ok()) {
      move.staging = staging.value();
    } else {
      move.code = staging.status().code();
      move.phase = Move::Phase::kOver;  // poll() reports it
    }
  }
  if (move.goal == Move::Goal::kSend)
    move.to = move.staging;
  moves_.push_back(move);
  uint64_t budget = Wire::kPortionBytes;
  advance(moves_.back(), budget);
}

size_t DeviceMover::poll() {
  if (moves_.empty())
    return 0;
  full_ = false;
  size_t steps = 0;
  uint64_t budget = Wire::kPortionBytes;  // of the host's copies, so that no call lasts long
  for (Move& move : moves_) {
    if (advance(move, budget))
      ++steps;
  }
  std::erase_if(moves_, [this](const Move& move) {
    if (move.phase == Move::Phase::kOver)
      over_.push_back(move);
    return move.phase == Move::Phase::kOver;
  });
  for (const Move& move : over_)
    finish(move);
  steps += over_.size();
  over_.clear();
  return steps;
}

// Moves on as far as possible now, but never calls finish(). Returns true if anything was done.
bool DeviceMover::advance(Move& move, uint64_t& budget) {
  using Phase = Move::Phase;
  if (move.dropped && move.phase != Phase::kCopy)
    move.phase = Phase::kOver;
  // Copies a portion, and returns whether that was anything.
  const auto copy = [&](std::byte* to, const std::byte* from) {
    const uint64_t bytes = std::min(budget, move.packet.bytes - move.done);
    std::memcpy(to + move.done, from + move.done, bytes);
    budget -= bytes;
    move.done += bytes;
    return bytes > 0;
  };
  switch (move.phase) {
    case Phase::kFill: {
      const bool copied = copy(move.staging, move.from);
      if (move.done < move.packet.bytes)
        return copied;
      move.phase = Phase::kStart;
      start(move);
      return true;
    }
    case Phase::kStart: return start(move);
    case Phase::kCopy: {
      const Result<bool> ended = memory_.has_ended(move.copy);
      if (ended.ok() && !ended.value())
        return false;
      move.done = 0;
      move.code = ended.status().code();
      move.phase = ended.ok() && move.spreads && !move.dropped ? Phase::kSpread : Phase::kOver;
      return true;
    }
    case Phase::kSpread: {
      const bool copied = copy(move.to, move.staging);
      if (move.done == move.packet.bytes)
        move.phase = Phase::kOver;
      return copied;
    }
    case Phase::kOver: return false;
  }
  return false;
}

bool DeviceMover::start(Move& move) {
  if (full_)
    return false;
  const Result<DeviceMemory::Copy> copy = memory_.start_copy(move.spreads ? move.staging : move.to,
                                                             move.fills ? move.staging : move.from, move.packet.bytes);
  full_ = copy.status().code() == Code::kAgain;
  if (full_)
    return false;
  move.code = copy.status().code();
  move.phase = copy.ok() ? Move::Phase::kCopy : Move::Phase::kOver;
  if (copy.ok())
    move.copy = copy.value();
  return true;
}

void DeviceMover::finish(const Move& move) {
  touch(move, UINT32_MAX);
  if (move.borrowed != nullptr)
    borrowings_.ended(move.borrowed);
  if (move.goal == Move::Goal::kSend && move.code == Code::kOk && !move.dropped) {
    Sent& sent = sent_[move.packet.token];
    sent.state = Sent::State::kSent;
    sent.staging = move.staging;
    return nic_.wire_->send(move.peer, move.packet, move.staging);
  }
  if (move.staging != nullptr)
    memory_.give_staging(move.staging);
  if (move.goal == Move::Goal::kLand)
    return nic_.moved(move.packet, move.dropped ? Code::kFailed : move.code);
  if (move.dropped)
    return;  // the operation has ended with its peer
  sent_[move.packet.token].state = Sent::State::kNone;
  nic_.not_sent(move.peer, move.packet, move.code);
}

// ---- Memory that peers have lent

Borrowings::~Borrowings() {
  for (const Borrowing& each : borrowings_)
    memory_.give_back(each.memory);
}

std::byte* Borrowings::borrow(uint32_t source, uint64_t registration, const DeviceMemory::Loan& loan,
                              nic::RegionId target, int device) {
  const auto found = std::find_if(borrowings_.begin(), borrowings_.end(), [&](const Borrowing& each) {
    return each.source == source && each.registration == registration && each.device == device && each.loan == loan;
  });
  if (found != borrowings_.end()) {
    ++found->copies;
    if (std::find(found->targets.begin(), found->targets.end(), target) == found->targets.end())
      found->targets.push_back(target);
    return found->memory;
  }
  // The source has registered the memory again: it may be other memory at the same address.
  std::erase_if(borrowings_, [&](const Borrowing& each) {
    if (each.source != source || each.registration == registration || each.loan != loan || each.copies > 0)
      return false;
    memory_.give_back(each.memory);
    return true;
  });
  const Result<std::byte*> memory = memory_.borrow(loan, device);
  if (!memory.ok())
    return nullptr;
  borrowings_.push_back({source, registration, loan, device, memory.value(), 1, {target}});
  return memory.value();
}

void Borrowings::ended(const std::byte* borrowed) {
  const auto found = std::find_if(borrowings_.begin(), borrowings_.end(),
                                  [&](const Borrowing& each) { return each.memory == borrowed && each.copies > 0; });
  LANYARD_CHECK(found != borrowings_.end(), "ended() needs a copy in flight from this memory");
  --found->copies;
}

void Borrowings::forget(nic::RegionId target) {
  std::erase_if(borrowings_, [&](Borrowing& each) {
    if (std::erase(each.targets, target) == 0 || !each.targets.empty())
      return false;
    memory_.give_back(each.memory);
    return true;
  });
}

}  // namespace lanyard::nicsim
