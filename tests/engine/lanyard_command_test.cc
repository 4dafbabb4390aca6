// The `lanyard` command as a process: its exit status and its output.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/expect.h"

namespace {

using lanyard::has;

struct Outcome {
  int status = -1;
  std::string out, err;
};

std::string file_name(const char* name) { return std::string(std::getenv("TEST_TMPDIR")) + "/" + name; }

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Outcome run(const std::string& program, const std::string& arguments, const std::string& environment = "") {
  const std::string out = file_name("out"), err = file_name("err");
  const std::string command =
      environment + " tools/lanyard/" + program + " " + arguments + " >" + out + " 2>" + err + " </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(out), read(err)};
}

Outcome lanyard(const std::string& arguments, const std::string& environment = "") {
  return run("lanyard", arguments, environment);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

constexpr const char* kDeadlocks = "2ranks,2req-each-way,2iter,sends-first,depth=5,blocking-post";
constexpr const char* kFits = "2ranks,2req-each-way,2iter,sends-first,depth=6,blocking-post";
// A start needs four entries, the NIC has three, and there is no overflow.
constexpr const char* kRefused = "2ranks,1req-each-way,1iter,no-overflow,depth=3";
constexpr int kDeadlock = 12, kUser = 16;

TEST(Lanyard, ReportsAnErrorInOneLine) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "subcommand"},
      {"dance", "subcommand"},
      {"replay --config 2ranks,fast --schedule 0", "'fast'"},
      {"fuzz --config 2ranks,fast --schedules 1", "'fast'"},
      {"replay --config 2ranks --schedule 01z", "'z'"},
      {"replay --config 2ranks --schedule 018", "corrupt"},
      {"replay --config 2ranks --schedule ffffffffffffffff0", "corrupt"},
      {"replay --config 2ranks", "--schedule"},
      {"replay --config 2ranks --schedule 0 --times 0", "--times"},
      {"replay --config 2ranks --schedule 0 --times x", "--times"},
      {"fuzz --jobs 0", "--jobs"},
      {"fuzz --jobs 1000", "--jobs"},
      {"fuzz --seconds -1", "--seconds"},
      {"fuzz --schedules 0", "--schedules"},
      {"fuzz --schedules 1 --seconds 1", "--se"},
      {"fuzz --seed -1", "--seed"},
      {"fuzz --seed one", "--seed"},
      {"model", "--workload"},
      {"model --workload dance", "'dance'"},
      {"model --workload halo2d --machine nowhere", "'nowhere'"},
      {"model --workload halo2d --machine tuolumne", "has no value for: "},
      {"model --workload halo2d --ranks 0", "--ranks"},
      {"model --workload halo2d --ranks many", "--ranks"},
      {"model --workload halo2d --cells 12y12", "'12y12'"},
      {"model --workload halo2d --cells 0", "'0'"},
      {"model --workload halo2d --cells 4 --ranks 64", "fewer cells than ranks"},
      {"model --workload halo2d --ranks 64 --ranks-per-node 9", "has room for 8 ranks"},
      {"model --workload halo2d --strategy best", "'best'"},
      {"model --workload halo2d --send loud", "--send"},
      {"model --workload allreduce --ranks 12", "powers of two"},
      {"model --workload halo2d --steps 0", "--steps"},
      {"model fit", "DATA"},
      {"model fit nowhere.csv", "nowhere.csv"},
      {"model fit /dev/null", "the file is empty"},
      {"model compare /dev/null", "the file is empty"},
  };
  for (const auto& [arguments, what] : wrong) {
    const Outcome outcome = lanyard(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(has(outcome.err, what));
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  }
}

TEST(Lanyard, HelpNamesTheItemsOfConfigurations) {
  for (const char* command : {"", "fuzz ", "replay ", "explore "}) {
    const Outcome outcome = lanyard(command + std::string("--help"));
    EXPECT_EQ(outcome.status, 0);
    EXPECT_TRUE(has(outcome.out, "stale-reads"));
  }
}

TEST(Info, NamesEveryNic) {
  // hwloc's PCI plugin leaks when it is unloaded.
  const Outcome outcome = lanyard("info", "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0");
  EXPECT_EQ(outcome.status, 0);
  for (const char* fact : {"LANYARD_NIC=sim\n  card         sim/shm", "504 of 504 free", "LANYARD_NIC=cxi"})
    EXPECT_NE(outcome.out.find(fact), std::string::npos) << fact << " in\n" << outcome.out;
}

// ---- Model

TEST(Model, ReportsThatItIsModelledAndItsBound) {
  const Outcome outcome = lanyard("model --workload halo2d --ranks 16,64 --send ready");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(first_line(outcome.out), "modelled, not measured: halo2d on frontier, ready sends, coarse memory");
  EXPECT_TRUE(has(outcome.out, "bound by\n      16       8          16384x16384           -  target-counter      24"));
}

TEST(Model, OneCsvLinePerPointOfASweep) {
  const Outcome outcome = lanyard("model --workload pingpong --bytes 8,1024 --send regular,ready --csv");
  EXPECT_EQ(outcome.status, 2);  // --send takes one kind
  const Outcome sweep = lanyard("model --workload pingpong --bytes 8,1024 --strategy target-counter,sender-flag --csv");
  EXPECT_EQ(sweep.status, 0) << sweep.err;
  size_t lines = 0;
  for (size_t at = sweep.out.find("\nmodelled,frontier,pingpong,2,1,"); at != std::string::npos;
       at = sweep.out.find("\nmodelled,frontier,pingpong,2,1,", at + 1))
    ++lines;
  EXPECT_EQ(lines, 4u) << sweep.out;
  EXPECT_EQ(lanyard("model --workload pingpong --bytes 8,1024 --strategy target-counter,sender-flag --csv").out,
            sweep.out);
}

