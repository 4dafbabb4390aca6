// Communication patterns between groups of ranks, by several back ends side by side, after CommBench (Hidayetoglu et
// al., ICS '24). See README.md.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/back_end.h"
#include "bench/from_first.h"
#include "bench/mpi_process.h"
#include "bench/options.h"
#include "bench/pattern_description.h"
#include "bench/pattern_options.h"
#include "bench/pattern_report.h"
#include "bench/pattern_run.h"
#include "bench/plan_file.h"
#include "bench/plan_share.h"
#include "bench/results.h"
#include "bench/streams.h"

namespace lanyard::bench {
namespace {

struct NamedBackEnd {
  const char* name;
  BackEndKind kind;
  bool needs_device = false;  // else part of "all" on the host, too
};
// Baselines first: on the host they run before there is a network card.
constexpr NamedBackEnd kBackEnds[] = {
    {"mpi", BackEndKind::kMpi},
    {"persistent", BackEndKind::kPersistent},
    {"staged", BackEndKind::kStaged, true},
    {"nccl", BackEndKind::kNccl, true},
    {"lanyard", BackEndKind::kLanyard},
    {"exchange", BackEndKind::kExchange},
    {"neighbour", BackEndKind::kNeighbour},
};

constexpr int kMostMatrixRanks = 4096;  // as text

struct Options {
  PatternOptions pattern;
  PatternRunOptions run;
  std::vector<std::string> back_ends = {"all"};
  std::string memory = "host";
  std::string check = "all";
  bool isolate = false;
  bool describe = false;
  bool law = false;
  std::vector<int> nics = {1, 2, 4, 8};
  double nic_rate = 25;
  Format format = Format::kText;

