// lanyard model: how long a program's steps would take on a machine.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/patterns/options.h"
#include "nicsim/modelled/engine.h"
#include "nicsim/modelled/machine.h"
#include "nicsim/modelled/workload.h"
#include "tools/lanyard/command.h"
#include "tools/lanyard/pattern_model.h"

namespace lanyard::tools {

namespace {

using modelled::Kind;
using modelled::Machine;
using modelled::Memory;
using modelled::Workload;

struct Options {
  std::string machine = "frontier";
  std::string workload;
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> ranks_per_node;
  std::vector<std::string> cells = {"16384"};
  std::vector<uint64_t> bytes;  // none: what --help says
  std::vector<std::string> strategies = {"target-counter"};
  std::string send = "regular";
  std::string memory = "coarse";
  bool exchange = false;
  bool merged = false;
  bool weak = false;
  bool csv = false;
  bool print_machine = false;
  uint32_t steps = 40;
  bench::patterns::PatternOptions patterns;
  std::string binding = "packed";
};

constexpr uint32_t kMostRanks = 1 << 20;

void declare(CLI::App& app, Options& o) {
  const auto list = [](CLI::Option* option, const char* type) { option->delimiter(',')->type_name(type); };
  app.add_option("--machine", o.machine, "the machine: frontier, tuolumne, or a file as --print-machine prints it")
      ->type_name("NAME|FILE");
  app.add_option("--workload", o.workload, "pingpong, halo2d, halo3d, allreduce, cg, pattern")->type_name("NAME");
  list(app.add_option("--ranks", o.ranks, "number of ranks (default: 2 of pingpong, two nodes of pattern, else 64)")
           ->check(CLI::Range(1u, kMostRanks).description("")),
       "N,...");
  list(app.add_option("--ranks-per-node", o.ranks_per_node, "ranks on each node (default: as many as fit; pingpong: 1)")
           ->check(CLI::Range(1u, kMostRanks).description("")),
       "N,...");
  list(app.add_option("--cells", o.cells, "halos and cg: cells along each side, or along x, y and z (default: 16384)"),
       "N|NxM|NxMxK,...");
  app.add_flag("--weak", o.weak, "--cells is the size of one rank's part, not of the whole grid");
  list(app.add_option("--bytes", o.bytes,
                      "pingpong, allreduce and pattern: bytes of a message (default: 8; of pattern 65536, or 4 of a "
                      "file's count)")
           ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30).description("")),
       "N,...");
  list(app.add_option("--strategy", o.strategies, "target-counter (default), sender-flag"), "NAME,...");
  app.add_option("--send", o.send, "kind of sends: regular (default) or ready")
      ->check(CLI::IsMember({"regular", "ready"}).description(""));
  app.add_option("--memory", o.memory, "memory of the messages: coarse (default) or fine")
      ->check(CLI::IsMember({"coarse", "fine"}).description(""));
  app.add_flag("--exchange", o.exchange, "make the requests of one start an exchange");
  app.add_flag("--merge-kernels", o.merged, "halos and cg: pack all edges in one kernel, unpack them in one");
  add_pattern_options(app, o.patterns);
  app.add_option("--binding", o.binding, "pattern: how ranks share their node's NICs: packed (default), round-robin")
      ->check(CLI::IsMember({"packed", "round-robin"}).description(""));
  app.add_option("--steps", o.steps, "steps to run; the time is that of the second half; pattern: of all (default: 40)")
      ->check(CLI::Range(2u, 1'000'000u).description(""))
      ->type_name("N");
  app.add_flag("--csv", o.csv, "print one CSV line for each job");
  app.add_flag("--print-machine", o.print_machine, "print the machine's figures with their origins");
}

