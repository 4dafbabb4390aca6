// Machine files: accepted and refused content, and the built-in machines.
#include "nicsim/modelled/machine.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "nicsim/modelled/engine.h"
#include "nicsim/modelled/workload.h"
#include "tests/support/expect.h"

namespace lanyard::modelled {
namespace {

std::string frontier() { return Machine::open("frontier").value().to_text(); }

std::string with(const std::string& line, const std::string& other) {
  std::string text = frontier();
  const size_t begin = text.find(line);
  EXPECT_NE(begin, std::string::npos) << line;
  return text.replace(begin, text.find('\n', begin) - begin, other);
}

TEST(ModelledMachine, ReadsWhatItWrites) {
  const Machine machine = Machine::open("frontier").value();
  const Machine again = Machine::parse(machine.to_text(), "again").value();
  EXPECT_EQ(again.to_text(), machine.to_text());
  EXPECT_GT(again["kernel.cell"], 0);
  EXPECT_TRUE(has(again.figure("kernel.cell").origin, "fitted"));
}

TEST(ModelledMachine, ConvertsNanosecondsToMicroseconds) {
  const Machine machine = Machine::parse(with("cpu.post ", "cpu.post 3500 ns a test"), "x").value();
  EXPECT_EQ(machine.costs(Memory::kCoarse, 1).post, 3'500'000);
}

TEST(ModelledMachine, SharesTheHostAmongTheRanksOfANode) {
  Machine machine = Machine::open("frontier").value();
  machine.set("cpu.post", 3, "a test");
  machine.set("cpu.post_shared", 0.25, "a test");
  EXPECT_EQ(machine.costs(Memory::kCoarse, 5).post, 4 * kMicrosecond);
}

TEST(ModelledMachine, NamesTheLineOfAnError) {
  const std::pair<std::string, const char*> wrong[] = {
      {"speed 3 us a test\n", "x:1: there is no figure 'speed'"},
      {"cpu.post -1 us a test\n", "x:1: cpu.post: a cost cannot be negative: -1"},
      {"\n# comment\ncpu.post fast us a test\n", "x:3: cpu.post: 'fast' is no number"},
      {"cpu.post nan us a test\n", "x:1: cpu.post: 'nan' is no number"},
      {"cpu.post 3 s a test\n", "x:1: cpu.post: the unit must be us, not 's'"},
      {"cpu.post 3 us\n", "x:1: cpu.post needs a value, a unit and an origin"},
      {"cpu.post 3\n", "x:1: cpu.post needs a value, a unit and an origin"},
      {"cpu.post 3 us a\ncpu.post 3 us b\n", "x:2: cpu.post is given twice"},
      {"node.ranks 0 ranks a test\n", "x:1: node.ranks: 0 is out of range"},
      {"node.ranks 1.5 ranks a test\n", "x:1: node.ranks: 1.5 is out of range"},
      {"cpu.post 1e9 us a test\n", "x:1: cpu.post: 1e9 is out of range"},
  };
  for (const auto& [text, what] : wrong) {
    const Result<Machine> machine = Machine::parse(text, "x");
    ASSERT_FALSE(machine.ok()) << text;
    EXPECT_EQ(machine.status().message(), what);
  }
}

TEST(ModelledMachine, NamesMissingFigures) {
  const Result<Machine> machine = Machine::parse(with("stream.ring ", "stream.ring ? us not measured"), "x");
  ASSERT_FALSE(machine.ok());
  EXPECT_EQ(machine.status().message(), "the machine x has no value for: stream.ring");
  const Result<Machine> tuolumne = Machine::open("tuolumne");
  ASSERT_FALSE(tuolumne.ok());
  EXPECT_TRUE(has(tuolumne.status(), "kernel.cell"));
  EXPECT_TRUE(has(Machine::open("nowhere").status(), "frontier"));
}

// ---- Jobs on a machine

Workload halo(uint32_t ranks, uint32_t per_node) {
  return {.kind = Kind::kHalo2d, .ranks = ranks, .ranks_per_node = per_node, .cells = {256, 256, 1}};
}

TEST(ModelledWorkload, SplitsRanksEvenly) {
  const auto expect = [](uint32_t ranks, int dimensions, std::array<uint32_t, 3> parts) {
    EXPECT_EQ(split(ranks, dimensions), parts) << ranks;
  };
  expect(1, 2, {1, 1, 1});
  expect(2, 2, {2, 1, 1});
  expect(12, 2, {4, 3, 1});
  expect(8192, 2, {128, 64, 1});
  expect(7, 2, {7, 1, 1});
  expect(64, 3, {4, 4, 4});
  expect(65536, 3, {64, 32, 32});
}

TEST(ModelledWorkload, RefusesImpossibleJobs) {
  const Machine machine = Machine::open("frontier").value();
  const auto refused = [&](const Workload& workload) {
    const Result<Job> job = make_job(workload, machine);
    return job.ok() ? std::string("made") : job.status().message();
  };
  EXPECT_EQ(refused(halo(64, 9)), "a node of frontier has room for 8 ranks");
  EXPECT_EQ(refused(halo(0, 1)), "a job needs at least one rank, and a node at least one rank");
  Workload few = halo(64, 8);
  few.cells = {4, 256, 1};
  EXPECT_EQ(refused(few), "fewer cells than ranks along a dimension");
  Workload many = halo(1, 1);
  many.cells = {1'000'000, 1'000'000, 1};
  EXPECT_EQ(refused(many), "more than 100 billion cells on a rank");
  many.kind = Kind::kHalo3d;
  many.cells = {1u << 22, 1u << 21, 1u << 21};  // 2^64 in all
  EXPECT_EQ(refused(many), "more than 100 billion cells on a rank");
  EXPECT_EQ(refused({.kind = Kind::kPingPong, .ranks = 3}), "pingpong needs exactly 2 ranks");
  EXPECT_EQ(refused({.kind = Kind::kAllreduce, .ranks = 12}), "allreduce is modelled for powers of two of ranks only");
  EXPECT_EQ(refused({.kind = Kind::kAllreduce, .ranks = 8, .ready = true}),
            "allreduce cannot use ready sends: no receive is known to be started");
  EXPECT_EQ(parse_kind("dance").status().message(),
            "there is no workload 'dance' (pingpong, halo2d, halo3d, allreduce, cg)");
}

TEST(ModelledWorkload, ATypicalRankIsLikeAllOthers) {
  const Machine machine = Machine::open("frontier").value();
  for (const uint32_t per_node : {1u, 8u})
    for (const bool ready : {false, true}) {
      Workload workload = halo(64, per_node);
      workload.ready = ready;
      const Job whole = make_job(workload, machine).value(), typical = make_typical_job(workload, machine).value();
      EXPECT_EQ(typical.ranks(), per_node == 8 ? 2u : 1u);
      EXPECT_EQ(run(typical, {.steps = 10}).value().ends, run(whole, {.steps = 10}).value().ends);
    }
}

TEST(ModelledWorkload, MergedKernelsSaveFourteenLaunches) {
  Machine machine = Machine::open("frontier").value();
  for (const char* host : {"cpu.post", "cpu.post_shared", "cpu.launch"})
    machine.set(host, 0, "a test");
  Workload workload = halo(64, 1);
  workload.ready = true;
  const auto time = [&] { return run(make_job(workload, machine).value(), {.steps = 20}).value().step_time(); };
  const Picoseconds apart = time();
  workload.merged = true;
  // The same bytes are copied, but one sum is rounded where eight were.
  EXPECT_NEAR(static_cast<double>(apart - time()), static_cast<double>(14 * machine.time("kernel.halo")), 8);
}

TEST(ModelledWorkload, AllreduceTakesAStageForEachDoubling) {
  const Machine machine = Machine::open("frontier").value();
  const auto time = [&](uint32_t ranks) {
    const Workload workload{.kind = Kind::kAllreduce, .ranks = ranks};
    return run(make_job(workload, machine).value(), {.steps = 20}).value().step_time();
  };
  EXPECT_EQ(time(4), 2 * time(2));
  EXPECT_EQ(time(64), 6 * time(2));
}

}  // namespace
}  // namespace lanyard::modelled
