// Communication patterns between groups of ranks by several back ends side by side, after CommBench
// (Hidayetoglu et al., ICS '24). See ../README.md.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/patterns/options.h"
#include "bench/patterns/run.h"
#include "bench/program.h"
#include "bench/report.h"
#include "bench/streams.h"

namespace lanyard::bench::patterns {
namespace {

struct Options {
  Options() { pattern.group = 0; }

  PatternOptions pattern;
  std::vector<std::string> back_ends;
  std::string sequence;
  std::string describe;
  bool concurrent = false;
  int iterations = 20;
  int warmup = 5;
  std::string memory = "host";
  std::string format = "text";
};

void declare(CLI::App& app, Options& o) {
  add_pattern_options(app, o.pattern);
  app.add_option("--nodes", o.pattern.nodes, "n (default: 2)")->check(CLI::Range(1, Pattern::kMostRanks));
  app.add_option("--group", o.pattern.group, "g, ranks of a node (default: the job's ranks over n)")
      ->check(CLI::Range(1, Pattern::kMostRanks));
  app.add_option("--bytes", o.pattern.bytes, "of a message (default: 65536), or of a file's count (4); a comma list")
      ->delimiter(',')
      ->check(CLI::Range(uint64_t{1}, Pattern::kMostBytes));
  app.add_option("--sequence", o.sequence,
                 "the patterns of the list one after another: async, each rank goes on when its own messages are done; "
                 "barrier, all ranks together. Without it each pattern is measured by itself, its steps async")
      ->check(CLI::IsMember({"async", "barrier"}));
  app.add_flag("--concurrent", o.concurrent, "the patterns of the list at once")->excludes("--sequence");
  app.add_option("--backend", o.back_ends,
                 "mpi, persistent, alltoallv, send, rsend, exchange, nccl; a comma list, whose first is the baseline "
                 "(default: all that the memory allows)")
      ->delimiter(',')
      ->check(CLI::IsMember({"mpi", "persistent", "alltoallv", "send", "rsend", "exchange", "nccl"}));
  app.add_option("--iterations", o.iterations, "timed (default: 20)")->check(CLI::Range(1, 10'000'000));
  app.add_option("--warmup", o.warmup, "iterations before them (default: 5)")->check(CLI::Range(0, 10'000'000));
  app.add_option("--describe", o.describe, "text, csv, svg: prints one pattern's messages, and runs nothing")
      ->check(CLI::IsMember({"text", "csv", "svg"}));
  add_memory(app, o.memory);
  add_format(app, o.format);
}

int describe(const Options& o, const std::vector<PatternCase>& cases, const MpiProcess& process) {
  const Plan& plan = cases.front().plan;
  if (cases.size() > 1)
    return usage_error(process, "patterns", fmt::format("--describe: one pattern, not {}", cases.size()));
  if (process.is_first())
    fmt::print("{}", o.describe == "csv"   ? messages_csv(plan)
                     : o.describe == "svg" ? matrix_svg(plan, o.pattern.group)
                                           : matrix_text(plan));
  return 0;
}

class Patterns {
 public:
  Patterns(const Options& options, const MpiProcess& process)
      : o_(options), process_(process), streams_(options.memory == "device", "patterns", process), report_("patterns") {
    report_.fact("mpi", mpi_library());
    report_.fact("ranks", process.ranks());
    report_.fact("nodes", options.pattern.nodes);
    report_.fact("group", options.pattern.group);
    report_.fact("sequence", options.sequence.empty() ? "async" : options.sequence);
    report_.fact("iterations", options.iterations);
    streams_.describe(report_);
  }

  // All cases by all back ends: those of the options, without any those that the memory allows.
  // The exit status: kExitMismatch if a result is wrong, there is none, or the options name a back
  // end that cannot be had.
  int run(const std::vector<PatternCase>& cases) {
    for (const PatternCase& one : cases) {
      double baseline = 0;
      for (const std::string& name : o_.back_ends)
        measure(one, *std::ranges::find(kBackEnds, name, &BackEnd::name), baseline);
      for (const BackEnd& back_end : kBackEnds)
        if (o_.back_ends.empty() && (streams_.has_device() || back_end.means != BackEnd::Means::kNccl))
          measure(one, back_end, baseline);
    }
    add_nic(report_, nic_);
    report_.remark("us of the slowest rank; GB/s of the median; checked: the first and the last iteration");
    const size_t least = std::max<size_t>(o_.back_ends.size() * cases.size(), 1);
    return finish(report_, o_.format, process_, report_.rows().size() >= least);
  }

