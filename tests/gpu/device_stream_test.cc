// DeviceStream over a fake driver on host threads: the contract of streams, and rules D1 to D3.
#include "gpu/device/device_stream.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "gpu/device/backend.h"
#include "tests/gpu/fake_driver.h"
#include "tests/gpu/stream_contract.h"

namespace lanyard::stream_contract {
namespace {

using gpu::Backend;
using gpu::DeviceStream;

// ---- The contract

struct FakeLab final : StreamLab {
  explicit FakeLab(const FakeDriver::Options& options, const gpu::DeviceOptions& of_devices = {}) {
    auto owned = std::make_unique<FakeDriver>(options);
    driver = owned.get();
    backend = std::move(Backend::make(std::move(owned), of_devices).value());
  }
  std::unique_ptr<Stream> make_stream() override {
    const gpu::StreamHandle handle = driver->make_program_stream();
    Result<std::unique_ptr<Stream>> stream = backend->make_stream(handle);
    const std::lock_guard lock(mutex);
    handles[stream.value().get()] = handle;
    return std::move(stream.value());
  }
  Status launch(Stream& stream, std::function<void()> body) override {
    driver->call_host(handle_of(stream), std::move(body));
    return {};
  }
  std::shared_ptr<gpu::Packing> make_packing(std::shared_ptr<const gpu::Layout> layout, size_t origin,
                                             size_t bytes) override {
    return backend->make_packing(std::move(layout), driver->make_memory(bytes) + origin, 0).value();
  }
  std::shared_ptr<gpu::Packing> make_combining(gpu::Combination combination, uint64_t stride, size_t bytes) override {
    return backend->make_combining(std::move(combination), stride, driver->make_memory(bytes), 0).value();
  }
  void put(std::byte* there, const std::vector<std::byte>& content) override {
    std::copy(content.begin(), content.end(), driver->at(there));
  }
  std::vector<std::byte> get(const std::byte* there, size_t bytes) override {
    return {driver->at(there), driver->at(there) + bytes};
  }
  gpu::StreamHandle handle_of(const Stream& stream) {
    const std::lock_guard lock(mutex);
    return handles.at(&stream);
  }

  FakeDriver* driver = nullptr;
  std::unique_ptr<Backend> backend;
  std::mutex mutex;
  std::map<const Stream*, gpu::StreamHandle> handles;
};

StreamMaker maker(const char* name, const FakeDriver::Options& options, const gpu::DeviceOptions& of_devices = {}) {
  return {.name = name, .make = [options, of_devices] { return std::make_unique<FakeLab>(options, of_devices); }};
}

INSTANTIATE_TEST_SUITE_P(Fake, StreamContract,
                         ::testing::Values(maker("LikeCuda", {}),
                                           maker("LikeCudaShared", {}, {.sharing = gpu::Sharing::kShared}),
                                           maker("LikeHip", {.has_memory_ops = false})),
                         maker_name);

// ---- Rules of DeviceStream

class DeviceStreamTest : public ::testing::Test {
 protected:
  void SetUp() override { stream_ = lab_.make_stream(); }
  void TearDown() override { stream_.reset(); }

  FakeDriver& driver() { return *lab_.driver; }
  Stream& stream() { return *stream_; }
  gpu::StreamHandle handle() { return lab_.handle_of(*stream_); }
  uint64_t* words(size_t count = 1) { return lab_.make_words(count); }
  uint64_t submissions(const char* what) { return driver().submissions(what); }
  StreamOp next(uint64_t* word, uint64_t* count) {
    StreamOp op{.kind = Kind::kWaitNext64, .word = word, .value = 1};
    op.count = count;
    return op;
  }
  static ::testing::AssertionResult enqueued(Stream& stream, const std::vector<StreamOp>& ops) {
    return works(stream.enqueue(ops));
  }
  static bool runs_empty(Stream& stream) {
    return eventually([&] { return stream.poll(); });
  }

