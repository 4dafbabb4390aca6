// lanyard-mutants: shows for every known mistake in the protocol or a NIC by which oracle it is found, in which
// workload and how fast; and that nothing is found where there is no mistake.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "nicsim/deterministic/mutants.h"
#include "nicsim/deterministic/story.h"
#include "tools/mutants/mutant.h"

namespace {

using lanyard::nicsim::Finding;
using lanyard::nicsim::finding_name;
using lanyard::nicsim::hunt;
using lanyard::nicsim::Kill;
using lanyard::nicsim::Mutant;
using lanyard::nicsim::mutants;
using lanyard::nicsim::scheduler_name;
using lanyard::nicsim::SchedulerKind;
using lanyard::nicsim::workloads;

// What was found at the first base seed is shrunk.
constexpr std::chrono::nanoseconds kShrinking = std::chrono::seconds(2), kNone{0};

struct Options {
  uint64_t seeds = 20;
  uint64_t seconds = 60;
  uint64_t schedules = 4096;
  uint64_t only = 0;
  uint64_t jobs = 1;
  bool show = false;
  bool random = false;
};

constexpr const char* kUsage =
    "usage: lanyard-mutants [options]\n"
    "\n"
    "  --seeds N      base seeds; a mutant counts as killed where each of them kills it (20)\n"
    "  --schedules N  of each workload and base seed, at most (4096)\n"
    "  --seconds S    for a mutant and base seed, at most (60)\n"
    "  --only N       this mutant alone, with what it is and what is said of it\n"
    "  --show         with --only: nothing but a short run to it, step by step\n"
    "  --random       in random programs alone\n"
    "  --jobs J       processes at a time (1)\n"
    "  --help         this text\n"
    "\n"
    "Runs every workload without a mutant first, where nothing may be found, and then hunts each mutant in all of "
    "them.\n"
    "Exit status: 0 when every mutant is killed or proven equivalent; 1 when not; 2 for wrong usage.\n";

[[noreturn]] void complain(const std::string& what) {
  std::fprintf(stderr, "lanyard-mutants: %s (see --help)\n", what.c_str());
  std::exit(2);
}

uint64_t number(const std::string& option, const char* text, uint64_t most) {
  uint64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [last, error] = std::from_chars(text, end, value);
  if (error != std::errc() || last != end || value == 0 || value > most)
    complain(option + " takes a number from 1 to " + std::to_string(most) + ", not '" + text + "'");
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  const std::map<std::string, std::pair<uint64_t*, uint64_t>> numbers = {
      {"--seeds", {&options.seeds, 1'000'000}},
      {"--schedules", {&options.schedules, uint64_t{1} << 32}},
      {"--seconds", {&options.seconds, 1'000'000}},
      {"--only", {&options.only, mutants().back().number}},
      {"--jobs", {&options.jobs, 1024}}};
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    if (option == "--show") {
      options.show = true;
      continue;
    }
    if (option == "--random") {
      options.random = true;
      continue;
    }
    const auto found = numbers.find(option);
    if (found == numbers.end())
      complain("unknown option '" + option + "'");
    if (i + 1 == argc)
      complain(option + " needs a value");
    *found->second.first = number(option, argv[++i], found->second.second);
  }
  if (options.only != 0 && std::none_of(mutants().begin(), mutants().end(),
                                        [&](const Mutant& mutant) { return mutant.number == options.only; }))
    complain("there is no mutant " + std::to_string(options.only));
  if (options.show && options.only == 0)
    complain("--show takes --only");
  return options;
}

// Every base seed has a range of its own; where in it a hunt begins decides which scheduler is the first.
uint64_t seed_of(uint64_t base) { return base << 32 | base % lanyard::nicsim::kSchedulerKinds; }

// A hunt, and what came of it: plain data, because it crosses from a process of its own, which a mutant may well end.
struct Hunt {
  uint32_t mutant = 0;
  uint64_t base = 0;
  std::vector<uint32_t> workloads;
};
struct Result {
  uint32_t workload = 0;
  uint32_t scheduler = 0;
  uint64_t seed = 0;
  uint64_t schedules = 0;
  uint64_t steps = 0;
  uint64_t shrunk = 0;
  uint32_t finding = 0;
  bool ended = true;  // the process lived to tell
  int status = 0;     // of one that did not, by wait(2)
  std::array<char, 32> oracle{};
  std::array<char, 512> text{};
};

Result run(const Hunt& hunt_for, const Options& options) {
  const Kill kill = hunt({.mutant = hunt_for.mutant,
                          .seed = seed_of(hunt_for.base),
                          .workloads = hunt_for.workloads,
                          .schedules = options.schedules,
                          .time = std::chrono::seconds(options.seconds),
                          .shrinking = hunt_for.base == 1 ? kShrinking : kNone});
  Result result;
  result.workload = kill.workload;
  result.scheduler = static_cast<uint32_t>(kill.scheduler);
  result.seed = kill.seed;
  result.schedules = kill.schedules;
  result.steps = kill.steps;
  result.shrunk = kill.shrunk.report.step;
  result.finding = static_cast<uint32_t>(kill.report.finding);
  std::strncpy(result.oracle.data(), kill.report.oracle, result.oracle.size() - 1);
  std::strncpy(result.text.data(), kill.report.text.c_str(), result.text.size() - 1);
  return result;
}

