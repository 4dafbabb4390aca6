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

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION static_cast<void>(0)
#define CALLGRIND_STOP_INSTRUMENTATION static_cast<void>(0)
#define CALLGRIND_TOGGLE_COLLECT static_cast<void>(0)
#endif

namespace lanyard::bench {
namespace {

constexpr int kSingles = 16;      // requests started one by one between two looks at the clock
constexpr int kIterations = 300;  // fixed, so that two ranks do the same
constexpr int kFirstTag = 0;
constexpr int kLiveTag = 4096;  // of requests that only exist
constexpr int kMaxLive = 2 * 8192;

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
  const auto run = [&] { return pairs.exchanges(kSingles, EnqueuePairs::Measure::kBoth, [](bool) {}); };
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

struct Options {
  long pairs = 0;
  int live = 0;
  int max_live = 2048;
  int batch = 16;
  std::string measure = "both";
  std::string kind = "send";
  int each_way = 8;
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--pairs", o.pairs,
                 "only enqueue so many start+wait pairs, for an instruction count (default: 0, off)")
      ->check(CLI::Range(0L, 1L << 40));
  app.add_option("--live", o.live, "with --pairs: other matched requests, even (default: 0)")
      ->check(CLI::Range(0, kMaxLive));
  app.add_option("--batch", o.batch, "with --pairs: exchanges enqueued before the stream goes on (default: 16)")
      ->check(CLI::Range(1, 4096));
  app.add_option(
         "--measure", o.measure,
         "with --pairs: both, send, receive; or exchange, of which a pair is one start and wait (default: both)")
      ->check(CLI::IsMember({"both", "send", "receive", "exchange"}));
  app.add_option("--each-way", o.each_way, "with --measure exchange: its sends, and its receives (default: 8)")
      ->check(CLI::Range(1, 64));
  app.add_option("--kind", o.kind, "with --pairs: send or rsend (default: send)")
      ->check(CLI::IsMember({"send", "rsend"}));
  app.add_option("--max-live", o.max_live,
                 "without --pairs: most other matched requests, of up to 4096 (default: 2048, as the "
                 "simulated card has counters for about 2700)")
      ->check(CLI::Range(0, 4096));
  app.allow_extras();
  app.footer(
      "Other options go to Google Benchmark: --benchmark_filter=REGEX, --benchmark_format=json, "
      "...");
}

// Under callgrind with --instr-atstart=no --collect-atstart=no only this thread's enqueuing is
// counted.
int run_pairs(const Options& o, EnqueueSetting& setting) {
  const SendKind kind = o.kind == "rsend" ? SendKind::kReady : SendKind::kRegular;
  const bool is_exchange = o.measure == "exchange";
  const auto measure = is_exchange              ? EnqueuePairs::Measure::kExchange
                       : o.measure == "send"    ? EnqueuePairs::Measure::kSend
                       : o.measure == "receive" ? EnqueuePairs::Measure::kReceive
                                                : EnqueuePairs::Measure::kBoth;
  EnqueuePairs others(setting, kind, o.live / 2, kLiveTag);
  EnqueuePairs pairs(setting, kind, is_exchange ? o.each_way : 1, kFirstTag, is_exchange);
  for (const EnqueuePairs* p : {&others, &pairs})
    if (!p->error().empty()) {
      fmt::print(stderr, "enqueue_cost: MPIX_Matchall: {}\n", p->error());
      return kExitMismatch;
    }
  for (int warmup = 0; warmup < 4; ++warmup)
    pairs.exchanges(o.batch, measure, [](bool) {});

  bool is_collecting = false;
  const auto mark = [&is_collecting](bool is_on) {
    if (is_on == is_collecting)
      return;
    is_collecting = is_on;
    CALLGRIND_TOGGLE_COLLECT;
  };
  const long long before = overflowed(setting);
  double seconds = 0;
  CALLGRIND_START_INSTRUMENTATION;
  const long exchanges = measure == EnqueuePairs::Measure::kBoth ? o.pairs / 2 : o.pairs;
  for (long done = 0; done < exchanges; done += o.batch)
    seconds += pairs.exchanges(static_cast<int>(std::min<long>(o.batch, exchanges - done)), measure, mark);
  CALLGRIND_STOP_INSTRUMENTATION;
  if (setting.process.is_first())
    fmt::print("pairs {} kind {} measure {} live {} ns_per_exchange {:.1f} overflowed {}\n", o.pairs, o.kind, o.measure,
               o.live, seconds * 1e9 / static_cast<double>(exchanges), overflowed(setting) - before);
  return 0;
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
  Options options;
  CLI::App app{"What MPIX_Enqueue_* cost the calling thread."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  if (process.ranks() > 2)
    return usage_error(process, "enqueue_cost", fmt::format("needs 1 or 2 ranks, not {}", process.ranks()));
  if (options.live % 2 != 0)
    return usage_error(process, "enqueue_cost", "--live must be even: a message has two requests");
  if (options.pairs % 2 != 0 && options.measure == "both")
    return usage_error(process, "enqueue_cost", "--pairs must be even: a send's and a receive's");
  if (options.kind == "rsend" && process.ranks() != 1)
    return usage_error(process, "enqueue_cost", "--kind rsend needs 1 rank");
  const std::vector<std::string> others = app.remaining();
  if (options.pairs > 0 && !others.empty())
    return usage_error(process, "enqueue_cost", "unknown option " + others.front());
  EnqueueSetting setting(process);
  return options.pairs > 0 ? run_pairs(options, setting) : run_benchmarks(argv[0], others, options.max_live, setting);
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
