// CheckedNic: which calls it refuses, and which faults of a driver it catches. The contract's rows
// "Checked" test the rest.
#include "transport/nic/checked_nic.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lanyard::nic {
namespace {

// A driver that does nothing and answers every call as its members say.
struct ScriptedNic final : Nic {
  ScriptedNic() {
    caps_.deferred_depth = 4;
    caps_.max_counters = 8;
    caps_.max_regions = 8;
    caps_.max_message_bytes = 100;
    caps_.doorbell_atomic_add = caps_.doorbell_host_call = true;
    caps_.flush = true;
  }

  const Caps& caps() const override { return caps_; }
  Address address() const override { return {{std::byte{1}}}; }
  Status set_peers(std::span<const Address>, uint32_t) override { return called(); }
  Status add_peer(uint32_t, const Address&) override { return called(); }
  Result<CounterId> open_counter() override {
    if (!status.ok())
      return status;
    ++opened.counters;
    return CounterId{next_counter++};
  }
  Status close_counter(CounterId) override {
    if (status.ok())
      --opened.counters;
    return called();
  }
  Result<CounterValue> read(CounterId) override {
    if (!readable)
      return Status(Code::kNotFound, "scripted");
    return value;
  }
  Status add(CounterId, uint64_t) override { return called(); }
  Status add_error(CounterId, uint32_t) override { return called(); }
  Status reset(CounterId) override { return called(); }
  Result<Doorbell> doorbell(CounterId, DoorbellKind) override { return bell; }
  Result<RegionId> register_region(void*, uint64_t, CounterId) override {
    if (!status.ok())
      return status;
    ++opened.regions;
    return RegionId{next_region++};
  }
  Status deregister_region(RegionId) override {
    if (status.ok())
      --opened.regions;
    return called();
  }
  Result<RemoteKey> key(RegionId) const override { return RemoteKey{next_key++}; }
  Status post(std::span<const DeferredOp>) override {
    free -= taken_by_post;
    return called();
  }
  Result<PreparedId> prepare(const Op&) override {
    if (!called().ok())
      return status;
    return prepared;
  }
  Status post_prepared(std::span<const Posting>) override {
    free -= taken_by_post;
    return called();
  }
  Status release(PreparedId) override { return called(); }
  Status issue(const Op&) override { return called(); }
  uint32_t free_entries() const override { return free; }
  Status flush() override { return called(); }
  size_t progress() override { return 0; }
  uint64_t activity() const override { return 0; }
  void wait_since(uint64_t, Nanoseconds) override {}
  std::optional<FailureRecord> take_failure() override { return record; }
  Usage usage() const override { return opened; }
  uint64_t failures() const override { return failed; }

  Status called() {
    ++calls;
    return status;
  }

  Caps caps_;
  Status status;  // returned by calls
  int calls = 0;
  CounterValue value;
  bool readable = true;
  PreparedId prepared = {3, 1};
  uint32_t next_counter = 10;
  uint32_t next_region = 20;
  mutable uint64_t next_key = 30;
  uint32_t free = 4;
  uint32_t taken_by_post = 0;
  Doorbell bell;
  Usage opened;
  std::optional<FailureRecord> record;
  uint64_t failed = 0;
};

class CheckedNicTest : public ::testing::Test {
 protected:
  void connect() {
    const std::vector<Address> peers = {Address{{std::byte{1}}}, Address{{std::byte{2}}}};
    ASSERT_TRUE(nic.set_peers(peers, 0).ok());
  }
  // Opens a counter and a region of 64 bytes, and describes a valid write and a valid atomic.
  void prepare() {
    connect();
    counter = nic.open_counter().value();
    region = open_region();
    write.local = {region, 0};
    write.bytes = 64;
    sum.kind = OpKind::kAtomic;
    sum.local = {region, 0};
  }
  RegionId open_region(CounterId remote_write = {}) {
    return nic.register_region(words, sizeof words, remote_write).value();
  }
  Code post(const Op& op) {
    const DeferredOp deferred = {.op = op, .trigger = counter, .threshold = 1};
    return nic.post({&deferred, 1}).code();
  }
  // The caller's error gets this code from post(), prepare() and issue(), and does not
  // reach the driver.
  void expect_refused(const Op& op, Code code) {
    const int calls = driver.calls;
    EXPECT_EQ(post(op), code);
    EXPECT_EQ(nic.prepare(op).status().code(), code);
    EXPECT_EQ(nic.issue(op).code(), code);
    EXPECT_EQ(driver.calls, calls);
  }

