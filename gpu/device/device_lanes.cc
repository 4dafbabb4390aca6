#include "gpu/device/device_lanes.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

namespace lanyard::gpu {
namespace {

// Up to this size one block is faster than several, as it need not wait for others.
constexpr uint64_t kMostAlone = 128 * 1024;
constexpr uint64_t kLeastChunk = 64 * 1024;
// No more chunks than blocks of a large device: more would only cost claims.
constexpr uint64_t kMostChunks = 256;
// Chunks are aligned for the widest loads and stores.
constexpr uint64_t kAlignment = 256;

uint64_t chunk_bytes_of(uint64_t bytes) {
  if (bytes <= kMostAlone)
    return bytes;
  const uint64_t even = (bytes + kMostChunks - 1) / kMostChunks;
  return (std::max(even, kLeastChunk) + kAlignment - 1) / kAlignment * kAlignment;
}

Status check_words(const Device& device) {
  return device.facts().shares_words
             ? Status()
             : Status(Code::kUnsupported, "kernels on the device may not see what other devices store meanwhile");
}

}  // namespace

// A lane, with fields for this file only.
struct DeviceLanes::OwnLane : Lane {
  DeviceLanes* lanes = nullptr;
  Device* owner = nullptr;
  uint64_t buffer = 0;
  bool sends = false;
  std::vector<std::byte*> borrowed;

  OwnLane() = default;
  OwnLane(const OwnLane&) = delete;
  OwnLane& operator=(const OwnLane&) = delete;
  ~OwnLane() {
    give_back();
    owner->give_end(end);
  }
  void give_back() {
    const std::lock_guard lock(lanes->mutex_);
    lanes->retired_.insert(lanes->retired_.end(), borrowed.begin(), borrowed.end());
    borrowed.clear();
  }
};

Result<Lanes::Opened> DeviceLanes::open(bool sends, void* buffer, uint64_t bytes) {
  LANYARD_ASSIGN_OR_RETURN(const int on, memory_.device_of(buffer, bytes));
  if (on == DeviceMemory::kHost)
    return Status(Code::kUnsupported, "the buffer is host memory");
  LANYARD_ASSIGN_OR_RETURN(Device* const device, devices_.of_ordinal(on));
  Device& owner = *device;
  // A kernel that waits would hold up the processes that it waits for.
  if (owner.is_shared())
    return Status(Code::kUnsupported, "other processes use the device too: a lane needs it alone");
  LANYARD_RETURN_IF_ERROR(check_words(owner));
  Opened opened;
  LANYARD_ASSIGN_OR_RETURN(opened.offer.buffer, memory_.lend(buffer, bytes));
  LANYARD_ASSIGN_OR_RETURN(const DeviceAddress end, owner.take_end());
  const auto lane = std::make_shared<OwnLane>();
  lane->lanes = this;
  lane->owner = &owner;
  lane->device = on;
  lane->end = end;
  lane->buffer = reinterpret_cast<uint64_t>(buffer);
  lane->sends = sends;
  LANYARD_ASSIGN_OR_RETURN(opened.offer.end, memory_.lend(reinterpret_cast<const void*>(end), sizeof(LaneEnd)));
  opened.lane = lane;
  return opened;
}

void DeviceLanes::disconnect(Lane& lane) { static_cast<OwnLane&>(lane).give_back(); }

bool DeviceLanes::may_unmap() const {
  const std::lock_guard lock(mutex_);
  return !retired_.empty();
}

void DeviceLanes::unmap() {
  std::vector<std::byte*> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(retired_);
  }
  for (std::byte* const each : all)
    memory_.give_back(each);
}

Result<DeviceAddress> DeviceLanes::reach(OwnLane& lane, const DeviceMemory::Loan& loan) {
  Device& device = *lane.owner;
  LANYARD_ASSIGN_OR_RETURN(std::byte* const there, memory_.borrow(loan, device.ordinal()));
  lane.borrowed.push_back(there);
  LANYARD_ASSIGN_OR_RETURN(const int on, memory_.device_of(there, 1));
  LANYARD_RETURN_IF_ERROR(check_way(device, on));
  return reinterpret_cast<DeviceAddress>(there);
}

Status DeviceLanes::check_way(Device& device, int other) {
  LANYARD_RETURN_IF_ERROR(device.driver().reach_device(other));
  const Result<bool> indivisible = device.driver().adds_indivisibly(other);
  if (!indivisible.ok() || indivisible.value())
    return indivisible.status();
  return {Code::kUnsupported, "the link between devices " + std::to_string(device.ordinal()) + " and " +
                                  std::to_string(other) + " has no atomic operations"};
}

Status DeviceLanes::check_way(int device, int other) {
  LANYARD_ASSIGN_OR_RETURN(Device* const found, devices_.of_ordinal(device));
  LANYARD_RETURN_IF_ERROR(check_words(*found));
  const Inside inside(found->driver(), found->context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  return check_way(*found, other);
}

Status DeviceLanes::connect(Lane& lane, const LaneOffer& other, const Terms& terms) {
  OwnLane& own = static_cast<OwnLane&>(lane);
  const Status status = connect_once(own, other, terms);
  if (status.ok())
    return status;
  own.give_back();
  if (status.code() != Code::kFailed || !terms.may_wait)
    return status;
  // Memory that its owner has freed since may still be mapped in its place.
  unmap();
  return connect_once(own, other, terms);
}

Status DeviceLanes::connect_once(OwnLane& own, const LaneOffer& other, const Terms& terms) {
  Device& device = *own.owner;
  const Inside inside(device.driver(), device.context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  LANYARD_ASSIGN_OR_RETURN(const DeviceAddress peer, reach(own, other.end));
  LANYARD_ASSIGN_OR_RETURN(const DeviceAddress peer_buffer, reach(own, other.buffer));
  LANYARD_ASSIGN_OR_RETURN(const HostPages::Place begun, pages_.reach(device, terms.begun));
  LANYARD_ASSIGN_OR_RETURN(const HostPages::Place done, pages_.reach(device, terms.done));
  LANYARD_ASSIGN_OR_RETURN(const HostPages::Place gone, pages_.reach(device, terms.gone));
  own.chunk_bytes = chunk_bytes_of(terms.bytes);
  own.chunks = terms.bytes == 0 ? 1 : (terms.bytes + own.chunk_bytes - 1) / own.chunk_bytes;
  LaneEnd end{};
  end.buffer = own.buffer;
  end.peer_buffer = peer_buffer;
  end.peer = peer;
  end.bytes = terms.bytes;
  end.chunk_bytes = own.chunk_bytes;
  end.chunks = own.chunks;
  end.sends = own.sends ? 1 : 0;
  end.ready = terms.ready ? 1 : 0;
  end.begun = begun.address;
  end.begun_base = std::atomic_ref(*terms.begun).load();
  end.done = done.address;
  end.done_base = std::atomic_ref(*terms.done).load();
  end.gone = gone.address;
  end.gone_base = std::atomic_ref(*terms.gone).load();
  return device.write_end(own.end, end);
}

}  // namespace lanyard::gpu