// Every hunt in a process of its own, so many at a time.
std::vector<Result> run_all(const std::vector<Hunt>& hunts, const Options& options) {
  struct Child {
    size_t hunt;
    pid_t process;
    int pipe;
  };
  std::vector<Result> results(hunts.size());
  std::vector<Child> children;
  size_t next = 0;
  while (next < hunts.size() || !children.empty()) {
    while (next < hunts.size() && children.size() < options.jobs) {
      int ends[2];
      if (::pipe(ends) != 0)
        complain("no more pipes");
      std::fflush(nullptr);
      const pid_t child = ::fork();
      if (child < 0)
        complain("no more processes");
      if (child == 0) {
        const Result result = run(hunts[next], options);
        const bool told = ::write(ends[1], &result, sizeof(result)) == static_cast<ssize_t>(sizeof(result));
        ::_exit(told ? 0 : 1);
      }
      ::close(ends[1]);
      children.push_back({next++, child, ends[0]});
    }
    std::vector<pollfd> wanted;
    for (const Child& child : children)
      wanted.push_back({.fd = child.pipe, .events = POLLIN, .revents = 0});
    ::poll(wanted.data(), wanted.size(), -1);
    for (size_t i = wanted.size(); i-- > 0;) {
      if (wanted[i].revents == 0)
        continue;
      Result& result = results[children[i].hunt];
      // Smaller than a pipe: it comes as one piece or, from a process that died, not at all.
      result.ended = ::read(children[i].pipe, &result, sizeof(result)) == static_cast<ssize_t>(sizeof(result));
      ::close(children[i].pipe);
      ::waitpid(children[i].process, &result.status, 0);
      children.erase(children.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return results;
}

// Of a process that told nothing: "signal 11", "exit status 1".
std::string how_it_died(const Result& result) {
  return WIFSIGNALED(result.status) ? "signal " + std::to_string(WTERMSIG(result.status))
                                    : "exit status " + std::to_string(WEXITSTATUS(result.status));
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// By which oracle, in which workload: what most of them have in common.
std::string usual(const std::vector<Result>& results) {
  std::map<std::string, size_t> counts;
  for (const Result& result : results) {
    const char* finding = finding_name(static_cast<Finding>(result.finding));
    std::array<char, 256> text;
    std::snprintf(text.data(), text.size(), "%-12s %-10s %s", result.oracle.data(), finding,
                  workloads()[result.workload]);
    ++counts[text.data()];
  }
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// "random 3, pct 17"
std::string schedulers(const std::vector<Result>& results) {
  std::array<size_t, lanyard::nicsim::kSchedulerKinds> counts{};
  for (const Result& result : results)
    ++counts[result.scheduler];
  std::string text;
  for (uint32_t kind = 0; kind < counts.size(); ++kind)
    if (counts[kind] > 0)
      text += (text.empty() ? "" : ", ") + std::string(scheduler_name(static_cast<SchedulerKind>(kind))) + " " +
              std::to_string(counts[kind]);
  return text;
}

uint64_t median(std::vector<uint64_t> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The workloads to hunt in.
std::vector<uint32_t> grounds(const Options& options) {
  std::vector<uint32_t> all(workloads().size());
  std::iota(all.begin(), all.end(), 0);
  if (options.random)
    all.erase(all.begin(), all.end() - 1);
  return all;
}

// Whether nothing is found without a mutant.
bool run_clean(const Options& options) {
  std::vector<Hunt> hunts;
  const std::vector<uint32_t> all = grounds(options);
  for (const uint32_t workload : all)
    for (uint64_t base = 1; base <= options.seeds; ++base)
      hunts.push_back({.mutant = 0, .base = base, .workloads = {workload}});
  const std::vector<Result> results = run_all(hunts, options);
  bool clean = true;
  for (size_t which = 0; which < all.size(); ++which) {
    uint64_t schedules = 0;
    const Result* found = nullptr;
    for (size_t i = which * options.seeds; i < (which + 1) * options.seeds; ++i) {
      schedules += results[i].schedules;
      if (!results[i].ended || results[i].finding != 0)
        found = &results[i];
    }
    std::printf("no mutant  %-10s %10lu schedules  %s\n", found == nullptr ? "clean" : "NOT CLEAN",
                static_cast<unsigned long>(schedules), workloads()[all[which]]);
    if (found != nullptr)
      std::printf("  seed %lu: %s: %s\n", static_cast<unsigned long>(found->seed), found->oracle.data(),
                  found->ended ? found->text.data() : ("the process died, " + how_it_died(*found)).c_str());
    clean = clean && found == nullptr;
  }
  return clean;
}

// Prints the mutant's line; whether it is killed or proven.
bool judge(const Mutant& mutant, const std::vector<Result>& results) {
  if (mutant.proof != nullptr) {
    std::printf("%2u  %-37s  EQUIVALENT  %s\n", mutant.number, mutant.name, first_line(mutant.proof).c_str());
    return true;
  }
  std::vector<Result> kills;
  std::vector<uint64_t> schedules, steps;
  std::string dead;
  for (const Result& result : results) {
    if (!result.ended)
      dead += (dead.empty() ? ", dead without a word: " : ", ") + how_it_died(result);
    if (!result.ended || result.finding == 0)
      continue;  // a crash is no kill: no oracle said anything
    kills.push_back(result);
    schedules.push_back(result.schedules);
    steps.push_back(result.steps);
  }
  if (kills.size() < results.size())
    std::printf("%2u  %-37s  SURVIVES %zu of %zu base seeds%s\n", mutant.number, mutant.name,
                results.size() - kills.size(), results.size(), dead.c_str());
  if (kills.empty())
    return false;
  std::printf("%2u  %-37s  KILLED  %6lu %6lu %6lu %6lu  %-75s  %s\n", mutant.number, mutant.name,
              static_cast<unsigned long>(median(schedules)),
              static_cast<unsigned long>(*std::max_element(schedules.begin(), schedules.end())),
              static_cast<unsigned long>(median(steps)), static_cast<unsigned long>(results.front().shrunk),
              usual(kills).c_str(), schedulers(kills).c_str());
  return kills.size() == results.size();
}

// A short run to the mutant's finding.
int show(const Mutant& mutant, const Options& options) {
  const std::vector<uint32_t> all = grounds(options);
  const Kill kill = hunt({.mutant = mutant.number,
                          .seed = seed_of(1),
                          .workloads = all,
                          .schedules = options.schedules,
                          .time = std::chrono::seconds(options.seconds),
                          .shrinking = kShrinking});
  if (kill.report.ok()) {
    std::printf("mutant %u was not found\n", mutant.number);
    return 1;
  }
  const lanyard::nicsim::Shrunk& shrunk = kill.shrunk;
  const lanyard::nicsim::Report& report = shrunk.report;
  const lanyard::nicsim::Exchange exchange = shrunk.config.exchange();
  lanyard::chosen_mutant = mutant.number;
  lanyard::nicsim::World world(exchange, shrunk.config.world);
  const lanyard::nicsim::Story story = lanyard::nicsim::Story::tell(world, shrunk.schedule);
  std::printf("mutant %u: %s, in %s\n%s, schedule %s\n\n", mutant.number, mutant.mistake, mutant.place,
              shrunk.config.to_string().c_str(), lanyard::nicsim::encode(shrunk.schedule).c_str());
  for (const lanyard::nicsim::Story::Event& event : story.events)
    std::printf("%5lu  rank %u: %s\n", static_cast<unsigned long>(event.step), event.rank, event.text.c_str());
  std::printf("%s step %lu, oracle: %s\n%s\n", finding_name(report.finding), static_cast<unsigned long>(report.step),
              report.oracle, report.text.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto is_meant = [&](const Mutant& mutant) { return mutant.number == options.only; };
  if (options.only != 0 && std::none_of(mutants().begin(), mutants().end(), is_meant))
    complain("there is no mutant " + std::to_string(options.only));
  if (options.show)
    return show(*std::find_if(mutants().begin(), mutants().end(), is_meant), options);
  const bool clean = run_clean(options);
  std::printf("\n%2s  %-37s  %-6s  %6s %6s %6s %6s  %-12s %-10s %-51s  %s\n", "", "mutant", "", "median", "max",
              "steps", "shrunk", "oracle", "finding", "workload", "base seeds by scheduler");
  const std::vector<uint32_t> all = grounds(options);
  size_t wanted = 0, settled = 0;
  for (const Mutant& mutant : mutants()) {
    if (options.only != 0 && mutant.number != options.only)
      continue;
    std::vector<Hunt> hunts;
    std::vector<uint32_t> own_first = all;
    if (const auto own = std::find(own_first.begin(), own_first.end(), mutant.workload); own != own_first.end())
      std::rotate(own_first.begin(), own, own + 1);
    for (uint64_t base = 1; base <= options.seeds && mutant.proof == nullptr; ++base)
      hunts.push_back({.mutant = mutant.number, .base = base, .workloads = own_first});
    ++wanted;
    const std::vector<Result> results = run_all(hunts, options);
    settled += judge(mutant, results) ? 1 : 0;
    if (options.only != 0)
      std::printf("    %s, in %s\n    %s\n", mutant.mistake, mutant.place,
                  mutant.proof != nullptr ? mutant.proof : results.front().text.data());
    std::fflush(stdout);
  }
  std::printf("\n%zu of %zu killed or proven%s\n", settled, wanted,
              clean ? "" : "; but there were findings without a mutant");
  return clean && settled == wanted ? 0 : 1;
}