  ScriptedNic driver;
  CheckedNic nic{driver};
  alignas(8) uint64_t words[8] = {};
  CounterId counter;
  RegionId region;
  Op write, sum;
};

using CheckedNicDeathTest = CheckedNicTest;

// ---- Errors of the caller

TEST_F(CheckedNicTest, RegionsMustBeMemory) {
  connect();
  EXPECT_EQ(nic.register_region(nullptr, 8).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(nic.register_region(words, UINT64_MAX).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(nic.register_region(nullptr, 0).ok());
}

TEST_F(CheckedNicTest, BadDescriptorsDoNotReachTheDriver) {
  prepare();
  const auto is_refused = [&](Op op, auto change, Code code = Code::kInvalidArgument) {
    change(op);
    expect_refused(op, code);
  };
  is_refused(write, [](Op& op) { op.bytes = 101; });
  is_refused(write, [](Op& op) { op.bytes = 65; });
  is_refused(write, [](Op& op) { op.local.offset = UINT64_MAX - 3; });
  is_refused(write, [](Op& op) { op.kind = static_cast<OpKind>(9); });
  is_refused(write, [](Op& op) { op.level = static_cast<CompletionLevel>(9); });
  is_refused(
      write, [](Op& op) { op.remote.peer = 2; }, Code::kNotFound);
  is_refused(
      write, [](Op& op) { op.local.region = {4711}; }, Code::kNotFound);
  is_refused(
      write, [](Op& op) { op.completion = {4711}; }, Code::kNotFound);
  is_refused(sum, [](Op& op) { op.atomic = static_cast<AtomicKind>(9); });
  is_refused(sum, [](Op& op) { op.remote.offset = 4; });
  is_refused(sum, [](Op& op) { op.local.offset = 64; });
}

// ---- Errors of the driver

TEST_F(CheckedNicDeathTest, CounterOutOfRange) {
  prepare();
  ASSERT_TRUE(nic.add(counter, kMaxSuccess).ok());
  ASSERT_TRUE(nic.add(counter, kMaxSuccess).ok());
  driver.value.success = kMaxSuccess + 1;
  EXPECT_DEATH((void)nic.read(counter), "a counter left its range");
  driver.value = {0, kMaxFailure + 1};
  EXPECT_DEATH((void)nic.read(counter), "a counter left its range");
}

TEST_F(CheckedNicDeathTest, CounterFell) {
  prepare();
  ASSERT_TRUE(nic.add(counter, 10).ok());
  driver.value.success = 7;  // it may lag
  ASSERT_TRUE(nic.read(counter).ok());
  driver.value.success = 6;
  EXPECT_DEATH((void)nic.read(counter), "a counter fell");
  ASSERT_TRUE(nic.reset(counter).ok()) << "now it may fall once";
  EXPECT_EQ(nic.read(counter).value().success, 6u);
  driver.value.success = 5;
  EXPECT_DEATH((void)nic.read(counter), "a counter fell");
}

TEST_F(CheckedNicDeathTest, FailuresFell) {
  prepare();
  ASSERT_TRUE(nic.add_error(counter, 3).ok());
  driver.value.failure = 3;
  ASSERT_TRUE(nic.read(counter).ok());
  driver.value.failure = 0;
  EXPECT_DEATH((void)nic.read(counter), "a counter fell");
}

TEST_F(CheckedNicDeathTest, CounterCountedTooMuch) {
  prepare();
  driver.value.success = 1;
  EXPECT_DEATH((void)nic.read(counter), "counted more than was added");
  driver.value.success = 0;
  write.completion = counter;
  ASSERT_EQ(post(write), Code::kOk);
  ASSERT_TRUE(nic.issue(write).ok());
  ASSERT_TRUE(nic.add(counter, 5).ok());
  ASSERT_TRUE(nic.add_error(counter, 1).ok());
  driver.value = {7, 1};
  ASSERT_TRUE(nic.read(counter).ok());
  driver.value = {7, 2};
  EXPECT_DEATH((void)nic.read(counter), "counted more than was added");
}

// N9: a call that failed but had an effect.
TEST_F(CheckedNicDeathTest, AFailedCallChangedACounter) {
  prepare();
  driver.status = {Code::kInvalidArgument, "scripted"};
  driver.value.success = 5;
  EXPECT_DEATH((void)nic.add(counter, 5), "counted more than was added");
  EXPECT_DEATH((void)nic.add_error(counter, 5), "counted more than was added");
  write.completion = counter;
  EXPECT_DEATH((void)nic.issue(write), "counted more than was added");
  EXPECT_DEATH((void)post(write), "counted more than was added");
  EXPECT_DEATH((void)nic.close_counter(counter), "counted more than was added");
}

TEST_F(CheckedNicDeathTest, ARefusedPostTookEntries) {
  prepare();
  driver.status = {Code::kInvalidArgument, "scripted"};
  driver.taken_by_post = 1;
  EXPECT_DEATH((void)post(write), "a refused post\\(\\) took entries");
}

TEST_F(CheckedNicDeathTest, AgainThoughEntriesAreFree) {
  prepare();
  driver.status = {Code::kAgain, "scripted"};
  driver.free = 1;
  EXPECT_DEATH((void)post(write), "kAgain though enough entries were free");
  driver.free = 0;
  EXPECT_EQ(post(write), Code::kAgain);
}

TEST_F(CheckedNicDeathTest, MoreEntriesFreeThanExist) {
  prepare();
  driver.free = 5;
  EXPECT_DEATH((void)nic.free_entries(), "more entries free than exist");
  EXPECT_DEATH((void)post(write), "more entries free than exist");
}

TEST_F(CheckedNicDeathTest, CounterIds) {
  prepare();
  driver.next_counter = counter.value;
  EXPECT_DEATH((void)nic.open_counter(), "two open counters with one id");
  driver.next_counter = CounterId{}.value;
  EXPECT_DEATH((void)nic.open_counter(), "a counter without an id");
  ASSERT_TRUE(nic.close_counter(counter).ok());
  driver.next_counter = counter.value;
  EXPECT_TRUE(nic.open_counter().ok()) << "closed ids are used again";
  driver.next_counter = 50;
  driver.value.success = 1;
  EXPECT_DEATH((void)nic.open_counter(), "counted more|not at zero");
  driver.value.success = 0;
  driver.caps_.max_counters = 1;
  EXPECT_DEATH((void)nic.open_counter(), "more counters open than caps\\(\\) says");
}

TEST_F(CheckedNicDeathTest, AnOpenCounterIsUnknown) {
  prepare();
  driver.readable = false;
  EXPECT_DEATH((void)nic.read(counter), "an open counter cannot be read");
}

TEST_F(CheckedNicDeathTest, ClosedThoughARegionNamesIt) {
  prepare();
  const RegionId bound = open_region(counter);
  EXPECT_DEATH((void)nic.close_counter(counter), "closed a counter that a region names");
  ASSERT_TRUE(nic.deregister_region(bound).ok());
  EXPECT_TRUE(nic.close_counter(counter).ok());
}

TEST_F(CheckedNicDeathTest, RegionIdsAndKeys) {
  prepare();
  driver.next_region = region.value;
  EXPECT_DEATH((void)open_region(), "two registered regions with one id");
  driver.next_region = RegionId{}.value;
  EXPECT_DEATH((void)open_region(), "a region without an id");
  driver.next_region = 60;
  ASSERT_TRUE(nic.deregister_region(region).ok());
  driver.next_key = 30;  // the first region's key
  EXPECT_DEATH((void)open_region(), "a key that was given before");
  driver.next_key = 90;
  region = open_region();
  EXPECT_DEATH((void)nic.key(region), "a region's key has changed");  // the driver returns a new one each time
  driver.next_key = 90;
  EXPECT_EQ(nic.key(region).value().value, 90u);
  driver.next_key = 95;
  driver.caps_.max_regions = 1;
  EXPECT_DEATH((void)open_region(), "more regions registered than caps\\(\\) says");
}

TEST_F(CheckedNicDeathTest, ClosedThoughAPreparedOperationNamesIt) {
  prepare();
  write.completion = counter;
  const PreparedId id = nic.prepare(write).value();
  EXPECT_DEATH((void)nic.close_counter(counter), "closed a counter that a prepared operation names");
  EXPECT_DEATH((void)nic.deregister_region(region), "deregistered a region that a prepared operation names");
  driver.status = {Code::kInvalidState, "scripted"};
  EXPECT_EQ(nic.close_counter(counter).code(), Code::kInvalidState);
  EXPECT_EQ(nic.deregister_region(region).code(), Code::kInvalidState);
  EXPECT_DEATH((void)nic.release(id), "a prepared operation cannot be released");
  driver.status = {};
  EXPECT_TRUE(nic.release(id).ok());
  EXPECT_TRUE(nic.close_counter(counter).ok());
  EXPECT_TRUE(nic.deregister_region(region).ok());
}

TEST_F(CheckedNicDeathTest, PreparedIdsAndEntries) {
  prepare();
  const PreparedId id = nic.prepare(write).value();
  EXPECT_DEATH((void)nic.prepare(write), "two prepared operations of one id");
  driver.prepared = {};
  EXPECT_DEATH((void)nic.prepare(write), "a prepared operation without an id");
  const Posting posting{id, counter, 1};
  driver.status = {Code::kAgain, "scripted"};
  EXPECT_DEATH((void)nic.post_prepared({&posting, 1}), "gave kAgain though enough entries were free");
  driver.taken_by_post = 1;
  EXPECT_DEATH((void)nic.post_prepared({&posting, 1}), "a refused post\\(\\) took entries");
}

TEST_F(CheckedNicDeathTest, Doorbells) {
  prepare();
  driver.bell = {.kind = DoorbellKind::kAtomicAdd, .word = words};
  EXPECT_TRUE(nic.doorbell(counter, DoorbellKind::kAtomicAdd).ok());
  EXPECT_DEATH((void)nic.doorbell(counter, DoorbellKind::kHostCall), "a doorbell of another kind");
  driver.bell.word = nullptr;
  EXPECT_DEATH((void)nic.doorbell(counter, DoorbellKind::kAtomicAdd), "without its word");
  driver.bell = {.kind = DoorbellKind::kHostCall};
  EXPECT_DEATH((void)nic.doorbell(counter, DoorbellKind::kHostCall), "without its call");
}

TEST_F(CheckedNicDeathTest, UsageAndFailures) {
  prepare();
  EXPECT_EQ(nic.usage().counters, 1u);
  driver.opened.counters = 2;
  EXPECT_DEATH((void)nic.usage(), "usage\\(\\) is not what is open");
  driver.failed = 3;
  EXPECT_EQ(nic.failures(), 3u);
  driver.failed = 2;
  EXPECT_DEATH((void)nic.failures(), "failures\\(\\) fell");
  driver.record = FailureRecord{.context = 1, .code = Code::kFailed, .peer = 1};
  EXPECT_EQ(nic.take_failure()->context, 1u);
  driver.record->code = Code::kOk;
  EXPECT_DEATH((void)nic.take_failure(), "says kOk");
}

TEST_F(CheckedNicDeathTest, LeavingWithoutAttending) {
  nic.attend();
  nic.leave();
  EXPECT_DEATH(nic.leave(), "leave\\(\\) without attend\\(\\)");
}

}  // namespace
}  // namespace lanyard::nic
