#include "gpu/device/device_lanes.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "lanyard/detail/lane_end.h"

namespace lanyard::gpu {
namespace {

// Up to it one block, which needs nobody else to say that a message is there, is faster than several.
constexpr uint64_t kMostAlone = 128 * 1024;
constexpr uint64_t kLeastChunk = 64 * 1024;
// No more than blocks of a large device: more would only cost claims.
constexpr uint64_t kMostChunks = 256;
// Longer messages gain nothing from slots, which take twice the memory and the bytes that are sent.
constexpr uint64_t kMostInSlots = 16 * 1024;
static_assert(kMostInSlots <= kMostAlone);
// Chunks begin where the widest loads and stores can.
constexpr uint64_t kAlignment = 256;

uint64_t chunk_bytes_of(uint64_t bytes) {
  if (bytes <= kMostAlone)
    return bytes;
  const uint64_t even = (bytes + kMostChunks - 1) / kMostChunks;
  return (std::max(even, kLeastChunk) + kAlignment - 1) / kAlignment * kAlignment;
}

Status check_words(const Device& device) {
  return device.facts().shares_words ? Status()
                                     : Status(Code::kUnsupported, "the device's kernels may not see what others store");
}

}  // namespace

// A lane, and what of it only this file needs.
struct DeviceLanes::OwnLane : Lane {
  DeviceLanes* lanes = nullptr;
  Device* owner = nullptr;
  uint64_t buffer = 0;
  bool sends = false;
  DeviceAddress slots = 0;
  uint64_t slots_bytes = 0;
  std::vector<std::byte*> borrowed;
  // Once connected:
  Terms terms;
  uint64_t begun_base = 0, done_base = 0;

