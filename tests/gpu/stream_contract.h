// The contract of gpu/stream.h (S1 to S5) as a test suite. stream_contract.cc has the cases; each
// implementation's test instantiates them:
//
//   INSTANTIATE_TEST_SUITE_P(Host, StreamContract, ::testing::Values(StreamMaker{...}),
//                            maker_name);
//
// No test depends on timing: a forbidden event gets a moment to occur, a required
// event gets far longer than it ever takes.
#ifndef LANYARD_TESTS_STREAM_CONTRACT_H_
#define LANYARD_TESTS_STREAM_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/packing.h"
#include "gpu/stream.h"
#include "tests/support/expect.h"

namespace lanyard::stream_contract {

using gpu::Stream;
using gpu::StreamOp;
using Kind = StreamOp::Kind;

// Far longer than any correct operation takes, also under sanitizers.
inline constexpr std::chrono::seconds kBound{60};

// One implementation under test. Any thread may call its functions.
struct StreamLab {
  virtual ~StreamLab() = default;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // Enqueues a kernel that runs body() once. It may run on the host.
  virtual Status launch(Stream& stream, std::function<void()> body) = 0;
  // `count` zeroed words that streams and the host can use. The lab owns them.
  virtual uint64_t* make_words(size_t count) { return words_.emplace_back(std::make_unique<uint64_t[]>(count)).get(); }
  // `bytes` of memory that streams pack and unpack; the layout begins at `origin`. Also gives the
  // host access to it. Lives as long as the lab.
  virtual std::shared_ptr<gpu::Packing> make_packing(std::shared_ptr<const gpu::Layout> layout, size_t origin,
                                                     size_t bytes) {
    auto packing = std::make_shared<gpu::Packing>();
    packing->packed = {new std::byte[layout->bytes()], std::default_delete<std::byte[]>()};
    packing->layout = std::move(layout);
    packing->memory = memory_.emplace_back(std::make_unique<std::byte[]>(bytes)).get() + origin;
    return packing;
  }
  // A combination in such memory, with `bytes` for its result. Its parts have no addresses yet.
  virtual std::shared_ptr<gpu::Packing> make_combining(gpu::Combination combination, uint64_t stride, size_t bytes) {
    std::byte* const memory = memory_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
    return gpu::make_host_combining(std::move(combination), stride, memory).value();
  }
  virtual void put(std::byte* there, const std::vector<std::byte>& content) {
    std::copy(content.begin(), content.end(), there);
  }
  virtual std::vector<std::byte> get(const std::byte* there, size_t bytes) { return {there, there + bytes}; }

 private:
  std::vector<std::unique_ptr<uint64_t[]>> words_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

struct StreamMaker {
  std::string name;  // letters and digits
  // Returns null if this machine lacks the hardware or driver; the tests are then skipped.
  std::function<std::unique_ptr<StreamLab>()> make;
  // At least this many operations fit into a stream that a wait holds.
  size_t backlog = 256;
  // Whether both of two concurrent adds to a word count, one by the host and one by the stream.
  bool host_adds = true;
};

inline void PrintTo(const StreamMaker& maker, std::ostream* out) { *out << maker.name; }
inline std::string maker_name(const ::testing::TestParamInfo<StreamMaker>& info) { return info.param.name; }

// ---- Operations and host access to words

inline StreamOp write64(uint64_t* word, uint64_t value) {
  return {.kind = Kind::kWrite64, .word = word, .value = value};
}
inline StreamOp add64(uint64_t* word, uint64_t value) { return {.kind = Kind::kAdd64, .word = word, .value = value}; }
inline StreamOp wait64(uint64_t* word, uint64_t value) { return {.kind = Kind::kWait64, .word = word, .value = value}; }
// Calls (*body)(argument, value). `body` must outlive the call.
using CallBody = std::function<void(uint32_t argument, uint64_t value)>;
inline StreamOp call(CallBody* body, uint32_t argument, uint64_t value) {
  return {.kind = Kind::kCall,
          .value = value,
          .call = [](void* object, uint32_t a, uint64_t v) { (*static_cast<CallBody*>(object))(a, v); },
          .object = body,
          .argument = argument};
}

inline uint64_t load(uint64_t* word) { return std::atomic_ref(*word).load(std::memory_order_acquire); }
inline void store(uint64_t* word, uint64_t value) { std::atomic_ref(*word).store(value, std::memory_order_release); }

class StreamContract : public ::testing::TestWithParam<StreamMaker> {
 protected:
  void SetUp() override {
    lab_ = GetParam().make();
    if (lab_ == nullptr)
      GTEST_SKIP() << "this machine has no " << GetParam().name << " stream";
    stream_ = lab_->make_stream();
  }
  void TearDown() override { stream_.reset(); }

  Stream& stream() { return *stream_; }
  StreamLab& lab() { return *lab_; }
  std::unique_ptr<Stream> another_stream() { return lab_->make_stream(); }
  uint64_t* words(size_t count = 1) { return lab_->make_words(count); }

  // enqueue() and launch() retry while the stream is full, and poll between the attempts.
  void enqueue(Stream& stream, const std::vector<StreamOp>& ops) {
    patiently(stream, [&] { return stream.enqueue(ops); });
  }
  void enqueue(const std::vector<StreamOp>& ops) { enqueue(*stream_, ops); }
  void launch(const std::function<void()>& body) {
    patiently(*stream_, [&] { return lab_->launch(*stream_, body); });
  }

  // Polls all of `streams` until pred() holds.
  template <typename Predicate>
  [[nodiscard]] static bool eventually(const std::vector<Stream*>& streams, Predicate pred) {
    return lanyard::eventually(pred, [&] {
      for (Stream* stream : streams)
        stream->poll();
      std::this_thread::yield();
    });
  }
  [[nodiscard]] static bool runs_empty(Stream& stream) {
    return eventually({&stream}, [&] { return stream.poll(); });
  }
  [[nodiscard]] bool runs_empty() { return runs_empty(*stream_); }
  // Gives the stream time for a forbidden action. A correct stream passes whatever the time.
  static void settle(Stream& stream) {
    for (int turn = 0; turn < 10; ++turn) {
      for (int poll = 0; poll < 20; ++poll)
        EXPECT_FALSE(stream.poll());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Expects that the stream refuses the batch with `code` and runs no part of it. The batch's valid
  // operations would change `effects`.
  void refused(Code code, const std::vector<StreamOp>& ops, uint64_t* effects, const char* what) {
    const uint64_t before = load(effects);
    EXPECT_EQ(stream().enqueue(ops).code(), code) << what;
    bool later_ran = false;
    launch([&] { later_ran = true; });
    EXPECT_TRUE(runs_empty()) << what;
    EXPECT_TRUE(later_ran) << what;
    EXPECT_EQ(load(effects), before) << what << ": part of the refused batch ran";
  }

 private:
  template <typename Call>
  static void patiently(Stream& stream, Call call) {
    Status status;
    const bool taken = eventually({&stream}, [&] { return (status = call()).code() != Code::kAgain; });
    EXPECT_TRUE(taken && status.ok()) << status.to_string();
  }

  std::unique_ptr<StreamLab> lab_;
  std::unique_ptr<Stream> stream_;
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StreamContract);

}  // namespace lanyard::stream_contract

#endif  // LANYARD_TESTS_STREAM_CONTRACT_H_
