// OfiNic with missing features, refusals and dead peers: it returns an error that says what to do,
// within a time limit, and leaks nothing. The dying peer is this program in another process.
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/nicsim/fi_harness.h"
#include "transport/cxi/ofi_nic.h"

namespace lanyard {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kPeer = "LANYARD_TEST_PEER";
constexpr const char* kHolds = "LANYARD_TEST_HOLDS";
constexpr size_t kBytes = 64;

// The driver gives up after a second; the rest is for busy machines.
constexpr milliseconds kBound{5000};

std::unique_ptr<ofi::OfiNic> open_nic() {
  use_provider();
  Result<std::unique_ptr<ofi::OfiNic>> opened = ofi::OfiNic::open({});
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  return std::move(opened.value());
}

template <typename Call>
auto within_bound(Call call) {
  const auto begin = steady_clock::now();
  auto result = call();
  EXPECT_LT(steady_clock::now() - begin, kBound);
  return result;
}

// ---- A dead peer

struct Introduction {
  std::array<std::byte, nic::Address::kMaxBytes> address{};
  size_t bytes = 0;

  static Introduction of(const nic::Nic& nic) {
    Introduction made;
    const nic::Address address = nic.address();
    made.bytes = address.bytes.size();
    std::memcpy(made.address.data(), address.bytes.data(), made.bytes);
    return made;
  }
  nic::Address address_of() const { return {{address.begin(), address.begin() + static_cast<ptrdiff_t>(bytes)}}; }
};

// Takes entries that the processes share, as many as kHolds says, for work that never fires.
void hold_entries(nic::Nic& nic) {
  const char* const number = std::getenv(kHolds);
  alignas(8) static std::array<std::byte, kBytes> memory{};
  for (int i = number == nullptr ? 0 : std::atoi(number); i > 0; --i) {
    nic::DeferredOp op;
    op.op.local = {nic.register_region(memory.data(), kBytes, {}).value(), 0};
    op.op.remote = {1, nic.key(op.op.local.region).value(), 0};
    op.op.bytes = 8;
    op.trigger = nic.open_counter().value();
    op.threshold = 1000;
    EXPECT_TRUE(nic.post({&op, 1}).ok());
  }
}

// Rank 1: registers a region and waits.
int be_peer() {
  const std::unique_ptr<ofi::OfiNic> nic = open_nic();
  const Introduction mine = Introduction::of(*nic);
  Introduction other;
  if (!write_all(STDOUT_FILENO, &mine, sizeof mine) || !read_all(STDIN_FILENO, &other, sizeof other))
    return 1;
  const std::vector<nic::Address> peers{other.address_of(), nic->address()};
  if (!nic->set_peers(peers, 1).ok())
    return 1;
  alignas(8) std::array<std::byte, kBytes> memory{};
  const nic::RemoteKey key = nic->key(nic->register_region(memory.data(), kBytes, {}).value()).value();
  hold_entries(*nic);
  if (!write_all(STDOUT_FILENO, &key, sizeof key))
    return 1;
  wait_for_end_of_input();
  return 0;
}

class OfiFailures : public ::testing::Test {
 protected:
  void SetUp() override {
    peer_ = std::make_unique<ChildProcess>(kPeer, "1");
    nic_ = open_nic();
    Introduction theirs;
    const Introduction mine = Introduction::of(*nic_);
    ASSERT_TRUE(peer_->hear(&theirs, sizeof theirs) && peer_->tell(&mine, sizeof mine));
    const std::vector<nic::Address> peers{nic_->address(), theirs.address_of()};
    ASSERT_TRUE(nic_->set_peers(peers, 0).ok());
    ASSERT_TRUE(peer_->hear(&key_, sizeof key_));
    trigger_ = nic_->open_counter().value();
    done_ = nic_->open_counter().value();
    region_ = nic_->register_region(memory_.data(), kBytes, {}).value();
  }
  nic::DeferredOp write(uint64_t threshold) const {
    nic::DeferredOp op;
    op.op.completion = done_;
    op.op.level = nic::CompletionLevel::kDelivery;
    op.op.local = {region_, 0};
    op.op.remote = {1, key_, 0};
    op.op.bytes = kBytes;
    op.op.context = 42;
    op.trigger = trigger_;
    op.threshold = threshold;
    return op;
  }
  bool reaches(nic::CounterValue wanted) {
    return eventually([&] {
      nic_->progress();
      return nic_->read(done_).value() == wanted;
    });
  }