  OwnLane() = default;
  OwnLane(const OwnLane&) = delete;
  OwnLane& operator=(const OwnLane&) = delete;
  ~OwnLane() {
    lanes->forget(*this);
    give_back();
    if (slots != 0)
      owner->give_slots(slots, slots_bytes);
    owner->give_end(end);
  }
  void give_back() {
    for (std::byte* const each : std::exchange(borrowed, {}))
      lanes->memory_.give_back(each);
  }
};

Result<Lanes::Opened> DeviceLanes::open(bool sends, void* buffer, uint64_t bytes) {
  const Result<int> on = memory_.device_of(buffer, bytes);
  if (!on.ok())
    return on.status();
  if (on.value() == DeviceMemory::kHost)
    return Status(Code::kUnsupported, "the buffer is host memory");
  return open_on(on.value(), sends, buffer, bytes);
}

Result<Lanes::Opened> DeviceLanes::open_empty(bool sends, int device) { return open_on(device, sends, nullptr, 0); }

Result<Lanes::Opened> DeviceLanes::open_on(int on, bool sends, void* buffer, uint64_t bytes) {
  const Result<Device*> device = devices_.of_ordinal(on);
  if (!device.ok())
    return device.status();
  Device& owner = *device.value();
  // A kernel that waits would keep the others from what it waits for.
  if (owner.is_shared())
    return Status(Code::kUnsupported, "other processes use the device too");
  LANYARD_RETURN_IF_ERROR(check_words(owner));
  Opened opened;
  if (buffer != nullptr) {
    const Result<DeviceMemory::Loan> lent = memory_.lend(buffer, bytes);
    if (!lent.ok())
      return lent.status();
    opened.offer.buffer = lent.value();
  }
  const Result<DeviceAddress> end = owner.take_end();
  if (!end.ok())
    return end.status();
  const auto lane = std::make_shared<OwnLane>();
  lane->lanes = this;
  lane->owner = &owner;
  lane->device = on;
  lane->end = end.value();
  lane->buffer = buffer != nullptr ? reinterpret_cast<uint64_t>(buffer) : end.value();
  lane->sends = sends;
  const Result<DeviceMemory::Loan> lent_end = memory_.lend(reinterpret_cast<const void*>(end.value()), sizeof(LaneEnd));
  if (!lent_end.ok())
    return lent_end.status();
  opened.offer.end = lent_end.value();
  if (buffer == nullptr)
    opened.offer.buffer = lent_end.value();
  if (!sends && bytes <= kMostInSlots)
    LANYARD_RETURN_IF_ERROR(lend_slots(*lane, bytes, opened.offer));
  opened.lane = lane;
  return opened;
}

Status DeviceLanes::lend_slots(OwnLane& lane, uint64_t bytes, LaneOffer& offer) {
  const uint64_t both = 2 * slot_bytes(bytes);
  const Result<DeviceAddress> slots = lane.owner->take_slots(both);
  if (!slots.ok())
    return slots.status();
  lane.slots = slots.value();
  lane.slots_bytes = both;
  const Result<DeviceMemory::Loan> lent = memory_.lend(reinterpret_cast<const void*>(lane.slots), both);
  if (!lent.ok())
    return lent.status();
  offer.slots = lent.value();
  offer.slots_bytes = both;
  return {};
}

void DeviceLanes::refresh() {
  const std::lock_guard lock(mutex_);
  std::vector<DeviceAddress> ends;
  std::vector<LaneEnd> content;
  for (auto first = connected_.begin(); first != connected_.end();) {
    Device& device = *first->second->owner;
    auto behind = first;
    ends.clear();
    for (; behind != connected_.end() && behind->second->owner == &device; ++behind)
      ends.push_back(behind->first);
    content.resize(ends.size());
    const bool asked = device.read_ends(ends, content).ok();
    for (size_t i = 0; first != behind; ++first, ++i) {
      const OwnLane& lane = *first->second;
      if (!asked)
        continue;
      std::atomic_ref(*lane.terms.begun).store(lane.begun_base + content[i].started);
      std::atomic_ref(*lane.terms.done).store(lane.done_base + content[i].waited);
    }
  }
}

void DeviceLanes::forget(OwnLane& lane) {
  const std::lock_guard lock(mutex_);
  connected_.erase(lane.end);
}

void DeviceLanes::disconnect(Lane& lane) {
  OwnLane& own = static_cast<OwnLane&>(lane);
  forget(own);
  own.give_back();
}

Result<DeviceAddress> DeviceLanes::reach(OwnLane& lane, const DeviceMemory::Loan& loan) {
  Device& device = *lane.owner;
  const Result<std::byte*> there = memory_.borrow(loan, device.ordinal());
  if (!there.ok())
    return there.status();
  lane.borrowed.push_back(there.value());
  const Result<int> on = memory_.device_of(there.value(), 1);
  if (!on.ok())
    return on.status();
  LANYARD_RETURN_IF_ERROR(check_way(device, on.value()));
  return reinterpret_cast<DeviceAddress>(there.value());
}

Status DeviceLanes::check_way(Device& device, int other) {
  LANYARD_RETURN_IF_ERROR(device.driver().reach_device(other));
  const Result<bool> indivisible = device.driver().adds_indivisibly(other);
  if (!indivisible.ok() || indivisible.value())
    return indivisible.status();
  return {Code::kUnsupported, "between devices " + std::to_string(device.ordinal()) + " and " + std::to_string(other) +
                                  " there are no atomic operations"};
}

Status DeviceLanes::check_way(int device, int other) {
  const Result<Device*> found = devices_.of_ordinal(device);
  if (!found.ok())
    return found.status();
  LANYARD_RETURN_IF_ERROR(check_words(*found.value()));
  const Inside inside(found.value()->driver(), found.value()->context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  return check_way(*found.value(), other);
}

Result<DeviceAddress> DeviceLanes::reach_word(Device& device, const uint64_t* word) {
  const Result<HostPages::Place> place = pages_.reach(device, word);
  return place.ok() ? Result<DeviceAddress>(place.value().address) : Result<DeviceAddress>(place.status());
}

Status DeviceLanes::connect(Lane& lane, const LaneOffer& other, const Terms& terms) {
  OwnLane& own = static_cast<OwnLane&>(lane);
  const Status status = connect_once(own, other, terms);
  if (status.ok())
    return status;
  own.give_back();
  if (status.code() != Code::kFailed || !terms.may_wait)
    return status;
  // In its place something may be mapped that its owner has freed since.
  unmap();
  return connect_once(own, other, terms);
}

Status DeviceLanes::connect_once(OwnLane& own, const LaneOffer& other, const Terms& terms) {
  Device& device = *own.owner;
  const Inside inside(device.driver(), device.context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  const Result<DeviceAddress> peer = reach(own, other.end);
  if (!peer.ok())
    return peer.status();
  const Result<DeviceAddress> peer_buffer = reach(own, other.buffer);
  if (!peer_buffer.ok())
    return peer_buffer.status();
  DeviceAddress slots = own.slots;
  if (own.sends && other.slots_bytes != 0) {
    const Result<DeviceAddress> there = reach(own, other.slots);
    if (!there.ok())
      return there.status();
    slots = there.value();
  }
  const uint64_t slots_bytes = own.sends ? other.slots_bytes : own.slots_bytes;
  // A receive that finds nothing in its slots looks at what has been left, too.
  if (slots_bytes < 2 * slot_bytes(terms.bytes) || (own.sends && terms.synchronous))
    slots = 0;
  const Result<DeviceAddress> gone = reach_word(device, terms.gone);
  if (!gone.ok())
    return gone.status();
  own.chunk_bytes = chunk_bytes_of(terms.bytes);
  own.chunks = terms.bytes == 0 ? 1 : (terms.bytes + own.chunk_bytes - 1) / own.chunk_bytes;
  LaneEnd end{};
  end.buffer = own.buffer;
  end.peer_buffer = peer_buffer.value();
  end.peer = peer.value();
  end.bytes = terms.bytes;
  end.chunk_bytes = own.chunk_bytes;
  end.chunks = own.chunks;
  end.sends = own.sends ? 1 : 0;
  end.ready = terms.ready ? 1 : 0;
  end.slots = slots;
  end.gone = gone.value();
  end.gone_base = std::atomic_ref(*terms.gone).load();
  own.terms = terms;
  own.begun_base = std::atomic_ref(*terms.begun).load();
  own.done_base = std::atomic_ref(*terms.done).load();
  LANYARD_RETURN_IF_ERROR(device.write_end(own.end, end));
  const std::lock_guard lock(mutex_);
  connected_.emplace(own.end, &own);
  return {};
}

}  // namespace lanyard::gpu