  FakeLab lab_{FakeDriver::Options{}, {.sharing = gpu::Sharing::kShared}};  // its waits are memory operations
  std::unique_ptr<Stream> stream_;
};

TEST_F(DeviceStreamTest, ConsecutiveAddsAreOneKernel) {
  FakeLab lab{FakeDriver::Options{.has_memory_ops = false}};
  const auto stream_of_kernels = lab.make_stream();
  Stream& stream = *stream_of_kernels;
  const auto submissions = [&](const char* what) { return lab.driver->submissions(what); };
  uint64_t* const word = lab.make_words(100);
  const uint64_t before = submissions("ring");
  std::vector<StreamOp> ops;
  constexpr int kEntries = gpu::WordArguments::kEntries;
  for (int i = 0; i < kEntries; ++i)
    ops.push_back(add64(word + i, 1));
  for (int i = 0; i < kEntries; ++i)
    ops.push_back(add64(word + i, 2));
  ASSERT_TRUE(enqueued(stream, ops));
  EXPECT_EQ(submissions("ring"), before + 1);
  ops.push_back(add64(word + kEntries, 1));
  ASSERT_TRUE(enqueued(stream, ops));
  EXPECT_EQ(submissions("ring"), before + 3);
  ASSERT_TRUE(runs_empty(stream));
  for (int i = 0; i < kEntries; ++i)
    EXPECT_EQ(load(word + i), 6u);
  EXPECT_EQ(load(word + kEntries), 1u);
}

TEST_F(DeviceStreamTest, AStreamOfMetWaitsTakesNoOthers) {
  FakeLab lab({}, {.only_met_waits = true});
  const auto stream = lab.make_stream();
  uint64_t* const word = lab.make_words(3);
  const std::vector<StreamOp> batch{write64(word + 1, 1), wait64(word, 5), write64(word + 2, 1)};
  EXPECT_EQ(stream->enqueue(batch).code(), Code::kAgain);
  EXPECT_TRUE(runs_empty(*stream));
  EXPECT_EQ(load(word + 1), 0u) << "part of the refused batch ran";
  store(word, 5);
  ASSERT_TRUE(enqueued(*stream, batch));
  EXPECT_TRUE(runs_empty(*stream));
  EXPECT_EQ(load(word + 2), 1u);
  // A lost device is reported even while the stream waits.
  lab.driver->lose_device();
  EXPECT_FALSE(stream->poll());
  EXPECT_EQ(stream->enqueue(std::vector{wait64(word, 6)}).code(), Code::kFailed);
}

TEST_F(DeviceStreamTest, WritesAndWaitsAreRunsOfMemoryOperations) {
  uint64_t* const word = words(2);
  std::vector<StreamOp> ops;
  for (uint64_t i = 1; i <= 100; ++i) {
    ops.push_back(write64(word, i));
    ops.push_back(wait64(word, i));
  }
  ASSERT_TRUE(enqueued(stream(), ops));
  EXPECT_EQ(submissions("memory ops"), 1u);
  for (uint64_t i = 1; i <= 100; ++i)
    ops.push_back(write64(word, i));
  ASSERT_TRUE(enqueued(stream(), ops));
  EXPECT_EQ(submissions("memory ops"), 3u) << "a driver takes 255 memory operations at a time";
  ASSERT_TRUE(runs_empty(stream()));
  EXPECT_EQ(stream().executed(), 3u);
}

TEST_F(DeviceStreamTest, MoreWritesThanTwoAreOneKernel) {
  FakeLab lab{FakeDriver::Options{}};
  const auto made = lab.make_stream();
  Stream& alone = *made;
  const auto submissions = [&](const char* what) { return lab.driver->submissions(what); };
  uint64_t* const word = lab.make_words(20);
  const uint64_t before = submissions("store");
  ASSERT_TRUE(enqueued(alone, {write64(word, 1)}));
  ASSERT_TRUE(enqueued(alone, {write64(word, 1), write64(word + 1, 1)}));
  EXPECT_EQ(submissions("memory ops"), 2u);
  EXPECT_EQ(submissions("store"), before);
  ASSERT_TRUE(enqueued(alone, {write64(word, 2), write64(word + 1, 2), write64(word + 2, 2)}));
  EXPECT_EQ(submissions("store"), before + 1);
  // A repeated word, a wait, and more words than a kernel takes each begin a new submission.
  std::vector<StreamOp> ops = {write64(word, 3), write64(word, 4), wait64(word, 4)};
  for (int i = 0; i < 17; ++i)
    ops.push_back(write64(word + 2 + i, 5));
  ASSERT_TRUE(enqueued(alone, ops));
  EXPECT_EQ(submissions("memory ops"), 5u);
  EXPECT_EQ(submissions("store"), before + 2);
  ASSERT_TRUE(runs_empty(alone));
  EXPECT_EQ(load(word), 4u);
  EXPECT_EQ(load(word + 18), 5u);
  EXPECT_EQ(alone.executed(), 1u + 1u + 1u + 5u);
  // On a shared device a kernel would wait for its turn.
  ASSERT_TRUE(enqueued(stream(), {write64(words(), 1), write64(words(), 1), write64(words(), 1)}));
  EXPECT_EQ(this->submissions("memory ops"), 1u);
  ASSERT_TRUE(runs_empty(stream()));
}

// Only a driver's wait flushes writes that come from outside the GPU; a kernel's cannot.
TEST_F(DeviceStreamTest, WaitsAreMemoryOperationsWhereANicWritesDeviceMemory) {
  for (const bool nic_writes : {false, true}) {
    FakeLab lab({}, {.foreign_writes = nic_writes});
    const auto made = lab.make_stream();
    uint64_t* const word = lab.make_words(2);
    const uint64_t before = lab.driver->submissions("wait");
    ASSERT_TRUE(enqueued(*made, {wait64(word, 1), wait64(word + 1, 1)}));
    EXPECT_EQ(lab.driver->submissions("memory ops"), nic_writes ? 1u : 0u);
    EXPECT_EQ(lab.driver->submissions("wait"), before + (nic_writes ? 0 : 1));
    store(word, 1);
    EXPECT_FALSE(made->poll());
    store(word + 1, 1);
    EXPECT_TRUE(runs_empty(*made));
  }
}

TEST_F(DeviceStreamTest, ACountOfAnotherStreamIsRefused) {
  uint64_t* const word = words(2);
  for (const Kind kind : {Kind::kWaitNext64, Kind::kWriteNext64}) {
    StreamOp op = next(word, word + 1);
    op.kind = kind;
    EXPECT_EQ(stream().enqueue(std::vector{add64(word, 1), op}).code(), Code::kInvalidArgument);
  }
  EXPECT_TRUE(works(stream().health()));
  EXPECT_TRUE(runs_empty(stream()));
  EXPECT_EQ(load(word), 0u);
}

TEST_F(DeviceStreamTest, CountsAreDeviceMemory) {
  uint64_t* const count = stream().take_count(41).value();
  EXPECT_EQ(lab_.backend->memory().device_of(count, 8).value(), 0);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(driver().at(count)), 41u);
  // A kernel waits for a word in device memory, so that halt() can release the wait.
  ASSERT_TRUE(enqueued(stream(), {add64(count, 1), wait64(count, 42), wait64(count, 50)}));
  EXPECT_TRUE(eventually([&] { return stream().executed() == 1 || !stream().poll(); }));
  EXPECT_EQ(submissions("memory ops"), 0u);
  stream().halt();
  EXPECT_TRUE(stream().poll());
}

// ---- D1

TEST_F(DeviceStreamTest, D1AgainBeforeTheLaunchQueueIsFull) {
  uint64_t* const gate = words();
  uint64_t* const sum = words();
  ASSERT_TRUE(enqueued(stream(), {wait64(gate, 1)}));
  uint64_t taken = 0;
  Status status;
  while ((status = stream().enqueue(std::vector{add64(sum, 1)})).ok())
    ++taken;
  EXPECT_EQ(status.code(), Code::kAgain);
  EXPECT_EQ(taken, DeviceStream::kMaxOutstanding - 1);
  store(gate, 1);
  ASSERT_TRUE(runs_empty(stream()));
  EXPECT_EQ(load(sum), taken);
  EXPECT_TRUE(enqueued(stream(), {add64(sum, 1)}));
  EXPECT_TRUE(runs_empty(stream()));
}

TEST_F(DeviceStreamTest, D1ABatchThatNeverFitsIsRefused) {
  uint64_t* const word = words(2);
  std::vector<StreamOp> ops;
  for (int i = 0; i < 500; ++i) {
    ops.push_back(add64(word, 1));
    ops.push_back(wait64(word + 1, 0));
  }
  EXPECT_EQ(stream().enqueue(ops).code(), Code::kExhausted);
  EXPECT_EQ(stream().enqueue(std::vector(5000, wait64(word, 0))).code(), Code::kExhausted);
  EXPECT_TRUE(runs_empty(stream()));
  EXPECT_EQ(load(word), 0u);
}

TEST_F(DeviceStreamTest, D1TooManyWaits) {
  uint64_t* const word = words(2);
  const std::vector<StreamOp> waits(1000, wait64(word, 1));
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(enqueued(stream(), waits));
  EXPECT_EQ(stream().enqueue(waits).code(), Code::kAgain);
  store(word, 1);
  EXPECT_TRUE(eventually([&] { return stream().enqueue(waits).ok(); }));
  EXPECT_TRUE(runs_empty(stream()));
}

// ---- D2

TEST_F(DeviceStreamTest, D2HaltLetsEveryWaitPass) {
  uint64_t* const word = words(8);
  uint64_t* const count = stream().take_count(7).value();
  ASSERT_TRUE(enqueued(stream(), {wait64(word, 3), next(word + 1, count), wait64(word + 2, 9), write64(word + 3, 1)}));
  EXPECT_FALSE(stream().poll());
  stream().halt();
  EXPECT_TRUE(stream().poll());
  EXPECT_EQ(load(word), 3u);
  EXPECT_EQ(load(word + 2), 9u);
  EXPECT_EQ(load(word + 3), 1u);
  EXPECT_EQ(stream().enqueue(std::vector{write64(word, 1)}).code(), Code::kInvalidState);
}

TEST_F(DeviceStreamTest, D2HaltLeavesWordsOfMetWaitsAlone) {
  uint64_t* const word = words(2);
  store(word, 5);
  ASSERT_TRUE(enqueued(stream(), {wait64(word, 5)}));
  ASSERT_TRUE(runs_empty(stream()));
  store(word, 1);  // as the word's next owner might
  stream().halt();
  EXPECT_EQ(load(word), 1u);
}

// ---- Capture (S3)

TEST_F(DeviceStreamTest, WhatIsCapturedRunsWithEachReplay) {
  uint64_t* const word = words(5);
  uint64_t* const count = stream().take_count(0).value();
  EXPECT_EQ(stream().capturing(), 0u);
  driver().begin_capture(handle());
  const uint64_t capture = stream().capturing();
  EXPECT_NE(capture, 0u);
  uint64_t* const sum = stream().take_count(100).value();
  StreamOp ring = next(word + 4, sum);
  ring.kind = Kind::kWriteNext64;
  EXPECT_TRUE(
      enqueued(stream(), {add64(word, 1), next(word + 1, count), write64(word + 2, 7), ring, add64(word + 3, 1)}));
  EXPECT_TRUE(stream().poll()) << "nothing to run is enqueued; a query of the driver would void the capture";
  const std::optional<FakeDriver::Graph> graph = driver().end_capture(handle());
  ASSERT_TRUE(graph.has_value());
  EXPECT_EQ(submissions("memory ops"), 0u);
  EXPECT_EQ(load(word), 0u);
  for (uint64_t round = 1; round <= 5; ++round) {
    driver().replay(*graph, handle());
    ASSERT_TRUE(eventually([&] { return load(word) == round; }));
    EXPECT_FALSE(stream().poll());
    EXPECT_EQ(load(word + 3), round - 1);
    store(word + 1, round);
    ASSERT_TRUE(runs_empty(stream()));
    EXPECT_EQ(load(word + 2), 7u);
    EXPECT_EQ(load(word + 3), round);
    EXPECT_EQ(load(word + 4), 100 + round);
  }
  driver().begin_capture(handle());
  EXPECT_NE(stream().capturing(), capture);
  EXPECT_TRUE(driver().end_capture(handle()).has_value());
}

TEST_F(DeviceStreamTest, AWaitForAValueIsNotCaptured) {
  uint64_t* const word = words();
  driver().begin_capture(handle());
  EXPECT_EQ(stream().enqueue(std::vector{add64(word, 1), wait64(word, 1)}).code(), Code::kUnsupported);
  const std::optional<FakeDriver::Graph> graph = driver().end_capture(handle());
  ASSERT_TRUE(graph.has_value());
  EXPECT_TRUE(graph->empty());
}

TEST_F(DeviceStreamTest, AnInvalidCaptureIsReported) {
  uint64_t* const word = words();
  driver().begin_capture(handle());
  EXPECT_FALSE(driver().is_empty(handle()).ok());
  EXPECT_EQ(stream().enqueue(std::vector{add64(word, 1)}).code(), Code::kInvalidState);
  EXPECT_FALSE(driver().end_capture(handle()).has_value());
  EXPECT_TRUE(enqueued(stream(), {add64(word, 1)})) << "the void capture must not fail the stream";
  EXPECT_TRUE(runs_empty(stream()));
}

TEST_F(DeviceStreamTest, D3AGraphOutlivesTheStream) {
  uint64_t* const word = words(2);
  uint64_t* const count = stream().take_count(0).value();
  driver().begin_capture(handle());
  ASSERT_TRUE(enqueued(stream(), {next(word, count), add64(word + 1, 1)}));
  const std::optional<FakeDriver::Graph> graph = driver().end_capture(handle());
  const gpu::StreamHandle program_stream = handle();
  stream_.reset();
  // The next stream must not reuse, and halt, the word that the graph's waits read.
  const std::unique_ptr<Stream> other = lab_.make_stream();
  other->halt();
  driver().replay(*graph, program_stream);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(load(word + 1), 0u);
  }
  store(word, 1);
  EXPECT_TRUE(eventually([&] { return load(word + 1) == 1; }));
}