std::array<uint64_t, 3> parse_cells(const std::string& text) {
  std::array<uint64_t, 3> cells = {};
  int count = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (; count < 3; ++at) {
    const auto [next, error] = std::from_chars(at, end, cells[count]);
    if (error != std::errc() || cells[count] == 0 || cells[count] > 1'000'000'000)
      break;
    ++count;
    at = next;
    if (at == end || *at != 'x')
      break;
  }
  if (at != end || count == 0)
    usage_error("'" + text + "' is not a number of cells (examples: 16384, 16384x8192, 512x512x512)");
  for (int d = count; d < 3; ++d)
    cells[d] = count == 1 ? cells[0] : 1;
  return cells;
}

core::Strategy parse_strategy(const std::string& name) {
  for (const core::Strategy strategy : core::kStrategies)
    if (name == core::strategy_name(strategy))
      return strategy;
  usage_error("there is no strategy '" + name + "'");
}

// All combinations of the options.
std::vector<Workload> workloads(const Options& o, const Machine& machine) {
  const Kind kind = value_of(modelled::parse_kind(o.workload));
  const bool ping_pong = kind == Kind::kPingPong;
  const bool by_cells = !ping_pong && kind != Kind::kAllreduce;
  const std::vector<uint32_t> ranks = !o.ranks.empty() ? o.ranks : std::vector<uint32_t>{ping_pong ? 2u : 64u};
  std::vector<Workload> all;
  for (const std::string& name : o.strategies)
    for (const std::string& text : by_cells ? o.cells : std::vector<std::string>{"1"})
      for (const uint64_t bytes : by_cells || o.bytes.empty() ? std::vector<uint64_t>{8} : o.bytes)
        for (const uint32_t count : ranks) {
          const uint32_t fit = std::min(count, static_cast<uint32_t>(machine["node.ranks"]));
          for (const uint32_t per_node :
               !o.ranks_per_node.empty() ? o.ranks_per_node : std::vector<uint32_t>{ping_pong ? 1u : fit}) {
            Workload& workload = all.emplace_back();
            workload = {.kind = kind,
                        .ranks = count,
                        .ranks_per_node = per_node,
                        .cells = parse_cells(text),
                        .bytes = bytes,
                        .strategy = parse_strategy(name),
                        .ready = o.send == "ready",
                        .exchange = o.exchange,
                        .merged = o.merged,
                        .memory = o.memory == "fine" ? Memory::kFine : Memory::kCoarse};
            const int dimensions = kind == Kind::kHalo3d ? 3 : 2;
            const std::array<uint32_t, 3> parts = modelled::split(count, dimensions);
            for (int d = 0; o.weak && d < dimensions; ++d)
              workload.cells[d] *= parts[d];
          }
        }
  return all;
}

void print_head(const Options& o) {
  if (o.csv)
    return fmt::print(
        "modelled,machine,workload,ranks,ranks_per_node,cells_x,cells_y,cells_z,bytes,strategy,send,memory,exchange,"
        "merged_kernels,entries,steps,us_a_step,host_us_a_step,bound\n");
  fmt::print("modelled, not measured: {} on {}, {} sends, {} memory{}{}\n", o.workload, o.machine, o.send, o.memory,
             o.exchange ? ", exchanges" : "", o.merged ? ", kernels merged" : "");
  fmt::print("{:>8} {:>7} {:>20} {:>11}  {:14} {:>7} {:>12} {:>10}  {}\n", "ranks", "a node", "cells", "bytes",
             "strategy", "entries", "us a step", "host us", "bound by");
}

void print_row(const Options& o, const Workload& w, const modelled::Job& job, const modelled::Timing& timing) {
  const modelled::Picoseconds host_step = job.program(0).host_step;
  const double us = static_cast<double>(timing.step_time()) * 1e-6, host = static_cast<double>(host_step) * 1e-6;
  // "host" if the host is never idle.
  const char* bound = host_step * 200 >= timing.step_time() * 199 ? "host" : "stream";
  const bool by_cells = w.kind != Kind::kPingPong && w.kind != Kind::kAllreduce;
  const size_t entries = job.program(0).entries.size();
  if (o.csv) {
    fmt::print("modelled,{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.4f},{:.4f},{}\n", o.machine,
               modelled::kind_name(w.kind), w.ranks, w.ranks_per_node, w.cells[0], w.cells[1], w.cells[2], w.bytes,
               core::strategy_name(w.strategy), o.send, o.memory, o.exchange ? 1 : 0, o.merged ? 1 : 0, entries,
               o.steps, us, host, bound);
    return;
  }
  std::string cells = "-";
  if (by_cells) {
    cells = fmt::format("{}x{}", w.cells[0], w.cells[1]);
    if (w.kind == Kind::kHalo3d)
      cells += fmt::format("x{}", w.cells[2]);
  }
  fmt::print("{:>8} {:>7} {:>20} {:>11}  {:14} {:>7} {:>12.2f} {:>10.2f}  {}\n", w.ranks, w.ranks_per_node, cells,
             by_cells ? "-" : std::to_string(w.bytes), core::strategy_name(w.strategy), entries, us, host, bound);
}

// The patterns of the options on so many ranks.
void model_patterns(const Options& o, const Machine& machine, uint32_t ranks, uint32_t per_node, bool is_first) {
  const core::Strategy strategy = parse_strategy(o.strategies.front());
  if (o.strategies.size() > 1)
    usage_error("--strategy: one for patterns");
  if (per_node > machine["node.ranks"] || ranks % per_node != 0)
    usage_error(fmt::format("{} ranks, {} a node: a node of {} has room for {}, and all nodes are alike", ranks,
                            per_node, machine.name(), machine["node.ranks"]));
  bench::patterns::PatternOptions patterns = o.patterns;
  patterns.bytes = o.bytes;
  patterns.nodes = static_cast<int>(ranks / per_node);
  patterns.group = static_cast<int>(per_node);
  const auto cases = value_of(make_cases(patterns));
  PatternModel model{machine.placement(per_node), strategy, o.send == "ready", o.exchange};
  model.placement.round_robin = o.binding == "round-robin";
  if (is_first && o.csv)
    fmt::print(
        "modelled,machine,pattern,direction,ranks,ranks_per_node,subgroup,bytes,binding,strategy,send,exchange,"
        "data_bytes,us,GBps,law_GBps\n");
  else if (is_first)
    fmt::print(
        "modelled, not measured: patterns on {}, {}, {} sends, {} cards a node, {}{}\n{:20} {:>9} {:>7} {:>7} "
        "{:>8} {:>11} {:>14} {:>12} {:>10} {:>10}\n",
        o.machine, o.strategies.front(), o.send, machine["node.nics"], o.binding, o.exchange ? ", exchanges" : "",
        "pattern", "direction", "ranks", "a node", "subgroup", "bytes", "bytes of all", "us", "GB/s", "law, GB/s");
  for (const bench::patterns::PatternCase& one : cases) {
    if (static_cast<uint32_t>(one.plan.ranks()) > ranks)
      usage_error(fmt::format("{}: the pattern has {} ranks, not {}", one.name, one.plan.ranks(), ranks));
    const modelled::Job job = value_of(make_pattern_job(one.plan, ranks, machine, model));
    const modelled::Timing timing = value_of(modelled::run(job, {.steps = o.steps}));
    const auto us = [](modelled::Picoseconds time) { return static_cast<double>(time) * 1e-6; };
    // The mean of all steps. A card may work ahead for the next step, so the later
    // half alone would be too fast.
    const double step = us(timing.ends.back()) / o.steps, bytes = static_cast<double>(one.data_bytes);
    const double least = us(least_time(one.plan, machine, model.placement));
    fmt::print(fmt::runtime(o.csv ? "modelled,{},{},{},{},{},{},{},{},{},{},{},{},{:.4f},{:.6f},{:.6f}\n"
                                  : "{1:20} {2:>9} {3:>7} {4:>7} {5:>8} {6:>11} {11:>14} {12:>12.2f} {13:>10.3f} "
                                    "{14:>10.3f}\n"),
               o.machine, one.name, one.direction, ranks, per_node, one.subgroup, one.bytes, o.binding,
               o.strategies.front(), o.send, o.exchange ? 1 : 0, one.data_bytes, step, bytes / step * 1e-3,
               bytes / least * 1e-3);
  }
}

void model(const Options& o) {
  const Machine machine = value_of(Machine::open(o.machine));
  if (o.print_machine)
    return fmt::print("# {}\n{}", o.machine, machine.to_text());
  if (o.workload.empty())
    usage_error("--workload is required (see --help)");
  bool is_first = true;
  if (o.workload == "pattern") {
    const auto node = static_cast<uint32_t>(machine["node.ranks"]);
    for (const uint32_t per_node : !o.ranks_per_node.empty() ? o.ranks_per_node : std::vector<uint32_t>{node})
      for (const uint32_t ranks : !o.ranks.empty() ? o.ranks : std::vector<uint32_t>{2 * per_node})
        model_patterns(o, machine, ranks, per_node, std::exchange(is_first, false));
    return;
  }
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  for (const Workload& workload : workloads(o, machine)) {
    const modelled::Job job = value_of(modelled::make_job(workload, machine));
    modelled::RunOptions options{.steps = o.steps};
    if (terminal)
      options.progress = [&](uint32_t step) {
        fmt::print(stderr, "\r{} ranks: step {} of {} \r", workload.ranks, step, o.steps);
      };
    const modelled::Timing timing = value_of(modelled::run(job, options));
    if (terminal)
      fmt::print(stderr, "\r{:60}\r", "");
    if (std::exchange(is_first, false))
      print_head(o);
    print_row(o, workload, job, timing);
  }
}

}  // namespace

void add_model(CLI::App& app) {
  CLI::App* command = app.add_subcommand("model", "models how long a program's steps would take on a machine");
  const auto options = std::make_shared<Options>();
  declare(*command, *options);
  add_model_fit(*command);
  add_model_compare(*command);
  command->require_subcommand(0, 1);
  command->callback([command, options] {
    if (command->get_subcommands().empty())
      model(*options);
  });
}

}  // namespace lanyard::tools
