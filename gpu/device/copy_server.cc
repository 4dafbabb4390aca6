#include "gpu/device/copy_server.h"

#include <thread>

namespace lanyard::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLife{50};
constexpr std::chrono::seconds kLongestLeave{1};

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
  // Who sees it sees whatever the host wrote before.
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
  // In this order: what the kernel had not made when it left, it will not.
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

}  // namespace lanyard::gpu
