// Stories of runs: causes of events, and well-formed traces.
#include "nicsim/deterministic/story.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/fuzz.h"

namespace lanyard::nicsim {
namespace {

constexpr const char* kPoolDeadlock = "2ranks,2req-each-way,2iter,sends-first,depth=5,blocking-post";

// Runs of every kind: clean, with each shortage and fault, and ending early.
constexpr const char* kConfigs[] = {
    "2ranks,1req-one-way,2iter",
    "3ranks,2req-each-way,2iter,queues=2",
    "2ranks,1req-each-way,2iter,bytes=0",
    "1ranks,1req-each-way,2iter,bytes=100,max-message=40",
    "2ranks,2req-each-way,2iter,depth=1",
    "2ranks,2req-each-way,2iter,single-starts,sync",
    "2ranks,2req-each-way,1iter,failures",
    "2ranks,1req-each-way,2iter,lost-rings",
    "program=0-1:8t1n/m0_x0_p0_s0_w0_y/m0r_x0r_s0r_w0r_u0_y",
    kPoolDeadlock,
};
constexpr uint64_t kSeeds = 24;

// A configuration's world and the stories of its schedules.
class Teller {
 public:
  explicit Teller(const std::string& text)
      : config_(Config::parse(text).value()), scenario_(config_.scenario()), fuzzer_(scenario_, config_.world) {}

  Story story_of(uint64_t seed) {
    const Schedule schedule = fuzzer_.record(seed);
    const uint64_t hash = fuzzer_.world().trace_hash();
    const Finding finding = fuzzer_.world().report().finding;
    Story story = Story::tell(fuzzer_.world(), schedule);
    EXPECT_EQ(fuzzer_.world().trace_hash(), hash) << "the story tells another run";
    EXPECT_EQ(story.report.finding, finding);
    EXPECT_EQ(story.events.size(), fuzzer_.world().steps());
    return story;
  }

 private:
  const Config config_;
  const Scenario scenario_;
  Fuzzer fuzzer_;
};

void for_each_story(const std::function<void(const Story&)>& check) {
  for (const char* config : kConfigs) {
    Teller teller(config);
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(std::string(config) + ", seed " + std::to_string(seed));
      check(teller.story_of(seed));
    }
  }
}

TEST(Story, StepsAreNumberedAndStagesFollowEachOther) {
  for_each_story([](const Story& story) {
    for (size_t i = 0; i < story.events.size(); ++i)
      ASSERT_EQ(story.events[i].step, i + 1);
    for (const Story::Operation& operation : story.operations) {
      const std::vector<uint32_t>& path = operation.path;
      ASSERT_FALSE(path.empty());
      for (size_t i = 1; i < path.size(); ++i)
        ASSERT_LT(path[i - 1], path[i]);
      ASSERT_LT(path.back(), story.events.size());
    }
  });
}

TEST(Story, ACleanRunLeavesNoStageOut) {
  Teller teller("2ranks,2req-each-way,2iter");
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Story story = teller.story_of(seed);
    // 4 messages, 2 iterations each: a write, a clear-to-send, and a done word on either side.
    ASSERT_EQ(story.operations.size(), 4 * 2 * 4u);
    std::map<Transit::Role, int> roles;
    for (const Story::Operation& operation : story.operations) {
      const bool data = operation.role == Transit::Role::kData, done = operation.role == Transit::Role::kDone;
      ++roles[operation.role];
      // Trigger, fire, read, land, count, ack; trigger, fire, land, count; trigger,
      // fire, land, wake.
      const std::vector<uint32_t>& path = operation.path;
      ASSERT_EQ(path.size(), data ? 6u : 4u);
      ASSERT_EQ(story.events[path[1]].kind, StepKind::kFire);
      ASSERT_EQ(story.events[path[data ? 3 : 2]].kind, StepKind::kLand);
      ASSERT_EQ(story.events[path.back()].kind, data ? StepKind::kAck : done ? StepKind::kStream : StepKind::kCount);
      if (!done)
        continue;
      ASSERT_EQ(story.events[path.back()].request, operation.request);
      ASSERT_EQ(story.events[path.back()].iteration, operation.iteration);
      // The data triggers a receive's done word; the acknowledgement triggers a send's.
      const StepKind trigger = story.events[path[0]].kind;
      const bool receive = RequestName{operation.request}.receive();
      ASSERT_TRUE(trigger == (receive ? StepKind::kCount : StepKind::kAck) || trigger == StepKind::kPost)
          << step_name(trigger);
    }
    EXPECT_EQ(roles[Transit::Role::kDone], 16);
    EXPECT_EQ(roles[Transit::Role::kClear], 8);
  }
}

TEST(Perfetto, EverySliceHasItsPlaceAndEveryFlowBothEnds) {
  for_each_story([](const Story& story) {
    const nlohmann::json trace = nlohmann::json::parse(story.perfetto_trace(), nullptr, false);
    ASSERT_FALSE(trace.is_discarded());
    std::map<std::pair<int, int>, double> free_from;  // by row
    std::set<std::pair<int, int>> rows;
    struct Flow {
      int starts = 0, finishes = 0;
      double last = 0;
    };
    std::map<uint64_t, Flow> flows;
    size_t slices = 0;
    for (const nlohmann::json& event : trace.at("traceEvents")) {
      const std::string phase = event.at("ph");
      const int process = event.at("pid");
      ASSERT_FALSE(event.at("name").get<std::string>().empty());
      if (phase == "M") {
        if (event.at("name") == "thread_name")
          rows.insert({process, event.at("tid")});
        continue;
      }
      const double ts = event.at("ts");
      const std::pair<int, int> row{process, event.at("tid")};
      ASSERT_TRUE(rows.contains(row)) << "an event in an unnamed row";
      if (phase == "X") {
        ++slices;
        ASSERT_GT(event.at("dur").get<double>(), 0);
        ASSERT_GE(ts, free_from[row]) << "two slices of a row overlap";
        free_from[row] = ts + event.at("dur").get<double>();
      } else if (phase == "s" || phase == "t" || phase == "f") {
        Flow& flow = flows[event.at("id")];
        flow.starts += phase == "s";
        flow.finishes += phase == "f";
        ASSERT_EQ(flow.starts, 1) << "a flow continues before its start, or starts twice";
        ASSERT_EQ(flow.finishes, phase == "f") << "a flow continues after its end";
        ASSERT_GT(ts, flow.last);
        flow.last = ts;
        // The flow binds to a slice.
        const Story::Event& at = story.events[static_cast<size_t>(ts) - 1];
        ASSERT_EQ(static_cast<int>(at.rank), process);
        ASSERT_EQ(static_cast<int>(at.row), row.second);
      } else {
        ASSERT_EQ(phase, "i");
        ASSERT_FALSE(story.report.ok());
      }
    }
    ASSERT_EQ(slices, story.events.size());
    for (const auto& [id, flow] : flows)
      ASSERT_EQ(flow.finishes, 1) << "flow " << id << " has no end";
  });
}

}  // namespace
}  // namespace lanyard::nicsim
