#include "tests/gpu/stream_contract.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

namespace lanyard::stream_contract {
namespace {

// ---- Order

TEST_P(StreamContract, ANewStreamIsEmpty) {
  EXPECT_TRUE(stream().poll());
  EXPECT_TRUE(works(stream().enqueue({})));
  EXPECT_TRUE(runs_empty());
}

TEST_P(StreamContract, OperationsRunInTheOrderOfEnqueuing) {
  uint64_t* const word = words();
  std::vector<uint64_t> seen;
  for (uint64_t i = 1; i <= 200; ++i) {
    enqueue({write64(word, 7 * i), add64(word, i)});
    launch([&seen, word] { seen.push_back(load(word)); });
  }
  ASSERT_TRUE(runs_empty());
  ASSERT_EQ(seen.size(), 200u);
  for (uint64_t i = 1; i <= 200; ++i)
    EXPECT_EQ(seen[i - 1], 8 * i);
}

// More writes than one kernel takes. Of two writes to one word the later one wins.
TEST_P(StreamContract, AllWritesOfABatchAreMade) {
  constexpr uint64_t kWords = 40;
  uint64_t* const word = words(kWords);
  for (uint64_t round = 1; round <= 20; ++round) {
    std::vector<StreamOp> writes;
    for (uint64_t i = 0; i < kWords; ++i) {
      writes.push_back(write64(word + i, round * 100 + i));
      if (i % 7 == 3)
        writes.push_back(write64(word + i, round * 100 + 50 + i));
    }
    enqueue(writes);
    std::vector<uint64_t> seen;
    launch([&] { seen.assign(word, word + kWords); });
    ASSERT_TRUE(runs_empty());
    for (uint64_t i = 0; i < kWords; ++i)
      ASSERT_EQ(seen[i], round * 100 + (i % 7 == 3 ? 50 : 0) + i) << i;
  }
}

TEST_P(StreamContract, CallsRunInOrderWithTheirArguments) {
  CallBody body;
  if (!stream().can_call()) {
    uint64_t* const word = words();
    refused(Code::kUnsupported, {write64(word, 1), call(&body, 0, 0)}, word, "kCall");
    return;
  }
  std::vector<std::pair<uint32_t, uint64_t>> calls;
  body = [&](uint32_t argument, uint64_t value) { calls.emplace_back(argument, value); };
  std::vector<size_t> calls_before_kernel;
  for (uint32_t i = 0; i < 100; ++i) {
    enqueue({call(&body, i, ~uint64_t{i})});
    launch([&] { calls_before_kernel.push_back(calls.size()); });
  }
  ASSERT_TRUE(runs_empty());
  ASSERT_EQ(calls.size(), 100u);
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(calls[i], std::pair(i, ~uint64_t{i}));
    EXPECT_EQ(calls_before_kernel[i], i + 1);
  }
}

TEST_P(StreamContract, StreamsRunIndependently) {
  uint64_t* const gate = words();
  uint64_t* const done = words();
  const std::unique_ptr<Stream> other = another_stream();
  enqueue({wait64(gate, 1), add64(done, 1)});
  enqueue(*other, {add64(done, 1)});
  ASSERT_TRUE(runs_empty(*other));
  EXPECT_EQ(load(done), 1u);
  EXPECT_FALSE(stream().poll());
  enqueue(*other, {write64(gate, 1)});
  ASSERT_TRUE(runs_empty(*other));
  ASSERT_TRUE(runs_empty());
  EXPECT_EQ(load(done), 2u);
}

// ---- Waits (S1)

TEST_P(StreamContract, AWaitHoldsUntilTheWordIsReached) {
  uint64_t* const word = words();
  uint64_t* const done = words();
  enqueue({write64(done, 1), wait64(word, 3), write64(done, 2)});
  for (uint64_t value = 0; value < 3; ++value) {
    store(word, value);
    settle(stream());
    EXPECT_EQ(load(done), 1u) << "the wait passed at value " << value;
  }
  store(word, 3);
  ASSERT_TRUE(runs_empty());
  EXPECT_EQ(load(done), 2u);
}

TEST_P(StreamContract, AWaitPassesWhenTheWordJumpsBeyondIt) {
  uint64_t* const word = words();
  uint64_t* const done = words();
  enqueue({wait64(word, 2), wait64(word, uint64_t{1} << 33), write64(done, 1)});
  store(word, (uint64_t{1} << 33) - 1);  // its low bits exceed those of the second threshold
  settle(stream());
  EXPECT_EQ(load(done), 0u);
  store(word, uint64_t{1} << 62);
  ASSERT_TRUE(runs_empty());
  EXPECT_EQ(load(done), 1u);
}

TEST_P(StreamContract, WritesBeforeTheFlagAreVisibleAfterTheWait) {
  constexpr uint64_t kRounds = 500;
  uint64_t* const flag = words();
  uint64_t* const consumed = words();
  uint64_t payload[16] = {};  // plain memory: the thread sanitizer checks the order too
  uint64_t wrong = 0;
  std::thread producer([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      while (load(consumed) < round - 1)
        std::this_thread::yield();
      std::fill(std::begin(payload), std::end(payload), round);
      store(flag, round);
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    enqueue({wait64(flag, round)});
    launch([&, round] {
      for (uint64_t value : payload)
        wrong += value != round;
    });
    enqueue({write64(consumed, round)});
  }
  EXPECT_TRUE(runs_empty());
  producer.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_P(StreamContract, ACountingWaitNeedsOneMoreEachTime) {
  Result<uint64_t*> count = stream().take_count(10);
  if (count.status().code() == Code::kUnsupported)
    GTEST_SKIP() << "this stream has no counts";
  ASSERT_TRUE(works(count.status()));
  uint64_t* const word = words(2);
  uint64_t* const passed = word + 1;
  StreamOp next{.kind = Kind::kWaitNext64, .word = word, .value = 1};
  next.count = count.value();
  store(word, 10);
  enqueue({next, add64(passed, 1), next, next, add64(passed, 1)});
  constexpr uint64_t kPassed[] = {0, 1, 1, 2};
  for (uint64_t round = 0; round < 3; ++round) {
    settle(stream());
    EXPECT_EQ(load(passed), kPassed[round]);
    store(word, 11 + round);
    EXPECT_TRUE(eventually({&stream()}, [&] { return load(passed) == kPassed[round + 1]; }));
  }
  EXPECT_TRUE(runs_empty());
  stream().give_count(count.value());
}

TEST_P(StreamContract, ACountingWriteWritesOneMoreEachTime) {
  Result<uint64_t*> counts[] = {stream().take_count(10), stream().take_count(0)};
  if (counts[0].status().code() == Code::kUnsupported)
    GTEST_SKIP() << "this stream has no counts";
  uint64_t* const word = words(4);
  StreamOp next[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(works(counts[i].status()));
    next[i] = {.kind = Kind::kWriteNext64, .word = word + i, .value = 1 + 2 * static_cast<uint64_t>(i)};
    next[i].count = counts[i].value();
  }
  // In two batches, in one batch, and twice in one batch.
  enqueue({next[0]});
  enqueue({next[1]});
  enqueue({next[0], next[1]});
  ASSERT_TRUE(runs_empty());
  EXPECT_EQ(load(word), 12u);
  EXPECT_EQ(load(word + 1), 6u);
  StreamOp other_word = next[0];
  other_word.word = word + 3;
  enqueue({next[0], other_word});
  ASSERT_TRUE(runs_empty());
  EXPECT_EQ(load(word), 13u);
  EXPECT_EQ(load(word + 3), 14u);
  for (int i = 0; i < 100; ++i)
    enqueue({next[0], next[1], next[1], next[0], add64(word + 2, 1)});
  ASSERT_TRUE(runs_empty());
  EXPECT_EQ(load(word), 214u);
  EXPECT_EQ(load(word + 1), 606u);
  EXPECT_EQ(load(word + 2), 100u);
  for (auto& count : counts)
    stream().give_count(count.value());
}

// ---- Writes, adds and calls (S2)

TEST_P(StreamContract, WritesOfKernelsAreVisibleAfterTheFlag) {
  constexpr uint64_t kRounds = 500;
  uint64_t* const flag = words();
  uint64_t* const consumed = words();
  uint64_t payload[16] = {};
  uint64_t wrong = 0;
  std::thread consumer([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      while (load(flag) < round)
        std::this_thread::yield();
      for (uint64_t value : payload)
        wrong += value != round;
      store(consumed, round);
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    enqueue({wait64(consumed, round - 1)});
    launch([&, round] { std::fill(std::begin(payload), std::end(payload), round); });
    enqueue({round % 2 == 0 ? write64(flag, round) : add64(flag, 1)});
  }
  EXPECT_TRUE(runs_empty());
  consumer.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_P(StreamContract, AddsOfTwoStreamsAndTheHostAreAllCounted) {
  constexpr uint64_t kAdds = 5000;
  uint64_t* const sum = words();
  const std::unique_ptr<Stream> other = another_stream();
  const auto add_through = [&](Stream& stream, uint64_t amount) {
    for (uint64_t i = 0; i < kAdds; i += 50)
      enqueue(stream, std::vector<StreamOp>(50, add64(sum, amount)));
    EXPECT_TRUE(runs_empty(stream));
  };
  std::thread first([&] { add_through(stream(), 1); });
  std::thread second([&] { add_through(*other, 1'000'000); });
  const uint64_t host_amount = GetParam().host_adds ? 1'000'000'000'000 : 0;
  for (uint64_t i = 0; i < kAdds && host_amount != 0; ++i)
    std::atomic_ref(*sum).fetch_add(host_amount);
  first.join();
  second.join();
  EXPECT_EQ(load(sum), kAdds * (1'000'001 + host_amount));
}

TEST_P(StreamContract, TwoStreamsPassATokenBackAndForth) {
  constexpr uint64_t kRounds = 300;
  uint64_t* const ping = words();
  uint64_t* const pong = words();
  const std::unique_ptr<Stream> other = another_stream();
  for (uint64_t round = 1; round <= kRounds; ++round) {
    enqueue({wait64(pong, round - 1), write64(ping, round)});
    enqueue(*other, {wait64(ping, round), add64(pong, 1)});
  }
  EXPECT_TRUE(eventually({&stream(), other.get()}, [&] { return stream().poll() && other->poll(); }));
  EXPECT_EQ(load(pong), kRounds);
}

// ---- Packing (S5)

StreamOp pack(const gpu::Packing& packing, uint64_t bytes, Kind kind = Kind::kPack) {
  return {.kind = kind, .value = bytes, .object = const_cast<gpu::Packing*>(&packing)};
}

std::vector<std::byte> some_bytes(size_t count, uint32_t seed) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>((seed = seed * 1664525 + 1013904223) >> 24);
  return bytes;
}

inline gpu::Shape run_at(int64_t offset, uint64_t length) {
  gpu::Shape run;
  run.offset = offset;
  run.length = length;
  return run;
}

// Columns of 4, 8 and 16 bytes, rows of 7, planes, and blocks in any order, also before the origin.
inline std::vector<gpu::Shape> some_shapes() {
  std::vector<gpu::Shape> blocks;
  for (const auto& [offset, length] : {std::pair(40, 3), {-17, 5}, {0, 1}, {100, 32}, {60, 12}, {90, 2}})
    append(blocks, run_at(offset, static_cast<uint64_t>(length)), 0);
  std::vector<gpu::Shape> even;
  append(even, repeat(run_at(16, 8), 5, 24), 0);
  append(even, run_at(-64, 16), 0);
  return {repeat(run_at(0, 4), 1000, 12),
          repeat(run_at(8, 8), 30'000, 16),
          repeat(run_at(0, 16), 100, -48),
          repeat(run_at(3, 7), 50, 11),
          repeat(repeat(repeat(run_at(0, 12), 5, 20), 4, 160), 3, 1024),
          repeat(sequence(blocks), 20, 200),
          repeat(sequence(even), 20, 256)};
}

TEST_P(StreamContract, PacksAndUnpacksExactlyTheLayout) {
  for (const gpu::Shape& shape : some_shapes()) {
    const auto layout = std::make_shared<const gpu::Layout>(shape);
    constexpr size_t kAround = 128;
    const auto origin = kAround + static_cast<size_t>(std::max<int64_t>(0, -layout->lowest())) / 16 * 16 + 16;
    const size_t bytes = origin + static_cast<size_t>(std::max<int64_t>(0, layout->highest())) + kAround;
    const std::shared_ptr<gpu::Packing> packing = lab().make_packing(layout, origin, bytes);
    ASSERT_NE(packing, nullptr);
    std::byte* const memory = static_cast<std::byte*>(packing->memory) - origin;
    std::vector<std::byte> content = some_bytes(bytes, 1);
    lab().put(memory, content);
    enqueue({pack(*packing, layout->bytes())});
    ASSERT_TRUE(runs_empty());
    std::vector<std::byte> packed(layout->bytes());
    layout->pack(content.data() + origin, packed.data(), packed.size());
    EXPECT_EQ(lab().get(packing->packed.get(), packed.size()), packed);
    EXPECT_EQ(lab().get(memory, bytes), content);
    // Unpack a part.
    for (const size_t part : {packed.size(), packed.size() - 1, packed.size() / 2, size_t{0}}) {
      packed = some_bytes(packed.size(), static_cast<uint32_t>(part));
      lab().put(packing->packed.get(), packed);
      layout->unpack(packed.data(), content.data() + origin, part);
      enqueue({pack(*packing, part, Kind::kUnpack)});
      ASSERT_TRUE(runs_empty());
      EXPECT_EQ(lab().get(memory, bytes), content) << part;
    }
  }
}

TEST_P(StreamContract, PacksInStreamOrder) {
  const auto layout = std::make_shared<const gpu::Layout>(repeat(run_at(0, 4), 8, 8));
  const std::shared_ptr<gpu::Packing> packing = lab().make_packing(layout, 0, 64);
  ASSERT_NE(packing, nullptr);
  std::byte* const memory = static_cast<std::byte*>(packing->memory);
  uint64_t* const gate = words();
  uint64_t* const flag = words();
  enqueue({wait64(gate, 1), pack(*packing, 32), write64(flag, 1)});
  const std::vector<std::byte> content = some_bytes(64, 7);
  lab().put(memory, content);
  EXPECT_EQ(load(flag), 0u);
  store(gate, 1);
  ASSERT_TRUE(runs_empty());
  EXPECT_EQ(load(flag), 1u);
  std::vector<std::byte> packed(32);
  layout->pack(content.data(), packed.data(), 32);
  EXPECT_EQ(lab().get(packing->packed.get(), 32), packed);
}

TEST_P(StreamContract, RefusesToPackMemoryOfAnotherDevice) {
  const auto layout = std::make_shared<const gpu::Layout>(repeat(run_at(0, 4), 8, 8));
  const std::shared_ptr<gpu::Packing> packing = lab().make_packing(layout, 0, 64);
  ASSERT_NE(packing, nullptr);
  uint64_t* const count = words();
  gpu::Packing elsewhere = *packing;
  elsewhere.device += 7;
  EXPECT_TRUE(works(stream().can_pack(*packing)));
  EXPECT_EQ(stream().can_pack(elsewhere).code(), Code::kUnsupported);
  refused(Code::kUnsupported, {add64(count, 1), pack(elsewhere, 32)}, count, "packing memory of another device");
  StreamOp nothing;
  nothing.kind = Kind::kUnpack;
  refused(Code::kInvalidArgument, {add64(count, 1), nothing}, count, "no packing");
}

// ---- Combining (S6)

// Writes a random element. No NaN: its bits differ between machines.
inline void put_element(gpu::Element element, std::byte* there, std::mt19937& random) {
  using gpu::Element;
  const auto set = [&there](auto value) {
    std::memcpy(there, &value, sizeof value);
    there += sizeof value;
  };
  // Small enough that products of several stay finite, and few enough that some are equal.
  const auto number = [&random] { return static_cast<double>(random() % 4001) / 500 - 4; };
  const auto pair = [&](auto value) {
    std::byte* const index = there + std::max(sizeof value, sizeof(int32_t));
    set(value);
    there = index;
    set(static_cast<int32_t>(random() % 100));
  };
  switch (element) {
    case Element::kFloat: return set(static_cast<float>(number()));
    case Element::kDouble: return set(number());
    case Element::kFloatComplex:
    case Element::kFloatFloat: return set(std::array{static_cast<float>(number()), static_cast<float>(number())});
    case Element::kDoubleComplex:
    case Element::kDoubleDouble: return set(std::array{number(), number()});
    case Element::kBool: return set(random() % 2 == 0);
    case Element::kFloatInt32: return pair(static_cast<float>(number()));
    case Element::kDoubleInt32: return pair(number());
    case Element::kInt16Int32: return pair(static_cast<int16_t>(random() % 5));
    case Element::kInt32Int32: return pair(static_cast<int32_t>(random() % 5));
    case Element::kInt64Int32: return pair(static_cast<int64_t>(random() % 5));
    default:
      for (size_t i = 0; i < gpu::size_of(element); ++i)
        set(static_cast<uint8_t>(random()));
  }
}

// Clears the padding between a value and its index, and after them.
inline std::vector<std::byte> compared(gpu::Element element, std::vector<std::byte> bytes) {
  const size_t size = gpu::size_of(element);
  const auto clear = [&](size_t first, size_t count) {
    for (size_t i = 0; i < bytes.size(); i += size)
      std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(i + first), count, std::byte{0});
  };
  if (element == gpu::Element::kDoubleInt32 || element == gpu::Element::kInt64Int32)
    clear(12, 4);
  if (element == gpu::Element::kInt16Int32)
    clear(2, 2);
  return bytes;
}

// Every operation on every element that devices support gives the same bits as the host, each time
// it is enqueued, into separate memory or over a part.
TEST_P(StreamContract, CombinesToTheSameBitsEverywhere) {
  constexpr uint64_t kCount = 700, kStride = (kCount * 16 + 63) / 64 * 64;
  std::mt19937 random(5);
  int combinations = 0;
  for (uint32_t which = 0; which <= static_cast<uint32_t>(gpu::Element::kDoubleDouble); ++which) {
    const auto element = static_cast<gpu::Element>(which);
    const size_t bytes = kCount * gpu::size_of(element);
    for (uint32_t op = 0; op <= static_cast<uint32_t>(gpu::Operation::kMinLocation); ++op) {
      const auto operation = static_cast<gpu::Operation>(op);
      if (!gpu::is_defined(operation, element))
        continue;
      ++combinations;
      const uint64_t part_count = 2 + random() % 4;
      const auto packing = lab().make_combining(
          {.element = element, .operation = operation, .count = kCount, .parts = std::vector<uint64_t>(part_count)},
          kStride, bytes);
      ASSERT_NE(packing, nullptr);
      gpu::Combination here = *packing->combination;
      std::vector<std::vector<std::byte>> parts;
      for (uint64_t& part : here.parts) {
        std::vector<std::byte>& content = parts.emplace_back(bytes);
        for (size_t i = 0; i < kCount; ++i)
          put_element(element, content.data() + i * gpu::size_of(element), random);
        lab().put(reinterpret_cast<std::byte*>(part), content);
        part = reinterpret_cast<uint64_t>(content.data());
      }
      std::vector<std::byte> expected(bytes);
      lab().put(static_cast<std::byte*>(packing->memory), expected);
      enqueue({pack(*packing, bytes, Kind::kUnpack)});
      ASSERT_TRUE(runs_empty());
      here.run(expected.data());
      ASSERT_EQ(compared(element, lab().get(static_cast<std::byte*>(packing->memory), bytes)),
                compared(element, expected))
          << "element " << which << ", operation " << op;
    }
  }
  // 8 kinds of integers with 10 operations, 2 of reals with 4, 2 of complex numbers with 2, truth
  // with 3, 7 pairs with 2.
  EXPECT_EQ(combinations, 8 * 10 + 2 * 4 + 2 * 2 + 3 + 7 * 2);
}

// ---- Enqueuing (S4)

TEST_P(StreamContract, ABadOperationRefusesItsWholeBatch) {
  uint64_t* const word = words(2);
  uint64_t* const misaligned = reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(word) + 4);
  std::vector<std::pair<const char*, StreamOp>> bad;
  for (const auto make : {write64, add64, wait64}) {
    bad.emplace_back("a null word", make(nullptr, 1));
    bad.emplace_back("a misaligned word", make(misaligned, 1));
  }
  if (stream().can_call())
    bad.emplace_back("a null call", StreamOp{.kind = Kind::kCall});
  for (const auto& [what, op] : bad) {
    refused(Code::kInvalidArgument, {op}, word, what);
    refused(Code::kInvalidArgument, {op, add64(word, 1)}, word, what);
    refused(Code::kInvalidArgument, {add64(word, 1), op, add64(word, 1)}, word, what);
    refused(Code::kInvalidArgument, {add64(word, 1), add64(word, 1), op}, word, what);
  }
  const StreamOp unknown{.kind = static_cast<Kind>(250), .word = word, .value = 1};
  refused(Code::kUnsupported, {add64(word, 1), unknown}, word, "an unknown kind");
}

TEST_P(StreamContract, SeveralProducersKeepTheirOrder) {
  constexpr size_t kProducers = 4;
  constexpr uint64_t kEach = 500;
  std::vector<std::vector<uint64_t>> seen(kProducers);
  std::vector<std::thread> producers;
  for (size_t id = 0; id < kProducers; ++id) {
    producers.emplace_back([&, id] {
      for (uint64_t i = 0; i < kEach; ++i)
        launch([&seen, id, i] { seen[id].push_back(i); });
    });
  }
  for (std::thread& producer : producers)
    producer.join();
  ASSERT_TRUE(runs_empty());
  for (const std::vector<uint64_t>& log : seen) {
    ASSERT_EQ(log.size(), kEach);
    EXPECT_TRUE(std::is_sorted(log.begin(), log.end()));
  }
}

TEST_P(StreamContract, AHundredThousandOperations) {
  constexpr uint64_t kBatches = 20'000;
  uint64_t* const counts = words(2);
  uint64_t kernels = 0;
  for (uint64_t i = 1; i <= kBatches; ++i) {
    enqueue({add64(&counts[0], 1), wait64(&counts[0], i), write64(&counts[1], i), wait64(&counts[1], i)});
    launch([&kernels] { ++kernels; });
  }
  ASSERT_TRUE(runs_empty());
  EXPECT_EQ(load(&counts[0]), kBatches);
  EXPECT_EQ(load(&counts[1]), kBatches);
  EXPECT_EQ(kernels, kBatches);
}

TEST_P(StreamContract, EnqueuingAndPollingDoNotBlockBehindAWait) {
  uint64_t* const gate = words();
  uint64_t* const count = words();
  enqueue({wait64(gate, 1)});
  // enqueue() must not wait for the stream: the gate opens only below.
  const size_t backlog = GetParam().backlog;
  for (size_t i = 1; i < backlog; ++i) {
    ASSERT_TRUE(works(stream().enqueue(std::vector{add64(count, 1)})));
    ASSERT_FALSE(stream().poll());
  }
  EXPECT_EQ(load(count), 0u);
  store(gate, 1);
  ASSERT_TRUE(runs_empty());
  EXPECT_EQ(load(count), backlog - 1);
}

}  // namespace
}  // namespace lanyard::stream_contract