TEST(Model, TakesAMachineFromTheFileThatItPrints) {
  const Outcome printed = lanyard("model --print-machine");
  EXPECT_EQ(printed.status, 0);
  const std::string path = file_name("machine");
  std::ofstream(path) << printed.out;
  const Outcome outcome = lanyard("model --workload pingpong --csv --machine " + path);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::string wrong = file_name("wrong");
  std::ofstream(wrong) << "cpu.post -3 us a test\n";
  const Outcome refused = lanyard("model --workload pingpong --machine " + wrong);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err, "lanyard: " + wrong + ":1: cpu.post: a cost cannot be negative: -3\n");
}

TEST(Model, ComparesAndFits) {
  const std::string path = file_name("pingpong.csv");
  std::ofstream(path) << "GPU,Backend,Buffering,Iters,Items,Time\n"
                         "x,cxi-coarse,db,1000,8,0.02\nx,cxi-coarse,db,1000,1048576,0.4\n";
  const Outcome compared = lanyard("model compare --rows " + path);
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_TRUE(has(compared.out, "all                       2 rows: mean error"));
  const std::string out = file_name("fitted");
  const Outcome fitted = lanyard("model fit --no-cross-validation --out " + out + " " + path);
  EXPECT_EQ(fitted.status, 0) << fitted.err;
  EXPECT_TRUE(has(fitted.out, "kernel.cell               21."));
  EXPECT_TRUE(has(fitted.out, "unchanged: these measurements do not determine it"));
  EXPECT_EQ(lanyard("model --workload pingpong --machine " + out).status, 0);
  EXPECT_EQ(lanyard("model fit --no-cross-validation --out /nowhere/x " + path).status, 1);
}

TEST(Conformance, ReportsWhichRowsPassed) {
  const Outcome outcome = run("lanyard-conformance", "--nic sim --rows N1_*");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "nic       sim/shm"));
  EXPECT_TRUE(has(outcome.out, "N1_AlreadyMetFiresAtOnce"));
  EXPECT_TRUE(has(outcome.out, "5 passed, 0 failed, 0 skipped\n"));
}

TEST(Conformance, NoRowOrNoNicIsAFailure) {
  EXPECT_EQ(run("lanyard-conformance", "--nic sim --rows Nothing*").status, 1);
  EXPECT_EQ(run("lanyard-conformance", "--nic abacus").status, 2);
}

TEST(Replay, ACleanRunSucceedsAndRepeats) {
  const Outcome outcome = lanyard("replay --config 2ranks,1req-each-way,2iter --schedule 0213 --times 100");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "no finding\nhash "));
  EXPECT_TRUE(has(outcome.out, "100 runs the same"));
}

TEST(Replay, StepsAreListed) {
  const Outcome outcome = lanyard("replay --config 2ranks,1req-one-way,1iter --schedule 0 --steps");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(first_line(outcome.out), "    1  rank 0: host: pack (send of 0 to 1, tag 0)");
  EXPECT_TRUE(has(outcome.out, ", 35 steps"));
  EXPECT_TRUE(has(outcome.out, "\n   35  "));
}

TEST(Replay, AUserErrorHasItsOwnStatus) {
  const Outcome outcome = lanyard("replay --config " + std::string(kRefused) + " --schedule 0");
  EXPECT_EQ(outcome.status, kUser) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "USER ERROR"));
}

TEST(Fuzz, FindsThePoolDeadlockAndPrintsARepeatableCommand) {
  const Outcome found =
      lanyard("fuzz --seed 7 --jobs 2 --schedules 2000 --shrink 1 --config " + std::string(kDeadlocks));
  EXPECT_EQ(found.status, kDeadlock) << found.err;
  EXPECT_EQ(first_line(found.err), "seed 0x7");
  const std::string command = first_line(found.out);
  ASSERT_EQ(command.find("lanyard replay --config " + std::string(kDeadlocks) + " --schedule "), 0u) << command;
  const std::string arguments = command.substr(command.find("replay"), command.find("  #") - command.find("replay"));
  const Outcome again = lanyard(arguments + " --times 100");
  EXPECT_EQ(again.status, kDeadlock) << again.out << again.err;
  EXPECT_EQ(again.err, "");
  EXPECT_TRUE(has(again.out, "100 runs the same"));
  // The shrunk schedule repeats it too.
  const size_t shrunk = found.out.find("\nshrunk: lanyard ");
  ASSERT_NE(shrunk, std::string::npos) << found.out;
  const std::string shorter = first_line(found.out.substr(shrunk + 1)).substr(std::string("shrunk: lanyard ").size());
  EXPECT_EQ(lanyard(shorter).status, kDeadlock) << shorter;
  // Both outputs contain the stall reports.
  for (const std::string& text : {found.out, again.out})
    EXPECT_TRUE(has(text, " <- "));
}

TEST(Replay, DrawsTheRun) {
  const std::string path = file_name("run.json");
  const std::string run = "replay --config " + std::string(kDeadlocks) + " --schedule 1";
  const Outcome alone = lanyard(run);
  const Outcome drawn = lanyard(run + " --perfetto " + path);
  EXPECT_EQ(drawn.status, alone.status);
  EXPECT_EQ(drawn.out, alone.out);
  EXPECT_EQ(read(path).front(), '{');
  const Outcome nowhere = lanyard(run + " --perfetto " + file_name("no/such/folder"));
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_EQ(nowhere.err.find('\n'), nowhere.err.size() - 1) << nowhere.err;
}

}  // namespace
