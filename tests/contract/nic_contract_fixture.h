// Shared by the rows of the NIC contract: the fabric under test, registered memory, descriptors,
// ways to wait.
#ifndef LANYARD_TESTS_NIC_CONTRACT_FIXTURE_H_
#define LANYARD_TESTS_NIC_CONTRACT_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/expect.h"
#include "transport/base/check.h"
#include "transport/nic/nic.h"

namespace lanyard::nic {

// GoogleTest finds it through the type's namespace.
inline bool operator==(const Usage& a, const Usage& b) { return a.counters == b.counters && a.regions == b.regions; }

inline void PrintTo(const CounterValue& value, std::ostream* out) {
  *out << "{success " << value.success << ", failure " << value.failure << "}";
}

}  // namespace lanyard::nic

namespace lanyard::nic_contract {

using namespace nic;  // NOLINT: the contract is about nothing else

// A row asks for at least this many NICs and, if the maker can choose, these limits.
// Rows check caps().
struct FabricOptions {
  size_t nics = 2;
  uint32_t deferred_depth = 64;
  uint32_t max_counters = 64;
  uint32_t max_regions = 64;
  uint64_t max_message_bytes = uint64_t{4} << 20;
  bool connected = true;  // false: the row calls set_peers()
};

// Some NICs of one job in this process. NIC i has rank i.
struct NicFabric {
  virtual ~NicFabric() = default;
  virtual size_t size() = 0;
  virtual Nic& nic(size_t rank) = 0;
  virtual void progress_all() {
    for (size_t rank = 0; rank < size(); ++rank)
      nic(rank).progress();
  }
  // Whether the NICs work while no thread calls them. If not, rows that need it are skipped.
  virtual bool works_alone() const { return true; }
};

// One implementation. make() returns null if it is missing: then its rows are skipped.
struct NicMaker {
  std::string name;  // letters and digits
  std::function<std::unique_ptr<NicFabric>(const FabricOptions&)> make;
};

inline void PrintTo(const NicMaker& maker, std::ostream* out) { *out << maker.name; }
inline std::string maker_name(const ::testing::TestParamInfo<NicMaker>& info) { return info.param.name; }

// Only a failure waits this long.
inline constexpr std::chrono::milliseconds kBound{20'000};

// Memory registered with one NIC. Use load() and store() for words that a NIC may be writing. Touch
// bytes only after a counter or a flag shows that the NIC has finished with them.
class Memory {
 public:
  Memory(size_t rank, size_t bytes) : rank_(rank), bytes_(bytes) {
    words_.assign(2 * kGuardWords + (bytes + 7) / 8, kGuard);
    std::memset(data(), 0, bytes);
  }

  size_t rank() const { return rank_; }
  uint32_t peer() const { return static_cast<uint32_t>(rank_); }
  size_t bytes() const { return bytes_; }
  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data() + kGuardWords); }

  uint64_t load(size_t offset = 0) { return word(offset).load(std::memory_order_acquire); }
  void store(uint64_t value, size_t offset = 0) { word(offset).store(value, std::memory_order_release); }

  // Byte i of the message with this seed. Shows a lost, repeated or moved byte.
  static std::byte pattern(uint64_t seed, size_t i) {
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u;
    x ^= x >> 29;
    return static_cast<std::byte>(x * 0xbf58476d1ce4e5b9u >> 56);
  }
  void fill(uint64_t seed, size_t offset, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i)
      data()[offset + i] = pattern(seed, i);
  }
  bool holds(uint64_t seed, size_t offset, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i)
      if (data()[offset + i] != pattern(seed, i))
        return false;
    return true;
  }
  bool is_zero(size_t offset, size_t bytes) {
    return std::all_of(data() + offset, data() + offset + bytes, [](std::byte b) { return b == std::byte{0}; });
  }
  bool guards_intact() {
    const size_t tail = 2 * kGuardWords * 8 + (bytes_ + 7) / 8 * 8;
    const std::byte guard{static_cast<uint8_t>(kGuard)};
    const auto* all = reinterpret_cast<const std::byte*>(words_.data());
    return std::all_of(all, all + kGuardWords * 8, [&](std::byte b) { return b == guard; }) &&
           std::all_of(all + kGuardWords * 8 + bytes_, all + tail, [&](std::byte b) { return b == guard; });
  }

  RegionId region;
  RemoteKey key;

 private:
  static constexpr size_t kGuardWords = 8;
  static constexpr uint64_t kGuard = 0xa5a5a5a5a5a5a5a5u;

  std::atomic_ref<uint64_t> word(size_t offset) { return std::atomic_ref<uint64_t>(words_[kGuardWords + offset / 8]); }

  size_t rank_;
  size_t bytes_;
  std::vector<uint64_t> words_;
};