  bool has(const char* back_end) const {
    return std::find(back_ends.begin(), back_ends.end(), back_end) != back_ends.end();
  }
  bool wants(const NamedBackEnd& b, bool on_device) const {
    return has(b.name) || (has("all") && (on_device || !b.needs_device));
  }
};

// CLI11 converts by strtoull(), which takes -1 for the greatest number, and whatever is greater for that too.
CLI::Validator whole_number() {
  const auto mistake = [](const std::string& text) {
    uint64_t value = 0;
    const bool is_one = std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
    return is_one ? "" : fmt::format("'{}' is no whole number from 0 to {}", text, UINT64_MAX);
  };
  return CLI::Validator(mistake, "");
}

void declare_pattern(CLI::App& app, PatternOptions& o) {
  const std::vector<std::string> names(pattern_names().begin(), pattern_names().end());
  constexpr int kMany = 1 << 20;
  app.add_option("--pattern", o.patterns,
                 fmt::format("one, or a comma list of: {} (default: rail)", fmt::join(names, ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--order", o.order,
                 "of several: sequence, each waits for the one before; concurrent (default: sequence)")
      ->check(CLI::IsMember({"sequence", "concurrent"}));
  app.add_option("--nodes", o.nodes, "n (default: what --group says, or 2; 1 where the job's ranks are odd)")
      ->check(CLI::Range(1, kMany));
  app.add_option("--group", o.group, "g, ranks of a node (default: the job's ranks over the nodes)")
      ->check(CLI::Range(1, kMany));
  app.add_option("--subgroup", o.subgroup, "k, of those that take part (default: all)")->check(CLI::Range(1, kMany));
  app.add_option("--direction", o.direction, "of rail, fan, dense: out, in, bi, omni (default: out)")
      ->check(CLI::IsMember({"out", "in", "bi", "omni"}));
  app.add_option("--bytes", o.bytes, "of a message; direct and striped: of all (default: 65536)")
      ->transform(CLI::AsSizeValue(false))
      ->transform(whole_number());  // one that is added later comes first
  app.add_option("--stripes", o.stripes, "striped and direct: bytes of each stripe, a comma list (default: even)")
      ->delimiter(',')
      ->check(whole_number());
  app.add_option("--total-bytes", o.total_bytes,
                 "irregular16 and irregular48: of all messages (default: 92900000 and 176300000)")
      ->check(whole_number());
  app.add_option("--seed", o.seed, "of irregular16 and irregular48 (default: 1)")->check(whole_number());
  app.add_option("--file", o.file, "of --pattern file: CSV, a line a message");
  app.add_option("--part", o.part, "all; within: messages that stay in a node; between (default: all)")
      ->check(CLI::IsMember({"all", "within", "between"}));
}

void declare(CLI::App& app, Options& o) {
  declare_pattern(app, o.pattern);
  app.add_option(
         "--mode", o.back_ends,
         "all, or a comma list of mpi, persistent, staged, nccl, lanyard, exchange, neighbour; all has none that "
         "needs a GPU on the host (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "mpi", "persistent", "staged", "nccl", "lanyard", "exchange", "neighbour"}));
  app.add_option("--iterations", o.run.iterations, "timed (default: 50)")->check(CLI::Range(1, 10'000'000));
  app.add_option("--warmup", o.run.warmup, "iterations before the timed ones (default: 5)")
      ->check(CLI::Range(0, 10'000'000));
  app.add_option("--batch", o.run.batch,
                 "times that an iteration carries out the pattern before the host waits (default: 1)")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--check", o.check,
                 "iterations whose bytes are compared: all, the warm-up's too; ends: the first and the last timed one "
                 "(default: all)")
      ->check(CLI::IsMember({"all", "ends"}));
  app.add_flag("--isolate", o.isolate, "measure each step by itself, too");
  app.add_flag("--describe", o.describe, "print the matrix (csv: all messages, as --file takes them), and end");
  app.add_flag("--law", o.law, "print the bandwidth that network cards would allow, and end");
  app.add_option("--nics", o.nics, "--law: network cards of a node, a comma list (default: 1,2,4,8)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--nic-rate", o.nic_rate, "--law: GB/s of a card, each way (default: 25)");
  add_memory(app, o.memory);
  add_format(app, o.format);
}

void describe(const Options& o, const Plan& plan) {
  if (o.format == Format::kCsv)
    return fmt::print("{}", to_csv(plan));
  if (o.format == Format::kText) {
    fmt::print("# {} ranks, {} messages in {} steps, {} bytes\n", plan.ranks(), plan.messages(), plan.steps().size(),
               plan.bytes());
    return fmt::print("{}", matrix_text(plan));
  }
  Record steps = Record::array();
  for (const Step& step : plan.steps()) {
    Record& messages = steps.emplace_back(Record::array());
    for (const Message& m : step.pattern.messages())
      messages.push_back({{"source", m.source},
                          {"destination", m.destination},
                          {"source_offset", m.source_offset},
                          {"destination_offset", m.destination_offset},
                          {"bytes", m.bytes}});
  }
  fmt::print("{}\n", Record{{"ranks", plan.ranks()}, {"bytes", plan.bytes()}, {"steps", steps}}.dump(2));
}

void print_law(const Options& o, const Plan& plan, int ranks) {
  const std::vector<LawRow> rows = law_rows(plan, o.pattern.group, o.nics, o.nic_rate);
  if (o.format == Format::kText)
    return fmt::print("{}", law_text(rows, o.pattern.group, o.nic_rate));
  Results results("patterns_law", ranks, Place());
  results.set("group", o.pattern.group);
  results.set("nic_GBps", o.nic_rate);
  for (const LawRow& row : rows)
    results.add(record(row));
  o.format == Format::kCsv ? results.print_csv() : results.print_json(Record::object());
}

class Patterns {
 public:
  Patterns(const Options& options, const Plan& plan, const MpiProcess& process)
      : options_(options), plan_(plan), streams_(options.memory == "device", "patterns", process), process_(process) {
    report_.place = streams_.place();
    report_.ranks = process.ranks();
    report_.options = options.pattern;
    report_.iterations = options.run.iterations;
    report_.batch = options.run.batch;
    report_.check = options.check;
  }
  bool has_device() const { return streams_.has_device(); }

  void run() {
    run(plan_, "all");
    if (!options_.isolate || plan_.steps().size() < 2)
      return;
    for (size_t step = 0; step < plan_.steps().size(); ++step)
      run(Plan({plan_.steps()[step]}), std::to_string(step));
  }
  const PatternReport& report() const { return report_; }

 private:
  // The baseline is measured in any case: mpi, or what takes its place where the MPI takes no memory of GPUs.
  void run(const Plan& plan, const std::string& steps) {
    double baseline = 0;
    for (const NamedBackEnd& back_end : kBackEnds) {
      const bool is_baseline =
          baseline == 0 && (back_end.kind == BackEndKind::kMpi || back_end.kind == BackEndKind::kStaged);
      const bool wanted = options_.wants(back_end, has_device());
      if (!is_baseline && !wanted)
        continue;
      PatternResult result = run_plan(back_end.kind, back_end.name, plan, options_.run, streams_, process_);
      if (result.is_refused) {
        if (process_.is_first())
          fmt::print(stderr, "patterns: back end {} skipped: {}\n", back_end.name,
                     result.refusal.empty() ? "not possible on another rank" : result.refusal);
        continue;
      }
      report_.ran_right = report_.ran_right && result.is_right;
      PatternRow row;
      row.back_end = back_end.name;
      row.steps = steps;
      row.messages = plan.messages();
      row.bytes = plan.bytes();
      row.us = std::move(result.us);
      if (is_baseline) {
        baseline = row.median();
        report_.baseline = back_end.name;
      }
      if (!wanted)
        continue;
      row.baseline_us = baseline;
      row.entries = result.entries;
      row.is_right = result.is_right;
      if (!result.nic.empty())
        report_.nic = result.nic;
      if (!result.library.empty())
        report_.library = result.library;
      report_.rows.push_back(std::move(row));
    }
  }

  const Options& options_;
  const Plan& plan_;
  const Streams streams_;
  const MpiProcess& process_;
  PatternReport report_;
};

// Rank 0 alone reads it, so that all ranks have the same. Empty without a file. Collective.
Result<std::string> file_text(const std::string& path, const MpiProcess& process) {
  if (path.empty())
    return std::string();
  Result<std::string> read = process.is_first() ? read_text(path) : std::string();
  if (!process.all(read.ok()))
    return read.ok() ? Status(Code::kNotFound, fmt::format("{}: cannot be read by rank 0", path)) : read.status();
  from_first(read.value());
  return read;
}

// What is wrong with a plan for this job; empty when nothing is.
std::string mistake(const Plan& plan, int ranks) {
  if (plan.ranks() > ranks)
    return fmt::format("the pattern has {} ranks, and the job {}", plan.ranks(), ranks);
  if (most_between_two(plan) > PlanShare::kMostTags)
    return fmt::format("{} messages from one rank to another: there can be {}", most_between_two(plan),
                       PlanShare::kMostTags);
  return "";
}

int run(int argc, char** argv, const MpiProcess& process) {
  Options options;
  CLI::App app{"Communication patterns between groups of ranks, by several back ends, checked byte by byte."};
  declare(app, options);
  if (const auto status = parse(app, argc, argv, process))
    return *status;
  options.run.checks_all = options.check == "all";
  if (!std::isfinite(options.nic_rate) || options.nic_rate <= 0)
    return usage_error(process, "patterns", fmt::format("--nic-rate {}: a finite number above 0", options.nic_rate));
  if (const Status status = complete(options.pattern, process.ranks()); !status.ok())
    return usage_error(process, "patterns", status.message());
  const bool carries_out = !options.describe && !options.law;
  // Before anything of that size is made.
  const int needed = is_of_nodes(options.pattern) ? options.pattern.nodes * options.pattern.group : 0;
  if (carries_out && needed > process.ranks())
    return usage_error(process, "patterns",
                       fmt::format("--nodes {} of --group {}: {} ranks, and the job has {}", options.pattern.nodes,
                                   options.pattern.group, needed, process.ranks()));
  const Result<std::string> text = file_text(options.pattern.file, process);
  if (!text.ok())
    return usage_error(process, "patterns", text.status().message());
  const Result<Plan> plan = make_plan(options.pattern, text.value());
  if (!plan.ok())
    return usage_error(process, "patterns", plan.status().message());
  if (options.describe && options.format == Format::kText && plan.value().ranks() > kMostMatrixRanks)
    return usage_error(process, "patterns",
                       fmt::format("--describe: a matrix of {} ranks, and as text it has at most {}: --format csv "
                                   "gives the messages",
                                   plan.value().ranks(), kMostMatrixRanks));
  if (!carries_out) {
    if (process.is_first() && options.describe)
      describe(options, plan.value());
    if (process.is_first() && options.law)
      print_law(options, plan.value(), process.ranks());
    return 0;
  }
  if (const std::string what = mistake(plan.value(), process.ranks()); !what.empty())
    return usage_error(process, "patterns", what);
  Patterns patterns(options, plan.value(), process);
  if (patterns.has_device() && plan.value().combines())
    return usage_error(process, "patterns", "reductions combine in host memory only: --memory must be host");
  patterns.run();
  if (process.is_first())
    patterns.report().print(options.format);
  if (process.is_first() && patterns.report().rows.empty())
    fmt::print(stderr, "patterns: no mode of --mode {} could run\n", fmt::join(options.back_ends, ","));
  return patterns.report().is_right() ? 0 : kExitMismatch;
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::MpiProcess process(&argc, &argv);
  return lanyard::bench::run(argc, argv, process);
}
