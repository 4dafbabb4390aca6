// What enqueuing costs the host: starts and waits, one by one and many at once, beside other
// matched requests. The stream stands at a gate meanwhile, so nothing but enqueuing is measured.
// See README.md.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bench/enqueue_pairs.h"
#include "bench/mpi_process.h"
#include "bench/options.h"

namespace lanyard::bench {
namespace {

constexpr int kSingles = 16;      // requests started one by one between two looks at the clock
constexpr int kIterations = 300;  // fixed, so that two ranks do the same
constexpr int kFirstTag = 0;
constexpr int kLiveTag = 4096;  // of requests that only exist

struct NamedStep {
  const char* call;
  const char* request;  // put before the name of the send's kind
  EnqueuePairs::Step step;
};
constexpr NamedStep kSteps[] = {
    {"start", "", EnqueuePairs::kStartSend},
    {"start", "receive_of_", EnqueuePairs::kStartReceive},
    {"wait", "", EnqueuePairs::kWaitSend},
    {"wait", "receive_of_", EnqueuePairs::kWaitReceive},
};

struct NamedKind {
  const char* name;
  SendKind kind;
};
constexpr NamedKind kKinds[] = {{"send", SendKind::kRegular}, {"rsend", SendKind::kReady}};

long long overflowed(const EnqueueSetting& setting) {
  return setting.queue.info().number("entries_overflowed").value_or(0);
}

// Whether the pairs are matched; else says why in the benchmark's line.
bool is_matched(benchmark::State& state, const EnqueuePairs& pairs) {
  if (!pairs.error().empty())
    state.SkipWithError(("MPIX_Matchall: " + pairs.error()).c_str());
  return pairs.error().empty();
}

// One step of an epoch of `count` requests a kind, per call.
void measure_step(benchmark::State& state, EnqueueSetting& setting, SendKind kind, EnqueuePairs::Step step, int count,
                  bool is_all) {
  EnqueuePairs pairs(setting, kind, count, kFirstTag);
  if (!is_matched(state, pairs))
    return;
  pairs.epoch(is_all);
  const long long before = overflowed(setting);
  for (auto iteration : state) {
    static_cast<void>(iteration);
    state.SetIterationTime(pairs.epoch(is_all)[step] / (is_all ? 1 : count));
  }
  state.counters["overflowed"] = static_cast<double>(overflowed(setting) - before);
}

// A start and its wait, mean of a send's and a receive's, while `live` other requests are matched.
void measure_live(benchmark::State& state, EnqueueSetting& setting, SendKind kind, int live) {
  // Tags of their own, so that what a failed match leaves behind meets nobody.
  static int next_tag = kLiveTag;
  const int first_tag = next_tag;
  next_tag += live / 2;
  EnqueuePairs others(setting, kind, live / 2, first_tag);
  if (!is_matched(state, others))
    return;
  EnqueuePairs pairs(setting, kind, 1, kFirstTag);
  if (!is_matched(state, pairs))
    return;
  const auto run = [&] { return pairs.exchanges(kSingles); };
  run();
  const long long before = overflowed(setting);
  for (auto iteration : state) {
    static_cast<void>(iteration);
    state.SetIterationTime(run() / (2 * kSingles));
  }
  state.counters["overflowed"] = static_cast<double>(overflowed(setting) - before);
}

void add(const std::string& name, std::function<void(benchmark::State&)> function) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(function))
      ->UseManualTime()
      ->Iterations(kIterations)
      ->Unit(benchmark::kNanosecond);
}

void add_all(EnqueueSetting& setting, int max_live) {
  for (const NamedKind& kind : kKinds) {
    // Between two ranks nothing makes sure that the peer's receive is started before a ready send.
    if (kind.kind == SendKind::kReady && setting.process.ranks() != 1)
      continue;
    for (const NamedStep& step : kSteps) {
      add(fmt::format("{}/{}{}", step.call, step.request, kind.name),
          [&setting, &kind, &step](benchmark::State& state) {
            measure_step(state, setting, kind.kind, step.step, kSingles, false);
          });
      for (int count = 1; count <= 256; count *= 4)
        add(fmt::format("{}all/{}{}/{}", step.call, step.request, kind.name, count),
            [&setting, &kind, &step, count](benchmark::State& state) {
              measure_step(state, setting, kind.kind, step.step, count, true);
            });
    }
    for (int live : {0, 2, 16, 128, 1024, 2048, 4096}) {
      if (live > max_live)
        continue;
      add(fmt::format("pair/{}/live:{}", kind.name, live),
          [&setting, &kind, live](benchmark::State& state) { measure_live(state, setting, kind.kind, live); });
    }
  }
}

// The other ranks run the same benchmarks and say nothing.
class SilentReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

int run_benchmarks(const char* program, std::vector<std::string> arguments, int max_live, EnqueueSetting& setting) {
  const bool is_first = setting.process.is_first();
  if (!is_first)
    std::erase_if(arguments, [](const std::string& a) { return a.starts_with("--benchmark_out"); });
  std::vector<char*> argv{const_cast<char*>(program)};
  for (std::string& a : arguments)
    argv.push_back(a.data());
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  benchmark::Initialize(&argc, argv.data());
  if (argc > 1)
    return usage_error(setting.process, "enqueue_cost", fmt::format("unknown option {}", argv[1]));
  benchmark::AddCustomContext("mpi", mpi_library());
  benchmark::AddCustomContext("ranks", fmt::to_string(setting.process.ranks()));
  const QueueInfo info = setting.queue.info();
  for (const char* key : {"nic", "strategy", "entries_depth"})
    benchmark::AddCustomContext(key, info.text(key));
  add_all(setting, max_live);
  SilentReporter silent;
  benchmark::RunSpecifiedBenchmarks(is_first ? nullptr : &silent);
  benchmark::Shutdown();
  return 0;
}

int run(int argc, char** argv, const MpiProcess& process) {
  int max_live = 2048;
  CLI::App app{"What MPIX_Enqueue_* cost the calling thread."};
  app.add_option("--max-live", max_live,
                 "most other matched requests (default: 2048; the simulated card has counters "
                 "for about 2700)")
      ->check(CLI::Range(0, 4096));
  app.allow_extras();
  app.footer("Other options go to Google Benchmark: --benchmark_filter=REGEX, --benchmark_format=json, ...");
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  if (process.ranks() > 2)
    return usage_error(process, "enqueue_cost", fmt::format("needs 1 or 2 ranks, not {}", process.ranks()));
  EnqueueSetting setting(process);
  return run_benchmarks(argv[0], app.remaining(), max_live, setting);
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