// ---- Failures

// Nobody knows which part of the batch will run, so the stream fails. Captured or not.
TEST_F(DeviceStreamTest, ABatchRefusedHalfWayFailsTheStream) {
  for (const bool captured : {false, true}) {
    FakeLab lab({}, {});
    const auto made = lab.make_stream();
    uint64_t* const word = lab.make_words(2);
    uint64_t* const count = made->take_count(0).value();
    if (captured)
      lab.driver->begin_capture(lab.handle_of(*made));
    lab.driver->refuse_launches_after(1);
    const Status status = made->enqueue(std::vector{add64(word, 1), next(word + 1, count)});
    EXPECT_EQ(status.code(), Code::kFailed);
    EXPECT_TRUE(has(status, "half-way"));
    if (captured)
      (void)lab.driver->end_capture(lab.handle_of(*made));
    lab.driver->refuse_launches_after(1 << 30);
    EXPECT_EQ(made->health().code(), Code::kFailed);
    EXPECT_EQ(made->enqueue(std::vector{add64(word, 1)}).code(), Code::kFailed);
  }
}

TEST_F(DeviceStreamTest, ALostDeviceIsReported) {
  uint64_t* const word = words();
  ASSERT_TRUE(enqueued(stream(), {wait64(word, 1)}));
  EXPECT_TRUE(works(stream().health()));
  driver().lose_device();
  EXPECT_FALSE(stream().poll());
  EXPECT_EQ(stream().health().code(), Code::kFailed);
  EXPECT_TRUE(has(stream().health(), "illegal address"));
  EXPECT_EQ(stream().enqueue(std::vector{add64(word, 1)}).code(), Code::kFailed);
  EXPECT_EQ(lab_.backend->make_stream(handle()).status().code(), Code::kFailed);
  stream().halt();  // must not wait for lost work
}