 private:
  void measure(const PatternCase& one, const BackEnd& back_end, double& baseline) {
    Run run(back_end, one.plan, o_.sequence == "barrier", streams_, process_);
    if (!process_.all(run.refusal().empty())) {
      if (!run.refusal().empty())
        fmt::print(stderr, "patterns: back end {} skipped on rank {}: {}\n", back_end.name, process_.rank(),
                   run.refusal());
      return;
    }
    run.fill(0);
    for (int i = 0; i < o_.warmup; ++i)
      run.once();
    bool is_right = true;
    std::vector<double> us;
    Progress progress(fmt::format("patterns: {} by {}", one.name, back_end.name), o_.iterations, process_.is_first());
    for (int i = 0; i < o_.iterations; ++i) {
      const bool is_checked = i == 0 || i + 1 == o_.iterations;
      if (is_checked)
        run.fill(static_cast<uint64_t>(i));
      us.push_back(run.once() * 1e6);
      const auto mistake = is_checked ? run.verify(static_cast<uint64_t>(i)) : std::nullopt;
      if (mistake && is_right)
        fmt::print(stderr, "patterns: {} by {}, iteration {}, rank {}: {}\n", one.name, back_end.name, i,
                   process_.rank(), *mistake);
      is_right = is_right && !mistake;
      progress.at(i + 1);
    }
    check(MPI_Allreduce(MPI_IN_PLACE, us.data(), o_.iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    is_right = process_.all(is_right);
    if (const Json info = run.info(); !info.is_null())
      nic_ = info;
    if (!run.library().empty())
      report_.fact("nccl", run.library());
    add_row(one, back_end, us, is_right, baseline);
  }

  void add_row(const PatternCase& one, const BackEnd& back_end, std::vector<double> us, bool is_right,
               double& baseline) {
    const Estimate all = estimate(us);
    std::sort(us.begin(), us.end());
    const size_t half = us.size() / 2;
    const double median = us.size() % 2 == 1 ? us[half] : (us[half - 1] + us[half]) / 2;
    baseline = baseline > 0 ? baseline : median;
    report_.add({{"pattern", one.name},
                 {"direction", one.direction},
                 {"k", one.subgroup > 0 ? Json(one.subgroup) : Json()},
                 {"message_bytes", one.bytes},
                 {"steps", one.plan.steps().size()},
                 {"messages", one.plan.messages()},
                 {"data_bytes", one.data_bytes},
                 {"backend", back_end.name},
                 {"us_min", all.min},
                 {"us_median", median},
                 {"us_mean", all.mean},
                 {"us_max", us.back()},
                 {"GBps", static_cast<double>(one.data_bytes) / median * 1e-3},
                 {"ratio", median / baseline},
                 {"verified", is_right}});
  }

  const Options& o_;
  const MpiProcess& process_;
  const Streams streams_;
  Report report_;
  Json nic_;
};

int run(const Options& given, const MpiProcess& process) {
  Options options = given;
  PatternOptions& pattern = options.pattern;
  if (pattern.group == 0)
    pattern.group = std::max(process.ranks() / pattern.nodes, 1);
  using Order = PatternOptions::Order;
  pattern.order = options.concurrent ? Order::kConcurrent : options.sequence.empty() ? Order::kApart : Order::kSequence;
  const auto cases = make_cases(pattern);
  if (!process.all(cases.ok()))
    return usage_error(process, "patterns", cases.ok() ? "another rank cannot read a file" : cases.status().message());
  if (!options.describe.empty())
    return describe(options, cases.value(), process);
  for (const PatternCase& one : cases.value())
    if (one.plan.ranks() > process.ranks())
      return usage_error(
          process, "patterns",
          fmt::format("{}: the pattern has {} ranks, and the job {}", one.name, one.plan.ranks(), process.ranks()));
  return Patterns(options, process).run(cases.value());
}

}  // namespace
}  // namespace lanyard::bench::patterns

int main(int argc, char** argv) {
  using namespace lanyard::bench;
  return run_program(argc, argv,
                     "Communication patterns between groups of ranks, by several back ends, checked byte by byte.",
                     patterns::declare, patterns::run);
}