// ---- Descriptors

inline Op write_op(const Memory& from, uint64_t from_offset, const Memory& to, uint64_t to_offset, uint64_t bytes,
                   CounterId completion = {}) {
  Op op;
  op.kind = OpKind::kWrite;
  op.level = CompletionLevel::kDelivery;
  op.completion = completion;
  op.local = {from.region, from_offset};
  op.remote = {to.peer(), to.key, to_offset};
  op.bytes = bytes;
  return op;
}

inline Op atomic_op(AtomicKind kind, const Memory& operand, uint64_t operand_offset, const Memory& to,
                    uint64_t to_offset, CounterId completion = {}) {
  Op op;
  op.kind = OpKind::kAtomic;
  op.atomic = kind;
  op.level = CompletionLevel::kDelivery;
  op.completion = completion;
  op.local = {operand.region, operand_offset};
  op.remote = {to.peer(), to.key, to_offset};
  return op;
}

inline Op sum_op(const Memory& operand, uint64_t operand_offset, const Memory& to, uint64_t to_offset,
                 CounterId completion = {}) {
  return atomic_op(AtomicKind::kSum, operand, operand_offset, to, to_offset, completion);
}

inline DeferredOp when(CounterId trigger, uint64_t threshold, const Op& op) {
  return {.op = op, .trigger = trigger, .threshold = threshold};
}

inline void ring(const Doorbell& bell, uint64_t value = 1) {
  switch (bell.kind) {
    case DoorbellKind::kMmioAdd: std::atomic_ref<uint64_t>(*bell.word).store(value, std::memory_order_release); break;
    case DoorbellKind::kAtomicAdd:
      std::atomic_ref<uint64_t>(*bell.word).fetch_add(value, std::memory_order_seq_cst);
      break;
    case DoorbellKind::kHostCall: bell.call(bell.object, bell.counter, value); break;
  }
}

inline const char* kind_name(DoorbellKind kind) {
  switch (kind) {
    case DoorbellKind::kMmioAdd: return "MmioAdd";
    case DoorbellKind::kAtomicAdd: return "AtomicAdd";
    case DoorbellKind::kHostCall: return "HostCall";
  }
  return "?";
}

// Everything that N9 protects and nic.h can show.
struct State {
  std::vector<CounterValue> counters;
  std::vector<uint32_t> free_entries;
  std::vector<uint64_t> failures;
  std::vector<nic::Usage> usage;
  friend bool operator==(const State&, const State&) = default;
};

inline void PrintTo(const State& state, std::ostream* out) {
  for (const CounterValue& value : state.counters)
    *out << value.success << '+' << value.failure << ' ';
  for (size_t i = 0; i < state.failures.size(); ++i)
    *out << "| NIC " << i << ": " << state.free_entries[i] << " free, " << state.failures[i] << " failures, "
         << state.usage[i].counters << " counters, " << state.usage[i].regions << " regions ";
}

// Skips the rest of a row if the NIC lacks what the row needs.
#define NEEDS(condition, what) \
  if (!(condition))            \
  GTEST_SKIP() << "the NIC lacks " << (what)

class NicContract : public ::testing::TestWithParam<NicMaker> {
 protected:
  void SetUp() override { start({}); }
  // Replaces the fabric that every row begins with by one with these options.
  void start(const FabricOptions& options) {
    stop();
    counters_.clear();
    fabric_ = GetParam().make(options);
    if (fabric_ == nullptr)
      GTEST_SKIP() << "this implementation has no NIC here";
    LANYARD_CHECK(fabric_->size() >= options.nics, "the fabric has as many NICs as the row asks for");
  }
  bool works_alone() const { return fabric_->works_alone(); }

  void TearDown() override {
    if (fabric_ == nullptr)
      return;
    stop();
    for (Memory& memory : memories_)
      EXPECT_TRUE(memory.guards_intact()) << "something wrote beside a region of NIC " << memory.rank();
  }
  // Ends the NICs, so they no longer touch the memory.
  void stop() { fabric_.reset(); }