TEST_F(DeviceStreamTest, AStreamThatIsDestroyedIsRefused) {
  const gpu::StreamHandle destroyed = driver().make_program_stream();
  driver().destroy_stream(destroyed);
  EXPECT_EQ(lab_.backend->make_stream(destroyed).status().code(), Code::kInvalidArgument);
  driver().destroy_stream(handle());
  EXPECT_FALSE(stream().poll());
  EXPECT_EQ(stream().health().code(), Code::kFailed);
}

TEST_F(DeviceStreamTest, WordsThatCannotBeRegisteredRefuseTheBatch) {
  uint64_t* const good = words();
  ASSERT_TRUE(enqueued(stream(), {add64(good, 1)}));
  const std::unique_ptr<std::byte[]> far(new std::byte[1 << 20]());
  uint64_t* const bad = reinterpret_cast<uint64_t*>(far.get() + (1 << 19));
  driver().refuse_registration(true);
  const Status status = stream().enqueue(std::vector{add64(good, 1), add64(bad, 1)});
  EXPECT_EQ(status.code(), Code::kUnsupported) << status.to_string();
  ASSERT_TRUE(runs_empty(stream()));
  EXPECT_EQ(load(good), 1u);
  driver().refuse_registration(false);
  EXPECT_TRUE(enqueued(stream(), {add64(bad, 1)}));
  EXPECT_TRUE(runs_empty(stream()));
  EXPECT_EQ(load(bad), 1u);
  lab_.backend->forget_words();
}

