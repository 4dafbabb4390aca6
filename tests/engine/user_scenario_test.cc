// Exchanges that a user describes: a halo exchange, and two mistakes of the program's own.
#include <gtest/gtest.h>

#include <string>

#include "nicsim/deterministic/fuzz.h"

namespace lanyard::nicsim {
namespace {

// Three ranks in a line pass their edges to both neighbours, twice as many messages in the middle.
TEST(UserExchange, AHaloExchange) {
  Scenario line(3);
  const MessageName right[] = {line.message(0, 1, {.bytes = 40, .tag = 1}),
                               line.message(1, 2, {.bytes = 40, .tag = 1})};
  const MessageName left[] = {line.message(1, 0, {.bytes = 40, .tag = 2}), line.message(2, 1, {.bytes = 40, .tag = 2})};
  line.rank(0).repeat(3, [&](HostProgram& host) {
    host.pack(right[0]).start({left[0].receive, right[0].send}).wait({left[0].receive, right[0].send}).unpack(left[0]);
  });
  line.rank(1).repeat(3, [&](HostProgram& host) {
    const std::vector<RequestName> all{right[0].receive, left[1].receive, right[1].send, left[0].send};
    host.pack(right[1]).pack(left[0]).start(all).wait(all).unpack(right[0]).unpack(left[1]);
  });
  line.rank(2).repeat(3, [&](HostProgram& host) {
    host.pack(left[1]).start({right[1].receive, left[1].send}).wait({right[1].receive, left[1].send}).unpack(right[1]);
  });
  ASSERT_TRUE(line.validate().ok());
  const Verdict verdict = fuzz(line, {.schedules = 4'000});
  EXPECT_TRUE(verdict.ok()) << verdict.report.text;
  EXPECT_EQ(verdict.schedules, 4'000u);
}

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
TEST(UserExchange, PacksABufferThatIsUnderWay) {
  Scenario scenario(2);
  const auto message = scenario.message(0, 1, {.tag = 3});
  scenario.rank(0).pack(message).start({message.send}).pack(message).wait({message.send});
  scenario.rank(1).start({message.receive}).wait({message.receive}).unpack(message);
  const Verdict verdict = fuzz(scenario, {.schedules = 100});
  EXPECT_EQ(verdict.report.finding, Finding::kUser) << verdict.report.text;
  EXPECT_NE(verdict.report.text.find("packed while"), std::string::npos) << verdict.report.text;
}

TEST(UserExchange, WhatDoesNotExistIsRefused) {
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