  size_t size() { return fabric_->size(); }
  Nic& nic(size_t rank = 0) { return fabric_->nic(rank); }
  uint32_t depth(size_t rank = 0) { return nic(rank).caps().deferred_depth; }

  // ---- Objects: opened here and included in state()
  CounterId counter(size_t rank = 0) {
    Result<CounterId> opened = nic(rank).open_counter();
    EXPECT_TRUE(works(opened.status()));
    if (!opened.ok())
      return {};
    counters_.push_back({rank, opened.value()});
    return opened.value();
  }
  Status close(CounterId id, size_t rank = 0) {
    Status status = nic(rank).close_counter(id);
    if (status.ok())
      std::erase(counters_, std::pair{rank, id});
    return status;
  }
  Memory& word(size_t rank, uint64_t value) {
    Memory& made = memory(rank, 8);
    made.store(value);
    return made;
  }
  Memory& memory(size_t rank, size_t bytes, CounterId remote_write = {}) {
    Memory& made = memories_.emplace_back(rank, bytes);
    enroll(made, remote_write);
    return made;
  }
  void enroll(Memory& memory, CounterId remote_write = {}) {
    Result<RegionId> region = nic(memory.rank()).register_region(memory.data(), memory.bytes(), remote_write);
    ASSERT_TRUE(works(region.status()));
    memory.region = region.value();
    Result<RemoteKey> key = nic(memory.rank()).key(memory.region);
    ASSERT_TRUE(works(key.status()));
    memory.key = key.value();
  }

  // ---- Calls that must work
  CounterValue value(CounterId id, size_t rank = 0) {
    Result<CounterValue> read = nic(rank).read(id);
    EXPECT_TRUE(works(read.status()));
    return read.ok() ? read.value() : CounterValue{};
  }
  void add(CounterId id, uint64_t amount, size_t rank = 0) { EXPECT_TRUE(works(nic(rank).add(id, amount))); }
  void post(const DeferredOp& op, size_t rank = 0) { EXPECT_TRUE(works(nic(rank).post({&op, 1}))); }
  void post(const std::vector<DeferredOp>& ops, size_t rank = 0) { EXPECT_TRUE(works(nic(rank).post(ops))); }
  // These three repeat the call while the NIC is full. Any thread may call them.
  void post_patiently(const DeferredOp& op, size_t rank = 0) {
    patiently(rank, [&] { return nic(rank).post({&op, 1}); });
  }
  void post_patiently(const Posting& posting, size_t rank = 0) {
    patiently(rank, [&] { return nic(rank).post_prepared({&posting, 1}); });
  }
  void issue(const Op& op, size_t rank = 0) {
    patiently(rank, [&] { return nic(rank).issue(op); });
  }
  PreparedId prepare(const Op& op, size_t rank = 0) {
    const Result<PreparedId> prepared = nic(rank).prepare(op);
    EXPECT_TRUE(works(prepared.status()));
    return prepared.ok() ? prepared.value() : PreparedId();
  }
  void release(PreparedId id, size_t rank = 0) { EXPECT_TRUE(works(nic(rank).release(id))); }
  void post_prepared(std::span<const Posting> postings, size_t rank = 0) {
    EXPECT_TRUE(works(nic(rank).post_prepared(postings)));
  }
  void post_prepared(const Posting& posting, size_t rank = 0) { post_prepared({&posting, 1}, rank); }

