// One pool of deferred-work entries for several processes, which run this program again: the driver
// while another process holds all entries, and the pool when its users are killed.
#include <gtest/gtest.h>
#include <sys/sem.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "nicsim/fi/shared_pool.h"
#include "tests/nicsim/fi_harness.h"
#include "tests/support/child_process.h"
#include "transport/cxi/ofi_nic.h"

namespace lanyard {
namespace {

constexpr const char* kHolder = "LANYARD_TEST_HOLDS";
constexpr int kDepth = 12;
constexpr uint64_t kNever = 1000;

// Takes `entries` entries, reports how many it has got, and releases them when its input ends.
int hold(int entries) {
  Loner node;
  uint64_t word = 0, target = 0;
  const auto trigger = node.counter();
  const auto region = node.region(&target, sizeof target);
  unsigned char got = 0;
  for (int i = 0; i < entries; ++i)
    got += defer_write(node, &word, 8, {0, fi_mr_key(region.get())}, {trigger.get(), kNever}) == 0;
  if (!write_all(STDOUT_FILENO, &got, 1))
    return 1;
  wait_for_end_of_input();
  return node.flush() == 0 ? 0 : 1;
}

class Holder : public ChildProcess {
 public:
  explicit Holder(int entries) : ChildProcess(kHolder, std::to_string(entries)) {
    unsigned char got = 0;
    EXPECT_TRUE(hear(&got, 1));
    EXPECT_EQ(got, entries);
  }
};

// Sets the environment of both processes.
class OfiSharedEntries : public ::testing::TestWithParam<const char*> {
 protected:
  OfiSharedEntries()
      : depth_("LANYARD_FI_SHARED_DEPTH", std::to_string(kDepth)),
        job_("LANYARD_FI_JOB", "test-" + std::to_string(::getpid())),
        pool_("LANYARD_FI_POOL", GetParam()) {
    use_provider();
  }
  bool stalls() const { return std::string(GetParam()) == "stall"; }

 private:
  const Variable depth_, job_, pool_;
};

// A driver that sends to itself.
struct DriverAlone {
  DriverAlone() {
    Result<std::unique_ptr<ofi::OfiNic>> opened = ofi::OfiNic::open({});
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    nic = std::move(opened.value());
    const nic::Address self = nic->address();
    EXPECT_TRUE(nic->set_peers({&self, 1}, 0).ok());
    trigger = nic->open_counter().value();
    done = nic->open_counter().value();
    one_region = nic->register_region(&one, sizeof one, {}).value();
    target_key = nic->key(nic->register_region(&target, sizeof target, {}).value()).value();
  }
  Status post(uint64_t threshold) {
    nic::DeferredOp op;
    op.op.kind = nic::OpKind::kAtomic;
    op.op.local = {one_region, 0};
    op.op.remote = {0, target_key, 0};
    op.op.completion = done;
    op.trigger = trigger;
    op.threshold = threshold;
    return nic->post({&op, 1});
  }
  bool counts(uint64_t wanted) {
    return eventually([&] {
      nic->progress();
      return nic->read(done).value() == nic::CounterValue{wanted, 0};
    });
  }

