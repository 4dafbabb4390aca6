// The entries that processes share, when those processes are killed: nothing that they held is lost, and nothing that
// they left keeps the next job from starting. The processes are this very program, started anew with kUser set.
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

// Takes all but one, says so, and then takes and gives that one for ever.
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

// The system takes a moment to end a process.
template <typename Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition())
    if (std::chrono::steady_clock::now() > end)
      return false;
  return true;
}

TEST(FiSharedPool, WhatAKilledProcessHeldComesBack) {
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
    EXPECT_EQ(SharedPool::open(job(), kDepth + 4).status().code(), Code::kInvalidArgument) << "it is used";
    user.die();
  }
  Result<std::unique_ptr<SharedPool>> next = SharedPool::open(job(), kDepth + 4);
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_TRUE(next.value()->take(kDepth + 4));
  EXPECT_FALSE(next.value()->take(1));
  EXPECT_FALSE(SharedPool::open(job(), kDepth).ok());
  next.value().reset();
  EXPECT_LT(::semget(SharedPool::key_of(job()), 0, 0), 0) << "whoever goes last takes it along";
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
