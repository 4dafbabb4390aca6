// The entries that processes share, when processes are killed: their entries become free, and the
// next job can start. The processes run this program again with kUser set.
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
#include "tests/support/child_process.h"

namespace lanyard {
namespace {

using nicsim::fi::SharedPool;

constexpr const char* kUser = "LANYARD_TEST_USES_POOL";
constexpr uint32_t kDepth = 8;

std::string job() {
  static const std::string name = "pool-test-" + std::to_string(::getpid());
  return name;
}

// Takes all entries but one, reports it, then takes and returns the last one forever.
int use(const std::string& job) {
  Result<std::unique_ptr<SharedPool>> pool = SharedPool::open(job, kDepth);
  const char good = pool.ok() && pool.value()->take(kDepth - 1) ? 'y' : 'n';
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

// Retries for a while: the system needs a moment to end a process.
template <typename Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition())
    if (std::chrono::steady_clock::now() > end)
      return false;
  return true;
}

TEST(FiSharedPool, EntriesOfAKilledProcessAreFreed) {
  const std::unique_ptr<SharedPool> mine = std::move(SharedPool::open(job(), kDepth).value());
  for (int round = 0; round < 60; ++round) {
    User user;
    EXPECT_FALSE(mine->take(kDepth));
    std::this_thread::sleep_for(std::chrono::microseconds(37 * round % 500));
    user.die();
    ASSERT_TRUE(eventually([&] { return mine->take(kDepth); })) << "round " << round;
    EXPECT_FALSE(mine->take(1));
    mine->give(kDepth);
  }
}

TEST(FiSharedPool, TheNextJobStartsWithADepthOfItsOwn) {
  {
    User user;
    EXPECT_EQ(SharedPool::open(job(), kDepth + 4).status().code(), Code::kInvalidArgument) << "the pool is in use";
    user.die();
  }
  Result<std::unique_ptr<SharedPool>> next = SharedPool::open(job(), kDepth + 4);
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_TRUE(next.value()->take(kDepth + 4));
  EXPECT_FALSE(next.value()->take(1));
  EXPECT_FALSE(SharedPool::open(job(), kDepth).ok());
  next.value().reset();
  EXPECT_LT(::semget(SharedPool::key_of(job()), 0, 0), 0) << "the last user must remove the semaphore";
}

TEST(FiSharedPool, TakesAllOrNothing) {
  const std::unique_ptr<SharedPool> mine = std::move(SharedPool::open(job(), kDepth).value());
  const std::unique_ptr<SharedPool> other = std::move(SharedPool::open(job(), kDepth).value());
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
