#include "bench/collectives_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace lanyard::bench {

bool CollectivesReport::verified() const {
  return baseline_is_right && !rows.empty() &&
         std::all_of(rows.begin(), rows.end(), [](const CollectivesRow& row) { return row.verified; });
}

void CollectivesReport::print(Format format) const {
  switch (format) {
    case Format::kText: return print_text();
    case Format::kCsv: return results().print_csv();
    case Format::kJson: return results().print_json({{"verified", verified()}, {"nic", nic.json()}});
  }
}

void CollectivesReport::print_text() const {
  fmt::print("# Collectives on a stream, {} enqueued before the host waits\n", batch);
  fmt::print("# MPI library: {}\n# ranks: {}\n# commit: {}\n", mpi_library(), ranks, commit());
  fmt::print("# memory: {}\n# NIC: {}\n", place.summary(), nic.summary());
  fmt::print(
      "# us an operation: mean of {} trials +- 95 % confidence; ratio to mpi of this run; p50, p99: of batches\n",
      trials);
  if (!nccl.empty())
    fmt::print("# {}\n", nccl);
  fmt::print("{:<10} {:>9} {:<11} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8} {:>8} {:>8}\n", "collective", "bytes",
             "mode", "us", "+-", "least us", "p50 us", "p99 us", "ratio", "entries", "overflow", "verified");
  for (const CollectivesRow& row : rows)
    fmt::print("{:<10} {:>9} {:<11} {:>10.3f} {:>9} {:>9.3f} {:>9.3f} {:>9.3f} {:>7.2f} {:>8} {:>8} {:>8}\n",
               row.collective, row.bytes, row.mode, row.us.mean,
               row.us.ci95 ? fmt::format("{:.3f}", *row.us.ci95) : "-", row.us.min, row.p50_us, row.p99_us,
               row.ratio_to_baseline(), row.entries ? fmt::to_string(row.start_entries) : "-",
               row.entries ? fmt::to_string(row.entries->overflowed) : "-", row.verified ? "yes" : "NO");
}

Results CollectivesReport::results() const {
  Results results("collectives", ranks, place);
  results.set("baseline", "mpi");
  results.set("batch", batch);
  results.set("trials", trials);
  if (!nccl.empty())
    results.set("nccl", nccl);
  for (const CollectivesRow& row : rows) {
    Record r = {{"collective", row.collective},
                {"bytes", row.bytes},
                {"mode", row.mode},
                {"operations", row.operations},
                {"us_mean", row.us.mean},
                {"us_ci95", nullptr},
                {"us_min", row.us.min},
                {"us_p50", row.p50_us},
                {"us_p99", row.p99_us},
                {"ratio_to_baseline", row.ratio_to_baseline()},
                {"verified", row.verified}};
    if (row.us.ci95)
      r["us_ci95"] = *row.us.ci95;
    if (row.entries) {
      r["entries"] = row.start_entries;
      r.update(row.entries->record());
    }
    results.add(r);
  }
  return results;
}

}  // namespace lanyard::bench