  uint64_t one = 1, target = 0;
  std::unique_ptr<ofi::OfiNic> nic;
  nic::CounterId trigger, done;
  nic::RegionId one_region;
  nic::RemoteKey target_key;
};

// While another process holds all entries, no work is lost. If the provider refuses work that is
// due, the driver runs it without an entry.
TEST_P(OfiSharedEntries, TheDriverWorksWithoutEntries) {
  DriverAlone mine;
  EXPECT_EQ(mine.nic->caps().deferred_depth, static_cast<uint32_t>(kDepth));
  Holder other(kDepth);
  for (uint64_t i = 1; i <= 4; ++i)
    ASSERT_TRUE(mine.post(i).ok());
  ASSERT_TRUE(mine.nic->add(mine.trigger, 2).ok());
  if (stalls()) {
    breathe();
    EXPECT_EQ(mine.nic->read(mine.done).value().reached(), 0u);
  } else {
    EXPECT_TRUE(mine.counts(2));
  }
  other.die();
  EXPECT_TRUE(mine.counts(2));
  ASSERT_TRUE(mine.nic->add(mine.trigger, 2).ok());
  EXPECT_TRUE(mine.counts(4));
  EXPECT_EQ(mine.nic->free_entries(), static_cast<uint32_t>(kDepth));
  EXPECT_EQ(mine.nic->failures(), 0u);
}

// The driver uses all entries; another process gets them afterwards.
TEST_P(OfiSharedEntries, TheDriverReturnsItsEntries) {
  DriverAlone mine;
  for (int i = 0; i < kDepth; ++i)
    ASSERT_TRUE(mine.post(1).ok());
  EXPECT_EQ(mine.post(1).code(), Code::kAgain);
  ASSERT_TRUE(mine.nic->add(mine.trigger, 1).ok());
  EXPECT_TRUE(mine.counts(kDepth));
  Holder other(kDepth);
}

INSTANTIATE_TEST_SUITE_P(Pool, OfiSharedEntries, ::testing::Values("stall", "enospc"),
                         [](const auto& info) { return std::string(info.param); });

const ChildRole kHolderRole(kHolder, [](const char* entries) { return hold(std::atoi(entries)); });

// ---- The pool: entries of killed processes become free, and the next job can start

using nicsim::fi::SharedPool;

constexpr const char* kUser = "LANYARD_TEST_USES_POOL";
constexpr uint32_t kPoolDepth = 8;

std::string job() {
  static const std::string name = "pool-test-" + std::to_string(::getpid());
  return name;
}

// Takes all entries but one, reports it, then takes and returns the last one forever.
int use(const std::string& job) {
  Result<std::unique_ptr<SharedPool>> pool = SharedPool::open(job, kPoolDepth);
  const char good = pool.ok() && pool.value()->take(kPoolDepth - 1) ? 'y' : 'n';
  if (!write_all(STDOUT_FILENO, &good, 1) || good != 'y')
    return 1;
  while (true)
    if (pool.value()->take(1))
      pool.value()->give(1);
}

struct User : ChildProcess {
  User() : ChildProcess(kUser, job()) {
    char good = 0;
    EXPECT_TRUE(hear(&good, 1));
    EXPECT_EQ(good, 'y');
  }
};

TEST(FiSharedPool, EntriesOfAKilledProcessAreFreed) {
  const std::unique_ptr<SharedPool> mine = std::move(SharedPool::open(job(), kPoolDepth).value());
  for (int round = 0; round < 60; ++round) {
    User user;
    EXPECT_FALSE(mine->take(kPoolDepth));
    std::this_thread::sleep_for(std::chrono::microseconds(37 * round % 500));
    user.die();
    ASSERT_TRUE(eventually([&] { return mine->take(kPoolDepth); })) << "round " << round;
    EXPECT_FALSE(mine->take(1));
    mine->give(kPoolDepth);
  }
}

TEST(FiSharedPool, TheNextJobStartsWithADepthOfItsOwn) {
  {
    User user;
    EXPECT_EQ(SharedPool::open(job(), kPoolDepth + 4).status().code(), Code::kInvalidArgument) << "the pool is in use";
    user.die();
  }
  Result<std::unique_ptr<SharedPool>> next = SharedPool::open(job(), kPoolDepth + 4);
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_TRUE(next.value()->take(kPoolDepth + 4));
  EXPECT_FALSE(next.value()->take(1));
  EXPECT_FALSE(SharedPool::open(job(), kPoolDepth).ok());
  next.value().reset();
  EXPECT_LT(::semget(SharedPool::key_of(job()), 0, 0), 0) << "the last user must remove the semaphore";
}

TEST(FiSharedPool, TakesAllOrNothing) {
  const std::unique_ptr<SharedPool> mine = std::move(SharedPool::open(job(), kPoolDepth).value());
  const std::unique_ptr<SharedPool> other = std::move(SharedPool::open(job(), kPoolDepth).value());
  EXPECT_TRUE(mine->take(5));
  EXPECT_FALSE(other->take(4));
  EXPECT_TRUE(other->take(3));
  mine->give(2);
  EXPECT_TRUE(other->take(2));
  EXPECT_FALSE(mine->take(1));
}

const ChildRole kUserRole(kUser, [](const char* job) { return use(job); });

}  // namespace
}  // namespace lanyard
