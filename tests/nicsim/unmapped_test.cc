// ThreadedNic between two processes: memory of a message that is not mapped any more fails that message, at its sender,
// and nothing else. Of short messages and of those that travel through the inbox it is the user's own fault signal.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/nicsim/nic_processes.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

constexpr uint64_t kLong = uint64_t{1} << 20;

class Unmapped : public TwoNicProcesses {
 protected:
  // What the child has sent to this process's memory fails, and then a short message goes.
  void expect_one_failure() {
    char word = 0;
    ASSERT_TRUE(rank.wait_for(rank.arrivals, {1}));
    ASSERT_TRUE(rank.hear(word));
    EXPECT_EQ(word, 'd') << "what the sender saw";
    EXPECT_FALSE(rank.nic->is_lost(1));
    EXPECT_TRUE(rank.nic->deregister_region(rank.region).ok());
  }
};
INSTANTIATE_TEST_SUITE_P(Over, Unmapped, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

void fail_and_go_on(NicRank& other) {
  EXPECT_TRUE(other.write(kLong).ok());
  if (!other.wait_for(other.done, {0, 1}))
    return;
  const std::optional<nic::FailureRecord> failure = other.nic->take_failure();
  const bool named = failure.has_value() && failure->code == Code::kUnmapped && failure->context == 77 &&
                     failure->to_string().find("not mapped any more") != std::string::npos;
  EXPECT_TRUE(other.write(4096).ok());
  if (other.wait_for(other.done, {1, 1}))
    other.tell(named && !other.nic->is_lost(0) ? 'd' : 'w');
}

TEST_P(Unmapped, TheSource) {
  start(
      [](NicRank& other) {
        if (other.unmap(4096))
          fail_and_go_on(other);
      },
      kLong);
  expect_one_failure();
}

TEST_P(Unmapped, TheTarget) {
  start(
      [](NicRank& other) {
        if (other.meet())
          fail_and_go_on(other);
      },
      kLong);
  ASSERT_TRUE(rank.unmap(4096) && rank.meet());
  expect_one_failure();
}

}  // namespace
}  // namespace lanyard