// Work left on the program's stream still writes the words of the deleted stream (D3).
TEST_F(DeviceStreamTest, WordsOfAStreamWithWorkLeftAreNotReused) {
  uint64_t* const word = words(2);
  std::unique_ptr<Stream> gone = lab_.make_stream();
  const gpu::StreamHandle left = lab_.handle_of(*gone);
  ASSERT_TRUE(enqueued(*gone, {wait64(word, 1), add64(word + 1, 1)}));
  gone.reset();
  const std::unique_ptr<Stream> next = lab_.make_stream();
  std::atomic_ref(*word).store(1);
  ASSERT_TRUE(eventually([&] { return driver().is_empty(left).value(); }));
  EXPECT_EQ(load(word + 1), 1u);
  EXPECT_EQ(next->executed(), 0u) << "nothing was enqueued on the new stream";
}

// ---- Pages

TEST_F(DeviceStreamTest, PagesAreRegisteredOnceForAllStreams) {
  constexpr size_t kPage = 4096;
  std::byte* const memory = static_cast<std::byte*>(std::aligned_alloc(kPage, 3 * kPage));
  uint64_t* const word = reinterpret_cast<uint64_t*>(memory);
  std::fill(word, word + 3 * kPage / 8, 0);
  const std::unique_ptr<Stream> other = lab_.make_stream();
  const uint64_t before = driver().registered_ranges();
  ASSERT_TRUE(enqueued(stream(), {add64(word, 1), add64(word + 511, 1)}));
  EXPECT_EQ(driver().registered_ranges(), before + 1);
  ASSERT_TRUE(enqueued(*other, {add64(word + 1, 1), add64(word + 1024, 1)}));
  EXPECT_EQ(driver().registered_ranges(), before + 2);
  ASSERT_TRUE(runs_empty(stream()) && runs_empty(*other));
  lab_.backend->forget_words();
  EXPECT_EQ(driver().registered_ranges(), before) << "a range behind an unregistered page stays registered";
  ASSERT_TRUE(enqueued(stream(), {add64(word, 1)}));
  EXPECT_EQ(driver().registered_ranges(), before + 1);
  ASSERT_TRUE(runs_empty(stream()));
  lab_.backend->forget_words();
  EXPECT_EQ(driver().registered_ranges(), before);
  EXPECT_EQ(load(word), 2u);
  EXPECT_EQ(load(word + 1024), 1u);
  std::free(memory);
}

TEST_F(DeviceStreamTest, StreamsUseTheirOwnDevice) {
  FakeLab two({.devices = 2});
  const gpu::StreamHandle second = two.driver->make_program_stream(1);
  const std::unique_ptr<Stream> on_second = std::move(two.backend->make_stream(second).value());
  const std::unique_ptr<Stream> on_first = two.make_stream();
  uint64_t* const word = two.make_words(1);
  ASSERT_TRUE(enqueued(*on_first, {wait64(word, 1), add64(word, 1)}));
  ASSERT_TRUE(enqueued(*on_second, {write64(word, 1)}));
  EXPECT_TRUE(runs_empty(*on_first) && runs_empty(*on_second));
  EXPECT_EQ(load(word), 2u);
  uint64_t* const count = on_second->take_count(0).value();
  EXPECT_EQ(two.backend->memory().device_of(count, 8).value(), 1);
  on_second->give_count(count);
}

}  // namespace
}  // namespace lanyard::stream_contract
