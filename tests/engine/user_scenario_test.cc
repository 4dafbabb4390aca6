// Programs of a user: a halo, and two errors of the program itself.
#include <gtest/gtest.h>

#include <string>

#include "nicsim/deterministic/fuzz.h"

namespace lanyard::nicsim {
namespace {

// Each rank waits for the other's message before it sends its own.
TEST(UserExchange, WaitsInADeadlockingOrder) {
  Scenario scenario(2);
  const auto there = scenario.message(0, 1, {.tag = 7}), back = scenario.message(1, 0, {.tag = 8});
  scenario.rank(0).start({back.receive}).wait({back.receive}).pack(there).start({there.send}).wait({there.send});
  scenario.rank(1).start({there.receive}).wait({there.receive}).pack(back).start({back.send}).wait({back.send});
  const Verdict verdict = fuzz(scenario, {.schedules = 100});
  EXPECT_EQ(verdict.report.finding, Finding::kUser) << verdict.report.text;
  for (const char* fact : {"(recv, peer 1, tag 8, 16 B) waits for iteration 1",
                           "(recv, peer 0, tag 7, 16 B) waits for iteration 1", "The program itself"})
    EXPECT_NE(verdict.report.text.find(fact), std::string::npos) << fact << " in\n" << verdict.report.text;
}

// The send's buffer is filled again before the wait.
TEST(UserExchange, PacksABufferInFlight) {
  Scenario scenario(2);
  const auto message = scenario.message(0, 1, {.tag = 3});
  scenario.rank(0).pack(message).start({message.send}).pack(message).wait({message.send});
  scenario.rank(1).start({message.receive}).wait({message.receive}).unpack(message);
  const Verdict verdict = fuzz(scenario, {.schedules = 100});
  EXPECT_EQ(verdict.report.finding, Finding::kUser) << verdict.report.text;
  EXPECT_NE(verdict.report.text.find("packed while"), std::string::npos) << verdict.report.text;
}

TEST(UserExchange, InvalidRequestsAreRefused) {
  Scenario scenario(2);
  scenario.message(0, 2);
  EXPECT_EQ(scenario.validate().code(), Code::kInvalidArgument);
  Scenario foreign(2);
  const auto message = foreign.message(0, 1);
  foreign.rank(1).start({message.send});
  EXPECT_NE(foreign.validate().message().find("another rank"), std::string::npos);
}

}  // namespace
}  // namespace lanyard::nicsim
