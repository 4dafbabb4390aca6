// The contracts of streams and device memory on a real GPU, and tests that need one. Build with
// --config=cuda or --config=hip; the program can be copied to another machine. Without a GPU
// every test skips.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "gpu/device/backend.h"
#include "gpu/device/driver.h"
#include "tests/gpu/device_memory_contract.h"
#include "tests/gpu/gpu_program.h"
#include "tests/gpu/stream_contract.h"

namespace lanyard {
namespace {

using gpu::Backend;
using gpu::Stream;
using gpu::StreamHandle;
using gpu::StreamOp;
using memory_contract::copy;
using memory_contract::fill;
using memory_contract::holds;
using stream_contract::add64;
using stream_contract::load;
using stream_contract::store;
using stream_contract::wait64;
using stream_contract::write64;

// A backend, and a program's streams and memory on its devices.
class Gpu {
 public:
  // Null if there is no driver or no device.
  static std::unique_ptr<Gpu> open(gpu::Sharing sharing = gpu::Sharing::kAlone) {
    Result<std::unique_ptr<gpu::Driver>> driver = gpu::open_driver();
    if (!driver.ok())
      return nullptr;
    return std::unique_ptr<Gpu>(new Gpu(std::move(driver.value()), sharing));
  }
  // The order matters: streams end before their memory, and memory is freed while the
  // driver exists.
  ~Gpu() {
    for (const auto& [device, stream] : streams_) {
      const gpu::Inside inside(*driver_, context(device));
      driver_->destroy_stream(stream);
    }
    for (const auto& [device, memory] : memory_) {
      const gpu::Inside inside(*driver_, context(device));
      driver_->free(memory);
    }
  }

  gpu::Driver& driver() { return *driver_; }
  Backend& backend() { return *backend_; }
  gpu::ContextHandle context(int device = 0) { return driver_->context_of_device(device).value(); }

  std::unique_ptr<Stream> make_stream(int device = 0) {
    const gpu::Inside inside(*driver_, context(device));
    const StreamHandle handle = driver_->make_stream().value();
    Result<std::unique_ptr<Stream>> stream = backend_->make_stream(handle);
    LANYARD_CHECK(stream.ok(), stream.status().message().c_str());
    const std::lock_guard lock(mutex_);
    streams_.emplace_back(device, handle);
    handles_[stream.value().get()] = handle;
    return std::move(stream.value());
  }
  StreamHandle handle_of(const Stream& stream) {
    const std::lock_guard lock(mutex_);
    return handles_.at(&stream);
  }
  Status call_host(const Stream& stream, std::function<void()> body) {
    const gpu::Inside inside(*driver_, context());
    return program_.call_host(handle_of(stream), std::move(body));
  }
  std::byte* make_memory(uint64_t bytes, int device) {
    const gpu::Inside inside(*driver_, context(device));
    const gpu::DeviceAddress memory = driver_->allocate(bytes).value();
    const std::lock_guard lock(mutex_);
    memory_.emplace_back(device, memory);
    return reinterpret_cast<std::byte*>(memory);
  }

 private:
  Gpu(std::unique_ptr<gpu::Driver> driver, gpu::Sharing sharing)
      : driver_(driver.get()),
        backend_(std::move(Backend::make(std::move(driver), {sharing, std::chrono::microseconds(200)}).value())),
        program_(driver_->kind()) {}

