// GpuApi: a test of the API with a GPU of its own, as far as there are enough; and what a program does there beside.
#ifndef LANYARD_TESTS_GPU_API_H_
#define LANYARD_TESTS_GPU_API_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/device/driver.h"
#include "gpu/device/open_driver.h"
#include "tests/api_objects.h"
#include "tests/gpu_program.h"

namespace lanyard::api_test {

using gpu::DeviceAddress;
using gpu::Inside;
using gpu::StreamHandle;

// The program's own use of the vendor's driver: one for the process.
class Gpu {
 public:
  static Gpu* get() {
    static std::unique_ptr<Gpu> the_gpu = open();
    return the_gpu.get();
  }
  gpu::Driver& driver() { return *driver_; }
  GpuProgram& program() { return program_; }
  gpu::ContextHandle context() const { return context_; }
  MPIX_Queue_type type() const { return std::string(driver_->kind()) == "cuda" ? MPIX_QUEUE_CUDA : MPIX_QUEUE_HIP; }
  MPIX_Queue_type other_type() const { return type() == MPIX_QUEUE_CUDA ? MPIX_QUEUE_HIP : MPIX_QUEUE_CUDA; }

 private:
  explicit Gpu(std::unique_ptr<gpu::Driver> driver) : driver_(std::move(driver)), program_(driver_->kind()) {
    const int device = rank() % driver_->device_count();
    context_ = driver_->context_of_device(device).value();
  }
  static std::unique_ptr<Gpu> open() {
    Result<std::unique_ptr<gpu::Driver>> driver = gpu::open_driver();
    if (driver.ok() && driver.value()->device_count() > 0)
      return std::unique_ptr<Gpu>(new Gpu(std::move(driver.value())));
    if (rank() == 0)
      std::printf("no GPU: %s\n", driver.status().message().c_str());
    return nullptr;
  }

  std::unique_ptr<gpu::Driver> driver_;
  GpuProgram program_;
  gpu::ContextHandle context_ = nullptr;
};

// The rank's device is current while it lives.
class GpuApi : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Gpu::get() == nullptr)
      GTEST_SKIP() << "this machine has no GPU";
    inside_.emplace(gpu().driver(), gpu().context());
    handle_ = gpu().driver().make_stream().value();
    ASSERT_TRUE(ok(MPIX_Queue_init(&queue_, gpu().type(), &handle_)));
  }
  void TearDown() override {
    if (Gpu::get() == nullptr)
      return;
    if (queue_ != MPIX_QUEUE_NULL) {
      EXPECT_TRUE(ok(MPIX_Queue_free(&queue_)));
    }
    for (const DeviceAddress memory : memory_)
      gpu().driver().free(memory);
    for (void* memory : pinned_)
      gpu().driver().free_host(memory);
    if (handle_ != nullptr)
      gpu().driver().destroy_stream(handle_);
    inside_.reset();
  }
  static Gpu& gpu() { return *Gpu::get(); }

  std::byte* device_memory(size_t bytes) {
    memory_.push_back(gpu().driver().allocate(bytes + 1).value());
    return reinterpret_cast<std::byte*>(memory_.back());
  }
  std::byte* pinned(size_t bytes) {
    pinned_.push_back(gpu().driver().allocate_host(bytes + 1).value());
    return static_cast<std::byte*>(pinned_.back());
  }
  // In the stream.
  void copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0) {
      EXPECT_TRUE(gpu()
                      .driver()
                      .copy(handle_, reinterpret_cast<DeviceAddress>(to), reinterpret_cast<DeviceAddress>(from), bytes)
                      .ok());
    }
  }
  void synchronize() {
    while (true) {
      const Result<bool> empty = gpu().driver().is_empty(handle_);
      ASSERT_TRUE(empty.ok()) << empty.status().to_string();
      if (empty.value())
        return;
    }
  }
  // In the stream: the device has some 50 ms to do. May wait for the device the first time.
  void compute() {
    constexpr size_t kWords = size_t{1} << 28;
    constexpr std::chrono::milliseconds kTime{50};
    constexpr int kMost = 500;  // a stream takes some 1000
    const auto fill = [&](int times) {
      for (int i = 0; i < times; ++i)
        EXPECT_TRUE(gpu().program().fill(handle_, work_, static_cast<uint32_t>(i), kWords).ok());
    };
    if (fills_ == 0) {
      constexpr int kSome = 20;
      work_ = reinterpret_cast<DeviceAddress>(device_memory(kWords * sizeof(uint32_t)));
      fill(1);
      synchronize();
      const auto begin = std::chrono::steady_clock::now();
      fill(kSome);
      synchronize();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      fills_ = static_cast<int>(std::clamp(kSome * (kTime / took), 1.0, double{kMost}));
    }
    fill(fills_);
  }
  // Of the request, once it is matched: "lane" or "card".
  static std::string fact_of(MPI_Request request, const char* key) {
    MPI_Info info = MPI_INFO_NULL;
    EXPECT_TRUE(ok(MPIX_Request_get_info(request, &info)));
    return value_of(info, key);
  }
  static std::string route_of(MPI_Request request) { return fact_of(request, "lanyard_route"); }
  // Of the queue's info.
  uint64_t figure(const char* name) const {
    MPI_Info info = MPI_INFO_NULL;
    EXPECT_TRUE(ok(MPIX_Queue_get_info(queue_, &info)));
    return std::strtoull(value_of(info, name).c_str(), nullptr, 10);
  }
  static void fill(std::byte* memory, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; ++i)
      memory[i] = static_cast<std::byte>(content_word(seed, i / 8) >> (8 * (i % 8)));
  }
  static size_t mistakes(const std::byte* memory, size_t bytes, uint64_t seed) {
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; ++i)
      wrong += memory[i] != static_cast<std::byte>(content_word(seed, i / 8) >> (8 * (i % 8)));
    return wrong;
  }
  // Whether it is all ranks' content as numbers of 64 bits, added up.
  static bool is_sum(const std::byte* memory, size_t bytes, int round, int number) {
    for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
      uint64_t sum = 0;
      for (int each = 0; each < ranks(); ++each)
        sum += content_word(seed_of(each, 0, round, number), i);
      uint64_t found = 0;
      std::memcpy(&found, memory + i * sizeof found, sizeof found);
      if (found != sum)
        return false;
    }
    return true;
  }

  StreamHandle handle_ = nullptr;
  MPIX_Queue queue_ = MPIX_QUEUE_NULL;

 private:
  // And frees the info.
  static std::string value_of(MPI_Info info, const char* key) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    EXPECT_NE(found, 0) << key;
    MPI_Info_free(&info);
    return value;
  }

  std::optional<Inside> inside_;
  DeviceAddress work_ = 0;  // what compute() fills, and how often
  int fills_ = 0;
  std::vector<DeviceAddress> memory_;
  std::vector<void*> pinned_;
};

}  // namespace lanyard::api_test

#endif  // LANYARD_TESTS_GPU_API_H_