  alignas(8) std::array<std::byte, kBytes> memory_{};
  std::unique_ptr<ChildProcess> peer_;
  std::unique_ptr<ofi::OfiNic> nic_;
  nic::CounterId trigger_, done_;
  nic::RegionId region_;
  nic::RemoteKey key_;
};

TEST_F(OfiFailures, OperationsToADeadPeerFail) {
  const std::array<nic::DeferredOp, 2> ops{write(1), write(2)};
  ASSERT_TRUE(nic_->post(ops).ok());
  ASSERT_TRUE(nic_->add(trigger_, 1).ok());
  ASSERT_TRUE(reaches({1, 0})) << "the first write should succeed";
  peer_->die();
  ASSERT_TRUE(nic_->add(trigger_, 1).ok());
  ASSERT_TRUE(reaches({1, 1}));
  const std::optional<nic::FailureRecord> record = nic_->take_failure();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->context, 42u);
  EXPECT_EQ(record->peer, 1u);
  EXPECT_EQ(record->code, Code::kFailed);
  EXPECT_EQ(nic_->lost_peers(), 1u);
  EXPECT_TRUE(nic_->is_lost(1));
  EXPECT_FALSE(nic_->is_lost(0));
  ASSERT_TRUE(nic_->issue(write(0).op).ok());
  ASSERT_TRUE(reaches({1, 2}));
  EXPECT_EQ(nic_->lost_peers(), 1u) << "the peer must be lost once";
  // Nothing is in flight: everything can be closed.
  EXPECT_TRUE(within_bound([&] { return nic_->deregister_region(region_); }).ok());
  EXPECT_TRUE(within_bound([&] { return nic_->close_counter(trigger_); }).ok());
  EXPECT_TRUE(within_bound([&] { return nic_->close_counter(done_); }).ok());
}

// An entry that waits for a dead peer uses its region and counters: closing these fails at once. A
// flush frees them.
TEST_F(OfiFailures, ClosingFailsUntilEntriesForADeadPeerAreFlushed) {
  const nic::DeferredOp never = write(100);
  ASSERT_TRUE(nic_->post({&never, 1}).ok());
  peer_->die();
  const auto refused = [&](Status status) {
    EXPECT_EQ(status.code(), Code::kInvalidState);
    EXPECT_TRUE(has(status, "named by 1 "));
  };
  refused(within_bound([&] { return nic_->deregister_region(region_); }));
  refused(within_bound([&] { return nic_->close_counter(trigger_); }));
  refused(within_bound([&] { return nic_->close_counter(done_); }));
  ASSERT_TRUE(within_bound([&] { return nic_->flush(); }).ok());
  EXPECT_TRUE(nic_->deregister_region(region_).ok());
  EXPECT_TRUE(nic_->close_counter(trigger_).ok());
  EXPECT_TRUE(nic_->close_counter(done_).ok());
}

// A flush gives up operations that a peer has not acknowledged. A late acknowledgement must not
// end newer work.
TEST_F(OfiFailures, ALateEndAfterAFlushEndsNoNewerWork) {
  const uint32_t depth = nic_->caps().deferred_depth;
  nic::DeferredOp op = write(1);
  ASSERT_TRUE(nic_->post({&op, 1}).ok());
  peer_->stop();
  ASSERT_TRUE(nic_->add(trigger_, 1).ok());
  ASSERT_TRUE(nic_->flush().ok());
  EXPECT_EQ(nic_->free_entries(), depth);
  op = write(1000);
  op.op.context = 43;
  ASSERT_TRUE(nic_->post({&op, 1}).ok());
  peer_->resume();
  ASSERT_TRUE(reaches({1, 0})) << "the NIC must count the late end";
  const std::array waiting{nic::ContextStarts{43}};
  for (int i = 0; i < 50; ++i) {
    nic_->progress();
    ASSERT_FALSE(nic_->confirms(waiting));
    ASSERT_EQ(nic_->free_entries(), depth - 1);
    breathe();
  }
  ASSERT_TRUE(nic_->add(trigger_, 999).ok());
  ASSERT_TRUE(reaches({2, 0}));
  EXPECT_TRUE(eventually([&] { return nic_->confirms(waiting); }));
  EXPECT_EQ(nic_->free_entries(), depth);
  EXPECT_EQ(nic_->failures(), 0u);
}