  gpu::Driver* const driver_;  // the backend's
  const std::unique_ptr<Backend> backend_;
  GpuProgram program_;
  std::mutex mutex_;
  std::vector<std::pair<int, StreamHandle>> streams_;
  std::vector<std::pair<int, gpu::DeviceAddress>> memory_;
  std::map<const Stream*, StreamHandle> handles_;
};

// ---- The contracts

struct GpuStreamLab final : stream_contract::StreamLab {
  explicit GpuStreamLab(std::unique_ptr<Gpu> opened) : gpu(std::move(opened)) {}
  std::unique_ptr<Stream> make_stream() override { return gpu->make_stream(); }
  Status launch(Stream& stream, std::function<void()> body) override { return gpu->call_host(stream, std::move(body)); }
  std::shared_ptr<gpu::Packing> make_packing(std::shared_ptr<const gpu::Layout> layout, size_t origin,
                                             size_t bytes) override {
    return gpu->backend().make_packing(std::move(layout), gpu->make_memory(bytes, 0) + origin, 0).value();
  }
  std::shared_ptr<gpu::Packing> make_combining(gpu::Combination combination, uint64_t stride, size_t bytes) override {
    return gpu->backend().make_combining(std::move(combination), stride, gpu->make_memory(bytes, 0), 0).value();
  }
  void put(std::byte* there, const std::vector<std::byte>& content) override {
    std::byte* const staging = gpu->backend().memory().take_staging(content.size()).value();
    std::copy(content.begin(), content.end(), staging);
    move(there, staging, content.size());
    gpu->backend().memory().give_staging(staging);
  }
  std::vector<std::byte> get(const std::byte* there, size_t bytes) override {
    std::byte* const staging = gpu->backend().memory().take_staging(bytes).value();
    move(staging, there, bytes);
    const std::vector<std::byte> content(staging, staging + bytes);
    gpu->backend().memory().give_staging(staging);
    return content;
  }
  void move(void* to, const void* from, size_t bytes) {
    const DeviceMemory::Copy copy = gpu->backend().memory().start_copy(to, from, bytes).value();
    while (!gpu->backend().memory().has_ended(copy).value())
      std::this_thread::yield();
  }
  std::unique_ptr<Gpu> gpu;  // destroyed before the words, which it unregisters
};

struct GpuMemoryLab final : memory_contract::MemoryLab {
  explicit GpuMemoryLab(std::unique_ptr<Gpu> opened) : gpu(std::move(opened)) {}
  DeviceMemory& memory() override { return gpu->backend().memory(); }
  int devices() override { return gpu->driver().device_count(); }
  std::byte* make_memory(uint64_t bytes, int device) override { return gpu->make_memory(bytes, device); }
  std::unique_ptr<Gpu> gpu;
};

template <typename Base, typename Lab, gpu::Sharing kSharing>
std::unique_ptr<Base> make_lab() {
  std::unique_ptr<Gpu> gpu = Gpu::open(kSharing);
  return gpu == nullptr ? nullptr : std::make_unique<Lab>(std::move(gpu));
}

}  // namespace

namespace stream_contract {
INSTANTIATE_TEST_SUITE_P(Gpu, StreamContract,
                         ::testing::Values(StreamMaker{.name = "Alone",
                                                       .make = make_lab<StreamLab, GpuStreamLab, gpu::Sharing::kAlone>,
                                                       .host_adds = false},
                                           StreamMaker{.name = "Shared",
                                                       .make = make_lab<StreamLab, GpuStreamLab, gpu::Sharing::kShared>,
                                                       .host_adds = false}),
                         maker_name);
}  // namespace stream_contract

namespace memory_contract {
INSTANTIATE_TEST_SUITE_P(
    Gpu, DeviceMemoryContract,
    ::testing::Values(MemoryMaker{"Alone", make_lab<MemoryLab, GpuMemoryLab, gpu::Sharing::kAlone>},
                      MemoryMaker{"Shared", make_lab<MemoryLab, GpuMemoryLab, gpu::Sharing::kShared>}),
    memory_maker_name);
}  // namespace memory_contract

namespace {

// ---- Tests that need a real GPU

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    gpu_ = Gpu::open();
    if (gpu_ == nullptr)
      GTEST_SKIP() << gpu::open_driver().status().to_string();
  }
  Gpu& gpu() { return *gpu_; }
  DeviceMemory& memory() { return gpu_->backend().memory(); }
  uint64_t* words() { return words_; }

  static bool runs_empty(Stream& stream) {
    return eventually([&] { return stream.poll() || !stream.health().ok(); }) && stream.health().ok();
  }

 private:
  alignas(4096) uint64_t words_[512] = {};
  std::unique_ptr<Gpu> gpu_;  // destroyed before the words
};

// No call blocks behind a stream that waits for its caller, even a call that initializes something.
TEST_F(GpuTest, NothingWaitsForAStreamThatWaits) {
  const std::unique_ptr<Stream> held = gpu().make_stream();
  ASSERT_TRUE(works(held->enqueue(std::vector{wait64(words(), 1), add64(words() + 1, 1)})));
  EXPECT_FALSE(held->poll());
  std::byte* const device = gpu().make_memory(10'000, 0);
  std::byte* const host = memory().take_staging(10'000).value();
  fill(host, 10'000, 1);
  EXPECT_TRUE(works(copy(memory(), device, host, 10'000)));
  std::memset(host, 0, 10'000);
  EXPECT_TRUE(works(copy(memory(), host, device, 10'000)));
  EXPECT_TRUE(holds(host, 10'000, 1));
  std::byte* const more = memory().take_staging(uint64_t{20} << 20).value();
  EXPECT_TRUE(works(memory().lend(device, 10'000).status()));
  uint64_t* const count = held->take_count(0).value();
  const std::unique_ptr<Stream> other = gpu().make_stream();
  auto far = std::make_unique<std::array<uint64_t, 100'000>>();
  far->fill(0);
  uint64_t* const far_word = far->data() + 50'000;
  EXPECT_TRUE(works(other->enqueue(std::vector{write64(far_word, 1), add64(far_word, 1), wait64(far_word, 2)})));
  EXPECT_TRUE(runs_empty(*other));
  EXPECT_EQ(load(far_word), 2u);
  EXPECT_FALSE(held->poll());
  store(words(), 1);
  EXPECT_TRUE(runs_empty(*held));
  EXPECT_EQ(load(words() + 1), 1u);
  gpu().backend().forget_words();
  held->give_count(count);
  memory().give_staging(more);
  memory().give_staging(host);
}

}  // namespace
}  // namespace lanyard

int main(int argc, char** argv) {
  // Streams that share a hardware queue wait for each other, and these tests hold some streams.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("GPU_MAX_HW_QUEUES", "16", 0);
  ::testing::InitGoogleTest(&argc, argv);
  // Keeps the devices' contexts alive between tests.
  const auto driver = lanyard::gpu::open_driver();
  if (!driver.ok())
    std::printf("No GPU: %s\n", driver.status().to_string().c_str());
  for (int device = 0; driver.ok() && device < driver.value()->device_count(); ++device) {
    const auto context = driver.value()->context_of_device(device);
    if (!context.ok())
      std::printf("device %d: %s\n", device, context.status().to_string().c_str());
  }
  return RUN_ALL_TESTS();
}
