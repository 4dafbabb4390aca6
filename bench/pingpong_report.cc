#include "bench/pingpong_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace lanyard::bench {

bool PingpongReport::verified() const {
  const auto is_right = [](const auto& row) { return row.verified; };
  return std::ranges::all_of(rows, is_right) && std::ranges::all_of(overlaps, is_right);
}

void PingpongReport::print(Format format) const {
  switch (format) {
    case Format::kText: return print_text();
    case Format::kCsv: return results().print_csv();
    case Format::kJson: return results().print_json({{"verified", verified()}, {"nic", nic.json()}});
  }
}

void PingpongReport::print_text() const {
  fmt::print("# ping-pong, pack {}, exchange {}, buffers {}, silence {} ms\n", pack ? "on" : "off",
             exchange ? "on" : "off", buffers, silence_ms);
  fmt::print("# MPI library: {}\n# ranks: {}\n", mpi_library(), ranks);
  fmt::print("# commit: {}\n", commit());
  fmt::print("# memory: {}\n# NIC: {}\n", place.summary(), nic.summary());
  fmt::print("# half trip: mean of {} trials +- 95 % confidence; ratio to {} of this run; p50, p99: of batches\n",
             trials, baseline);
  if (!nccl.empty())
    fmt::print("# {}\n", nccl);
  for (const DoorbellRow& bell : doorbells)
    fmt::print("# doorbell, mode {}: {:.3f} us (median; half of ring, fire, be seen)\n", bell.mode, bell.median_us);
  fmt::print("{:<10} {:>10} {:>13} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8} {:>8}\n", "mode", "bytes", "half trip us",
             "+-", "least us", "p50 us", "p99 us", "MB/s", "ratio", "overflow", "verified");
  for (const PingpongRow& row : rows) {
    const auto& ci95 = row.half_trip_us.ci95;
    fmt::print("{:<10} {:>10} {:>13.3f} {:>9} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.1f} {:>7.2f} {:>8} {:>8}\n", row.mode,
               row.bytes, row.half_trip_us.mean, ci95 ? fmt::format("{:.3f}", *ci95) : "-", row.half_trip_us.min,
               row.p50_us, row.p99_us, row.bandwidth_MBps(), row.ratio_to_baseline(),
               row.entries ? fmt::to_string(row.entries->overflowed) : "-", row.verified ? "yes" : "NO");
  }
  if (overlaps.empty())
    return;
  fmt::print("# beside a computation: medians of {} trials, us a round trip; overlap: the hidden part of the shorter\n",
             trials);
  fmt::print("{:<10} {:>10} {:>13} {:>13} {:>13} {:>8} {:>8}\n", "mode", "bytes", "compute us", "transfer us",
             "both us", "overlap", "verified");
  for (const OverlapRow& row : overlaps)
    fmt::print("{:<10} {:>10} {:>13.3f} {:>13.3f} {:>13.3f} {:>8.2f} {:>8}\n", row.mode, row.bytes, row.compute_us,
               row.transfer_us, row.both_us, row.overlap(), row.verified ? "yes" : "NO");
}

Results PingpongReport::results() const {
  Results results("pingpong", ranks, place);
  results.set("baseline", baseline);
  results.set("pack", pack);
  results.set("exchange", exchange);
  results.set("buffers", buffers);
  results.set("batch", batch);
  results.set("trials", trials);
  if (!nccl.empty())
    results.set("nccl", nccl);
  for (const PingpongRow& row : rows) {
    Record r = {{"mode", row.mode},
                {"bytes", row.bytes},
                {"iterations", row.iterations},
                {"silence_ms", silence_ms},
                {"half_trip_us_mean", row.half_trip_us.mean},
                {"half_trip_us_ci95", nullptr},
                {"half_trip_us_min", row.half_trip_us.min},
                {"half_trip_us_p50", row.p50_us},
                {"half_trip_us_p99", row.p99_us},
                {"bandwidth_MBps", row.bandwidth_MBps()},
                {"ratio_to_baseline", row.ratio_to_baseline()},
                {"verified", row.verified}};
    if (row.half_trip_us.ci95)
      r["half_trip_us_ci95"] = *row.half_trip_us.ci95;
    if (row.entries)
      r.update(row.entries->record());
    results.add(r);
  }
  for (const DoorbellRow& bell : doorbells)
    results.add({{"benchmark", "doorbell"}, {"mode", bell.mode}, {"doorbell_us_median", bell.median_us}});
  for (const OverlapRow& row : overlaps)
    results.add({{"benchmark", "overlap"},
                 {"mode", row.mode},
                 {"bytes", row.bytes},
                 {"iterations", row.iterations},
                 {"compute_us", row.compute_us},
                 {"transfer_us", row.transfer_us},
                 {"both_us", row.both_us},
                 {"overlap", row.overlap()},
                 {"verified", row.verified}});
  return results;
}

}  // namespace lanyard::bench
