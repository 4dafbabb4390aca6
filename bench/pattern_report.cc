#include "bench/pattern_report.h"

#include <fmt/format.h>

#include "bench/statistics.h"

namespace lanyard::bench {

double PatternRow::median() const { return percentile(us, 50); }

void PatternReport::print(Format format) const {
  switch (format) {
    case Format::kText: return print_text();
    case Format::kCsv: return results().print_csv();
    case Format::kJson: return results().print_json({{"verified", is_right()}, {"nic", nic.json()}});
  }
}

void PatternReport::print_text() const {
  fmt::print("# Patterns: {} ({}), direction {}, {} nodes of {} ranks, subgroup {}, part {}\n",
             fmt::join(options.patterns, ", "), options.order, options.direction, options.nodes, options.group,
             options.subgroup, options.part);
  fmt::print("# MPI library: {}\n# ranks: {}\n# commit: {}\n# memory: {}\n", mpi_library(), ranks, commit(),
             place.summary());
  if (!library.empty())
    fmt::print("# {}\n", library);
  fmt::print("# NIC: {}\n", nic.summary());
  fmt::print("# {} iterations of {} each, us of the slowest rank; checked: {}; ratio: of medians, to {}\n", iterations,
             batch, check, baseline);
  fmt::print("{:<11} {:>5} {:>8} {:>11} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9} {:>7} {:>8} {:>8}\n", "back end",
             "steps", "messages", "bytes", "min", "median", "mean", "p99", "max", "GB/s", "ratio", "entries",
             "verified");
  for (const PatternRow& row : rows) {
    const Estimate all = estimate(row.us);
    const std::string entries =
        row.entries ? fmt::format("{:.1f}", static_cast<double>(row.entries->posted) / (iterations * batch)) : "-";
    fmt::print(
        "{:<11} {:>5} {:>8} {:>11} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>9.3f} {:>7.2f} {:>8} "
        "{:>8}\n",
        row.back_end, row.steps, row.messages, row.bytes, all.min, row.median(), all.mean, percentile(row.us, 99),
        percentile(row.us, 100), row.rate(), row.median() / row.baseline_us, entries, row.is_right ? "yes" : "NO");
  }
}

Results PatternReport::results() const {
  Results results("patterns", ranks, place);
  results.set("pattern", fmt::format("{}", fmt::join(options.patterns, " ")));
  results.set("order", options.order);
  results.set("direction", options.direction);
  results.set("nodes", options.nodes);
  results.set("group", options.group);
  results.set("subgroup", options.subgroup);
  results.set("part", options.part);
  results.set("iterations", iterations);
  results.set("batch", batch);
  results.set("check", check);
  results.set("baseline", baseline);
  if (!library.empty())
    results.set("nccl", library);
  for (const PatternRow& row : rows) {
    const Estimate all = estimate(row.us);
    Record r = {{"mode", row.back_end},
                {"steps", row.steps},
                {"messages", row.messages},
                {"bytes", row.bytes},
                {"us_min", all.min},
                {"us_median", row.median()},
                {"us_mean", all.mean},
                {"us_p99", percentile(row.us, 99)},
                {"us_max", percentile(row.us, 100)},
                {"bandwidth_GBps", row.rate()},
                {"ratio_to_baseline", row.median() / row.baseline_us},
                {"verified", row.is_right}};
    if (row.entries)
      r.update(row.entries->record());
    results.add(r);
  }
  return results;
}

}  // namespace lanyard::bench