  // ---- Waiting
  // Drives and waits until pred() holds. After a timeout, later waits of the same row are short.
  template <typename Predicate>
  [[nodiscard]] bool eventually(Predicate pred) {
    size_t turn = 0;
    const auto drive = [&] {
      fabric_->progress_all();
      if (turn >= kEagerTurns)
        nic(turn % size()).wait_since(nic(turn % size()).activity(), std::chrono::microseconds(50));
      ++turn;
    };
    const bool happened = lanyard::eventually(pred, drive, in_vain_ ? kBound / 40 : kBound);
    if (!happened)
      in_vain_ = true;
    return happened;
  }
  // Every change of the counter restarts the timeout, so a slow machine does not fail.
  ::testing::AssertionResult reaches(CounterId id, CounterValue wanted, size_t rank = 0) {
    CounterValue last = value(id, rank);
    bool moves = true;
    while (last != wanted && moves) {
      const CounterValue before = last;
      moves = eventually([&] { return (last = value(id, rank)) != before; });
    }
    if (last == wanted)
      return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "success " << last.success << ", failure " << last.failure << " where "
                                         << wanted.success << " and " << wanted.failure << " were due";
  }
  ::testing::AssertionResult reaches(CounterId id, uint64_t success, size_t rank = 0) {
    return reaches(id, CounterValue{success, 0}, rank);
  }
  ::testing::AssertionResult all_free(size_t rank = 0) {
    if (eventually([&] { return nic(rank).free_entries() == depth(rank); }))
      return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << nic(rank).free_entries() << " of " << depth(rank) << " entries are free";
  }
  // Gives a NIC time to do what it must not do. No length of time makes a correct NIC fail.
  void settle(std::chrono::milliseconds time = std::chrono::milliseconds(15)) {
    const auto end = std::chrono::steady_clock::now() + time;
    do {
      fabric_->progress_all();
      for (size_t rank = 0; rank < size(); ++rank)
        nic(rank).wait_since(nic(rank).activity(), std::chrono::milliseconds(1));
    } while (std::chrono::steady_clock::now() < end);
  }
  // Drives without sleeping in a NIC, as a thread that attends must.
  template <typename Predicate>
  [[nodiscard]] bool happens_by_progress(Predicate pred) {
    const auto drive = [&] {
      fabric_->progress_all();
      std::this_thread::yield();
    };
    return lanyard::eventually(pred, drive, kBound);
  }
  // Waits without any call into a NIC: the device must act by itself.
  template <typename Predicate>
  [[nodiscard]] static bool happens_without_us(Predicate pred) {
    return lanyard::eventually(
        pred, [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); }, kBound);
  }

  // ---- N9
  State state() {
    State now;
    for (const auto& [rank, id] : counters_)
      now.counters.push_back(value(id, rank));
    for (size_t rank = 0; rank < size(); ++rank) {
      now.free_entries.push_back(nic(rank).free_entries());
      now.failures.push_back(nic(rank).failures());
      now.usage.push_back(nic(rank).usage());
    }
    return now;
  }
  // The call returns one of the codes and changes nothing. Nothing may be in flight.
  template <typename Call>
  void refused(const std::vector<Code>& codes, const char* what, Call call) {
    const State before = state();
    const Status status = call();
    EXPECT_NE(std::find(codes.begin(), codes.end(), status.code()), codes.end())
        << what << " gave " << status.to_string();
    fabric_->progress_all();
    EXPECT_EQ(state(), before) << what;
  }

  // The same for every call that would run the operation.
  void refused_op(const std::vector<Code>& codes, const char* what, CounterId trigger, const Op& op) {
    const DeferredOp deferred = when(trigger, 1, op);
    refused(codes, what, [&] { return nic().post({&deferred, 1}); });
    refused(codes, what, [&] { return nic().issue(op); });
    refused(codes, what, [&] { return nic().prepare(op).status(); });
  }

  std::vector<DoorbellKind> doorbell_kinds(size_t rank = 0) {
    std::vector<DoorbellKind> kinds;
    if (nic(rank).caps().doorbell_mmio_add)
      kinds.push_back(DoorbellKind::kMmioAdd);
    if (nic(rank).caps().doorbell_atomic_add)
      kinds.push_back(DoorbellKind::kAtomicAdd);
    if (nic(rank).caps().doorbell_host_call)
      kinds.push_back(DoorbellKind::kHostCall);
    return kinds;
  }
  Doorbell doorbell(CounterId id, DoorbellKind kind, size_t rank = 0) {
    Result<Doorbell> bell = nic(rank).doorbell(id, kind);
    EXPECT_TRUE(works(bell.status()));
    if (!bell.ok())
      return {.call = [](void*, uint32_t, uint64_t) {}};
    EXPECT_EQ(bell.value().kind, kind);
    return bell.value();
  }

 private:
  static constexpr size_t kEagerTurns = 64;

  template <typename Call>
  void patiently(size_t rank, Call call) {
    Status status;
    const bool taken = eventually([&] { return (status = call()).code() != Code::kAgain; });
    EXPECT_TRUE(taken && status.ok()) << "NIC " << rank << ": " << status.to_string();
  }

  std::atomic<bool> in_vain_ = false;
  std::deque<Memory> memories_;  // outlives the NICs
  std::vector<std::pair<size_t, CounterId>> counters_;
  std::unique_ptr<NicFabric> fabric_;
};

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_NIC_CONTRACT_FIXTURE_H_
