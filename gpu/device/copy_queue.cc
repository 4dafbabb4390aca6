#include "gpu/device/copy_queue.h"

#include <algorithm>
#include <utility>

namespace lanyard::gpu {
namespace {

// A thread has four units of 16 bytes under way; fewer blocks than that many bytes want only start later.
constexpr uint64_t kBytesOfBlock = uint64_t{kCopyThreads} * 16 * 4;
// So many looks at a copy that goes on before the driver is asked whether the device is still there.
constexpr uint32_t kLooksBeforeAsking = 1024;

}  // namespace

Result<std::unique_ptr<CopyQueue>> CopyQueue::make(Device& device) {
  const Result<WordPair> words = device.take_pair();
  if (!words.ok()) return words.status();
  std::unique_ptr<CopyQueue> queue(new CopyQueue(device, words.value()));
  const Result<uint64_t*> arrivals = device.take_count(0);
  if (!arrivals.ok()) return arrivals.status();
  queue->arrivals_ = arrivals.value();
  const Inside inside(device.driver(), device.context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  const Result<StreamHandle> stream = device.driver().make_stream();
  if (!stream.ok()) return stream.status();
  queue->stream_ = stream.value();
  queue->reached_.resize(static_cast<size_t>(device.driver().device_count()));
  return queue;
}

CopyQueue::~CopyQueue() {
  const Inside inside(device_.driver(), device_.context());
  if (inside.status().ok() && stream_ != nullptr) device_.driver().destroy_stream(stream_);
  if (ended() != started_) return;  // the device is lost, and may still write
  if (arrivals_ != nullptr) device_.give_count(arrivals_);
  device_.give_pair(words_);
}

Status CopyQueue::reach(int device) {
  const std::lock_guard lock(mutex_);
  if (device == device_.ordinal() || reached_[static_cast<size_t>(device)]) return {};
  const Inside inside(device_.driver(), device_.context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  LANYARD_RETURN_IF_ERROR(device_.driver().reach_device(device));
  reached_[static_cast<size_t>(device)] = true;
  return {};
}

Result<uint64_t> CopyQueue::start(DeviceAddress to, DeviceAddress from, uint64_t bytes, bool with_host) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (started_ - ended() >= kMostUnderWay) return Status(Code::kAgain, "too many copies are under way on the device");
  const Inside inside(device_.driver(), device_.context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  const bool by_engine = with_host && bytes >= kShortestForEngine;
  Status status = by_engine ? copy_by_engine(to, from, bytes) : launch(to, from, bytes);
  if (!status.ok()) {
    // Whatever the driver has against it, copies that follow would pass by this one's number.
    failure_ = Status(Code::kFailed, "a copy could not be started: " + status.message());
    return failure_;
  }
  return ++started_;
}

Status CopyQueue::launch(DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  CopyArguments arguments{};
  arguments.to = to;
  arguments.from = from;
  arguments.bytes = bytes;
  arguments.arrivals = reinterpret_cast<DeviceAddress>(arrivals_);
  arguments.completion = words_.first_address;
  arguments.number = started_ + 1;
  const uint64_t most = 2 * static_cast<uint64_t>(device_.facts().multiprocessors);
  const uint64_t blocks = std::clamp<uint64_t>((bytes + kBytesOfBlock - 1) / kBytesOfBlock, 1, most);
  return device_.launch(stream_, static_cast<uint32_t>(blocks), arguments);
}

Status CopyQueue::copy_by_engine(DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  LANYARD_RETURN_IF_ERROR(device_.driver().copy(stream_, to, from, bytes));
  if (device_.facts().writes_words) {
    const MemoryOp done{MemoryOp::Kind::kWrite, words_.first_address, started_ + 1};
    return device_.driver().run_memory_ops(stream_, std::span(&done, 1));
  }
  WordArguments arguments{};
  arguments.count = 1;
  arguments.entries[0] = {words_.first_address, started_ + 1, 0};
  return device_.launch(stream_, Kernel::kStore, arguments);
}

Result<bool> CopyQueue::has_ended(uint64_t number) {
  if (ended() >= number) return true;
  if (unmet_.fetch_add(1, std::memory_order_relaxed) % kLooksBeforeAsking == kLooksBeforeAsking - 1)
    LANYARD_RETURN_IF_ERROR(ask_driver());
  return false;
}

Status CopyQueue::ask_driver() {
  const std::lock_guard lock(mutex_);
  // That a later copy could not be started says nothing of those that run.
  const Inside inside(device_.driver(), device_.context());
  Status status = inside.status();
  if (status.ok()) status = device_.driver().is_empty(stream_).status();
  if (!status.ok()) failure_ = Status(Code::kFailed, "copies will not end: " + status.message());
  return status.ok() ? status : failure_;
}

}  // namespace lanyard::gpu