TEST_F(OfiFailures, ALateFailureAfterAFlushKeepsItsRecord) {
  nic::DeferredOp op = write(1);
  ASSERT_TRUE(nic_->post({&op, 1}).ok());
  peer_->stop();
  ASSERT_TRUE(nic_->add(trigger_, 1).ok());
  ASSERT_TRUE(nic_->flush().ok());
  op = write(1000);
  op.op.context = 43;
  op.op.remote.peer = 0;
  ASSERT_TRUE(nic_->post({&op, 1}).ok());
  peer_->die();
  ASSERT_TRUE(reaches({0, 1}));
  ASSERT_TRUE(eventually([&] { return nic_->failures() == 1; }));
  const std::optional<nic::FailureRecord> record = nic_->take_failure();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->context, 42u);
  EXPECT_EQ(record->peer, 1u);
  EXPECT_TRUE(nic_->is_lost(1));
  EXPECT_FALSE(nic_->is_lost(0));
  EXPECT_EQ(nic_->free_entries(), nic_->caps().deferred_depth - 1) << "only the new operation may hold an entry";
}

TEST_F(OfiFailures, ADeadPeerDoesNotBlockTheDestructor) {
  for (uint64_t i = 1; i <= 8; ++i) {
    const nic::DeferredOp op = write(i);
    ASSERT_TRUE(nic_->post({&op, 1}).ok());
  }
  ASSERT_TRUE(nic_->add(trigger_, 4).ok());
  peer_->die();
  within_bound([&] {
    nic_.reset();
    return 0;
  });
}

// ---- Work that runs without an entry, because the peer holds all entries, or all but one

class OfiWithoutEntries : public OfiFailures {
 protected:
  static constexpr uint32_t kDepth = 4;
  explicit OfiWithoutEntries(uint32_t held = kDepth)
      : depth_("LANYARD_FI_SHARED_DEPTH", std::to_string(kDepth)),
        job_("LANYARD_FI_JOB", "without-" + std::to_string(::getpid())),
        pool_("LANYARD_FI_POOL", "enospc"),
        held_(kHolds, std::to_string(held)) {}
  bool settles() {
    return eventually([&] {
      nic_->progress();
      return nic_->free_entries() == kDepth;
    });
  }

 private:
  const Variable depth_, job_, pool_, held_;
};

TEST_F(OfiWithoutEntries, WaitingWorkIsFlushedByTheDriver) {
  const std::array<nic::DeferredOp, 2> ops{write(1), write(2)};
  ASSERT_TRUE(nic_->post(ops).ok());
  EXPECT_EQ(nic_->free_entries(), kDepth - 2);
  ASSERT_TRUE(nic_->flush().ok());
  EXPECT_EQ(nic_->free_entries(), kDepth);
  ASSERT_TRUE(nic_->add(trigger_, 2).ok());
  breathe();
  EXPECT_EQ(nic_->read(done_).value().reached(), 0u);
  EXPECT_TRUE(nic_->deregister_region(region_).ok());
}

struct OfiWithOneEntry : OfiWithoutEntries {
  OfiWithOneEntry() : OfiWithoutEntries(kDepth - 1) {}
};

// A flush cancels work that waits in the NIC. Work that runs without an entry continues.
TEST_F(OfiWithOneEntry, AFlushDoesNotCancelRunningWork) {
  const std::array<nic::DeferredOp, 2> ops{write(1000), write(1)};
  ASSERT_TRUE(nic_->post({&ops[0], 1}).ok());
  peer_->stop();
  ASSERT_TRUE(nic_->post({&ops[1], 1}).ok());
  ASSERT_TRUE(nic_->add(trigger_, 1).ok());
  nic_->progress();
  ASSERT_TRUE(nic_->flush().ok());
  EXPECT_EQ(nic_->free_entries(), kDepth - 1);
  EXPECT_EQ(nic_->deregister_region(region_).code(), Code::kInvalidState) << "the region is still being read";
  peer_->resume();
  ASSERT_TRUE(reaches({1, 0}));
  EXPECT_TRUE(settles());
  EXPECT_TRUE(nic_->deregister_region(region_).ok());
}

