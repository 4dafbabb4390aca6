#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "gpu/device/device.h"
#include "tests/support/expect.h"

namespace lanyard::gpu {
namespace {

class CensusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/censusXXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Census> join(const std::string& thing = "gpu-1") {
    return std::move(Census::join(folder_, thing).value());
  }
  const std::string& folder() { return folder_; }

 private:
  std::string folder_;
};

TEST_F(CensusTest, CountsProcessesThatJoinAndLeave) {
  const auto first = join();
  EXPECT_FALSE(first->has_others());
  {
    const auto second = join();
    EXPECT_TRUE(first->has_others());
    EXPECT_TRUE(second->has_others());
    const auto third = join();
    EXPECT_TRUE(first->has_others());
  }
  EXPECT_FALSE(first->has_others());
}

TEST_F(CensusTest, OtherDevicesAreNotCounted) {
  const auto first = join("gpu-1");
  const auto other = join("gpu-2");
  EXPECT_FALSE(first->has_others());
  EXPECT_FALSE(other->has_others());
}

TEST_F(CensusTest, ADeadProcessIsDroppedAtTheNextJoinOrLeave) {
  const auto first = join();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Opens the file anew: a lock lives until the last process closes the open file.
    const auto own = Census::join(folder(), "gpu-1");
    const char byte = own.ok() ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) == 1 && own.ok())
      ::pause();
    ::_exit(1);
  }
  ::close(ready[1]);
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_TRUE(first->has_others());
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  join();
  EXPECT_FALSE(first->has_others());
  ::close(ready[0]);
}

TEST_F(CensusTest, AForkedChildThatLeavesDoesNotRemoveItsParent) {
  auto first = join();
  const auto second = join();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    first.reset();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto third = join();
  EXPECT_TRUE(second->has_others());
  EXPECT_TRUE(first->has_others());
  first.reset();
  EXPECT_TRUE(second->has_others());
}

TEST_F(CensusTest, AFolderThatCannotHoldTheFileIsNamed) {
  const Status status = Census::join(folder() + "/nowhere", "gpu-1").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_TRUE(has(status, "nowhere/lanyard-census-"));
}

// Without the check, growing the file beyond the limit would end the process by a signal.
TEST_F(CensusTest, AFileSizeLimitIsReported) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const Status status = Census::join(folder(), "gpu-1").status();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_TRUE(has(status, "(ulimit -f)"));
}

// Without the check, the first store into the mapped file would end the process.
TEST_F(CensusTest, AFullFileSystemIsReported) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool mounted = ::unshare(CLONE_NEWNS | (::getuid() == 0 ? 0 : CLONE_NEWUSER)) == 0 &&
                         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("census", folder().c_str(), "tmpfs", 0, "size=4096") == 0;
    const int filler = ::open((folder() + "/filler").c_str(), O_RDWR | O_CREAT, 0600);
    if (!mounted || ::write(filler, "x", 1) != 1)
      ::_exit(2);
    const Status status = Census::join(folder(), "gpu-1").status();
    ::_exit(has(status, "No space left on device") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 2)
    GTEST_SKIP() << "needs the right to mount a tmpfs";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace lanyard::gpu
