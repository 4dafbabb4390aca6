#include "gpu/device/copy_queue.h"

#include <algorithm>
#include <thread>

namespace lanyard::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLife{50};
constexpr std::chrono::seconds kLongestLeave{1};
// Bytes for one block: each thread has four units of 16 bytes in flight. Smaller shares only
// add blocks.
constexpr uint64_t kBytesOfBlock = uint64_t{kCopyThreads} * 16 * 4;
// A copy's number. The lowest bit tells the server's copies from the stream's.
constexpr uint64_t number_of(uint64_t count, bool served) { return count << 1 | (served ? 1 : 0); }
// Checks of unfinished copies before the driver is asked whether the device is still there.
constexpr uint32_t kLooksBeforeAsking = 1024;

}  // namespace

Result<std::unique_ptr<CopyServer>> CopyServer::make(Device& device, std::chrono::nanoseconds linger) {
  std::unique_ptr<CopyServer> server(new CopyServer(device, linger));
  LANYARD_ASSIGN_OR_RETURN(server->words_, device.take_pair());
  LANYARD_ASSIGN_OR_RETURN(server->ring_, device.take_ring());
  LANYARD_ASSIGN_OR_RETURN(server->stream_, device.driver().make_stream());
  return server;
}

CopyServer::~CopyServer() {
  if (words_.first == nullptr)
    return;
  const Clock::time_point deadline = Clock::now() + kLongestLeave;
  renew();
  while (!has_stopped() && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  const bool stopped = has_stopped();  // else the device is lost, and may still read and write
  const Inside inside(device_.driver(), device_.context());
  if (inside.status().ok() && stream_ != nullptr)
    device_.driver().destroy_stream(stream_);
  if (!stopped)
    return;
  if (ring_.commands != nullptr)
    device_.give_ring(ring_);
  device_.give_pair(words_);
}

void CopyServer::write(DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  const uint64_t place = started_ % CopyCommands::kCommands;
  const uint64_t lap = started_ / CopyCommands::kCommands % 2 == 0 ? CopyCommands::kLapBit : 0;
  std::atomic_ref(ring_.commands->to[place]).store(to | lap, std::memory_order_relaxed);
  std::atomic_ref(ring_.commands->from[place]).store(from | lap, std::memory_order_relaxed);
  // Release: the kernel also sees the host's earlier writes.
  std::atomic_ref(ring_.commands->bytes[place]).store(bytes | lap, std::memory_order_release);
  ++started_;
}

Result<uint64_t> CopyServer::start(DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  write(to, from, bytes);
  LANYARD_RETURN_IF_ERROR(go_on());
  return started_;
}

void CopyServer::renew() {
  if (has_stopped() || renewed_at_ == started_)
    return;
  write(0, 0, 0);
  renewed_at_ = started_;
}

Status CopyServer::go_on() {
  // In this order: once the kernel has stopped, ended() is final.
  if (!has_stopped() || ended() == started_)
    return {};
  ServeArguments arguments{};
  arguments.commands = ring_.address;
  arguments.first = ended();
  arguments.ended = words_.first_address;
  arguments.left = words_.second_address;
  arguments.launch = launches_.load(std::memory_order_relaxed) + 1;
  arguments.linger_ns = static_cast<uint64_t>(linger_.count());
  arguments.life_ns = std::chrono::nanoseconds(kLife).count();
  const Inside inside(device_.driver(), device_.context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  LANYARD_RETURN_IF_ERROR(device_.launch(stream_, arguments));
  launches_.store(arguments.launch, std::memory_order_relaxed);
  return {};
}

Result<std::unique_ptr<CopyQueue>> CopyQueue::make(Device& device, std::chrono::nanoseconds linger) {
  LANYARD_ASSIGN_OR_RETURN(const WordPair words, device.take_pair());
  std::unique_ptr<CopyQueue> queue(new CopyQueue(device, words));
  LANYARD_ASSIGN_OR_RETURN(queue->arrivals_, device.take_count(0));
  const Inside inside(device.driver(), device.context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  LANYARD_ASSIGN_OR_RETURN(queue->stream_, device.driver().make_stream());
  if (linger.count() > 0) {
    LANYARD_ASSIGN_OR_RETURN(queue->server_, CopyServer::make(device, linger));
  }
  queue->reached_.resize(static_cast<size_t>(device.driver().device_count()));
  return queue;
}

CopyQueue::~CopyQueue() {
  const Inside inside(device_.driver(), device_.context());
  if (inside.status().ok() && stream_ != nullptr)
    device_.driver().destroy_stream(stream_);
  if (ended() != started_)
    return;  // the device is lost, and may still write
  if (arrivals_ != nullptr)
    device_.give_count(arrivals_);
  device_.give_pair(words_);
}

Status CopyQueue::reach(int device) {
  const std::lock_guard lock(mutex_);
  if (device == device_.ordinal() || reached_[static_cast<size_t>(device)])
    return {};
  const Inside inside(device_.driver(), device_.context());
  LANYARD_RETURN_IF_ERROR(inside.status());
  LANYARD_RETURN_IF_ERROR(device_.driver().reach_device(device));
  reached_[static_cast<size_t>(device)] = true;
  if (server_ != nullptr)
    server_->renew();
  return {};
}

void CopyQueue::renew() {
  const std::lock_guard lock(mutex_);
  if (server_ != nullptr)
    server_->renew();
}

Result<uint64_t> CopyQueue::start(DeviceAddress to, DeviceAddress from, uint64_t bytes, bool with_host) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok())
    return failure_;
  const bool served = server_ != nullptr && bytes <= kLongestServed && !device_.is_shared();
  const uint64_t under_way = served ? server_->started() - server_->ended() : started_ - ended();
  if (under_way >= (served ? CopyServer::kMostUnderWay : kMostUnderWay))
    return Status(Code::kAgain, "too many copies are in flight on the device");
  Status status;
  if (served) {
    const Result<uint64_t> number = server_->start(to, from, bytes);
    if (number.ok())
      return number_of(number.value(), true);
    status = number.status();
  } else {
    const Inside inside(device_.driver(), device_.context());
    LANYARD_RETURN_IF_ERROR(inside.status());
    status = with_host && bytes >= kShortestForEngine ? copy_by_engine(to, from, bytes) : launch(to, from, bytes);
    if (status.ok())
      return number_of(++started_, false);
  }
  // Fail for good: later copies would make this one look complete.
  failure_ = Status(Code::kFailed, "the device could not start a copy: " + status.message());
  return failure_;
}

Status CopyQueue::launch(DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  const CopyArguments arguments{
      to, from, bytes, reinterpret_cast<DeviceAddress>(arrivals_), words_.first_address, started_ + 1};
  const uint64_t most = 2 * static_cast<uint64_t>(device_.facts().multiprocessors);
  const uint64_t blocks = std::clamp<uint64_t>((bytes + kBytesOfBlock - 1) / kBytesOfBlock, 1, most);
  return device_.launch(stream_, static_cast<uint32_t>(blocks), arguments);
}

Status CopyQueue::copy_by_engine(DeviceAddress to, DeviceAddress from, uint64_t bytes) {
  LANYARD_RETURN_IF_ERROR(device_.driver().copy(stream_, to, from, bytes));
  if (device_.facts().has_memory_ops) {
    const MemoryOp done{MemoryOp::Kind::kWrite, words_.first_address, started_ + 1};
    return device_.driver().run_memory_ops(stream_, std::span(&done, 1));
  }
  WordArguments arguments{};
  arguments.count = 1;
  arguments.entries[0] = {words_.first_address, started_ + 1, 0};
  return device_.launch(stream_, Kernel::kStore, arguments);
}

Result<bool> CopyQueue::has_ended(uint64_t number) {
  const bool served = number % 2 == 1;
  if ((served ? server_->ended() : ended()) >= number >> 1)
    return true;
  if (served && server_->has_stopped())
    LANYARD_RETURN_IF_ERROR(go_on());
  if (unmet_.fetch_add(1, std::memory_order_relaxed) % kLooksBeforeAsking == kLooksBeforeAsking - 1)
    LANYARD_RETURN_IF_ERROR(ask_driver());
  return false;
}

Status CopyQueue::go_on() {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok())
    return failure_;
  const Status status = server_->go_on();
  if (!status.ok())
    failure_ = Status(Code::kFailed, "the device will not complete its copies: " + status.message());
  return failure_;
}

Status CopyQueue::ask_driver() {
  const std::lock_guard lock(mutex_);
  // Ask even if failure_ is set: copies in flight may complete though a later one could not start.
  const Inside inside(device_.driver(), device_.context());
  Status status = inside.status();
  if (status.ok())
    status = device_.driver().is_empty(stream_).status();
  if (status.ok() && server_ != nullptr)
    status = device_.driver().is_empty(server_->stream()).status();
  if (!status.ok())
    failure_ = Status(Code::kFailed, "the device will not complete its copies: " + status.message());
  return status.ok() ? status : failure_;
}

}  // namespace lanyard::gpu