// ---- A flush without waiting work

// The provider's own flush takes a minute here.
TEST(OfiFlush, TakesNoTimeWithoutWaitingWork) {
  const Variable pause("LANYARD_FI_FLUSH_MS", "60000");
  std::unique_ptr<ofi::OfiNic> nic = open_nic();
  const nic::Address self = nic->address();
  ASSERT_TRUE(nic->set_peers({&self, 1}, 0).ok());
  alignas(8) std::array<std::byte, kBytes> memory{};
  nic::DeferredOp op;
  op.trigger = nic->open_counter().value();
  op.op.completion = nic->open_counter().value();
  op.op.local = {nic->register_region(memory.data(), kBytes, {}).value(), 0};
  op.op.remote = {0, nic->key(op.op.local.region).value(), 8};
  op.op.bytes = 8;
  ASSERT_TRUE(nic->post({&op, 1}).ok());
  ASSERT_TRUE(eventually([&] { return nic->read(op.op.completion).value().success == 1; }));
  EXPECT_TRUE(within_bound([&] { return nic->flush(); }).ok());
  within_bound([&] {
    nic.reset();
    return 0;
  });
}

// ---- Missing features

TEST(OfiMissing, AMissingDomain) {
  use_provider();
  const Result<std::unique_ptr<ofi::OfiNic>> none = ofi::OfiNic::open({.domain = "cxi7"});
  EXPECT_EQ(none.status().code(), Code::kUnsupported);
  EXPECT_TRUE(has(none.status(), "but: cxi0"));
}

// The driver does not claim registers that the provider does not map; the host call still rings.
TEST(OfiMissing, RefusedRegisters) {
  const Variable refused("LANYARD_FI_MMIO", "refused");
  const std::unique_ptr<ofi::OfiNic> nic = open_nic();
  EXPECT_FALSE(nic->caps().doorbell_mmio_add);
  ASSERT_TRUE(nic->caps().doorbell_host_call);
  const nic::CounterId counter = nic->open_counter().value();
  const Result<nic::Doorbell> none = nic->doorbell(counter, nic::DoorbellKind::kMmioAdd);
  EXPECT_EQ(none.status().code(), Code::kUnsupported);
  EXPECT_TRUE(has(none.status(), "host-call"));
  const nic::Doorbell bell = nic->doorbell(counter, nic::DoorbellKind::kHostCall).value();
  bell.call(bell.object, bell.counter, 3);
  EXPECT_TRUE(eventually([&] { return nic->read(counter).value().success == 3; }));
}

// ---- Leaks

ptrdiff_t entries_of(const char* folder) { return std::distance(std::filesystem::directory_iterator(folder), {}); }

struct Left {
  ptrdiff_t files = entries_of("/proc/self/fd");
  ptrdiff_t threads = entries_of("/proc/self/task");
  friend bool operator==(const Left&, const Left&) = default;
};

void expect_nothing_new(const Left& before) {
  EXPECT_TRUE(eventually([&] { return Left() == before; })) << Left().files << " files, before " << before.files << "; "
                                                            << Left().threads << " threads, before " << before.threads;
}

// The limit grows by one file per attempt, so that opening fails at every step that needs a file.
TEST(OfiLeavesNothing, WhenOpeningFailsHalfWay) {
  open_nic().reset();
  const Left before;
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  int failed = 0;
  bool opened = false;
  for (rlim_t most = 1; most < 256 && !opened; ++most) {
    const rlimit little{most, usual.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &little), 0);
    const Status status = ofi::OfiNic::open({}).status();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
    opened = status.ok();
    failed += !opened;
    EXPECT_TRUE(opened || !status.message().empty());
    expect_nothing_new(before);
  }
  EXPECT_TRUE(opened);
  EXPECT_GT(failed, 1);
}

const ChildRole kPeerRole(kPeer, [](const char*) { return be_peer(); });

}  // namespace
}  // namespace lanyard
