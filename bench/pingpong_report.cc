#include "bench/pingpong_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lanyard::bench {

bool PingpongReport::verified() const {
  for (const PingpongRow& row : rows)
    if (!row.verified)
      return false;
  return true;
}

void PingpongReport::print(Format format) const {
  switch (format) {
    case Format::kText: return print_text();
    case Format::kCsv: return print_csv();
    case Format::kJson: return print_json();
  }
}

void PingpongReport::print_text() const {
  fmt::print("# ping-pong, pack {}, exchange {}, buffers {}\n", pack ? "on" : "off", exchange ? "on" : "off", buffers);
  fmt::print("# MPI library: {}\n# ranks: {}\n", mpi, ranks);
  fmt::print("# memory: {}\n# NIC: {}\n", place.summary(), nic.summary());
  fmt::print("# half trip: mean of {} trials +- 95 % confidence; ratio to {} of this run\n", trials, baseline);
  if (!nccl.empty())
    fmt::print("# {}\n", nccl);
  for (const DoorbellRow& bell : doorbells)
    fmt::print("# doorbell, mode {}: {:.3f} us (median; half of ring, fire, be seen)\n", bell.mode, bell.median_us);
  fmt::print("{:<10} {:>10} {:>13} {:>11} {:>11} {:>11} {:>8} {:>8} {:>8}\n", "mode", "bytes", "half trip us", "+-",
             "least us", "MB/s", "ratio", "overflow", "verified");
  for (const PingpongRow& row : rows) {
    const auto& ci95 = row.half_trip_us.ci95;
    fmt::print("{:<10} {:>10} {:>13.3f} {:>11} {:>11.3f} {:>11.1f} {:>8.2f} {:>8} {:>8}\n", row.mode, row.bytes,
               row.half_trip_us.mean, ci95 ? fmt::format("{:.3f}", *ci95) : "-", row.half_trip_us.min,
               row.bandwidth_MBps(), row.ratio_to_baseline(),
               row.entries ? fmt::to_string(row.entries->overflowed) : "-", row.verified ? "yes" : "NO");
  }
}

void PingpongReport::print_csv() const {
  fmt::print(
      "benchmark,mpi,ranks,mode,bytes,half_trip_us_mean,half_trip_us_ci95,bandwidth_MBps,"
      "ratio_to_baseline,counters,entries_posted,entries_overflowed,verified,baseline,memory,"
      "stream,device,exchange,buffers\n");
  for (const PingpongRow& row : rows) {
    const auto& ci95 = row.half_trip_us.ci95;
    std::string entries = ",,";
    if (row.entries)
      entries = fmt::format("{},{},{}", row.entries->counters, row.entries->posted, row.entries->overflowed);
    fmt::print("pingpong,{},{},{},{},{:.4f},{},{:.3f},{:.4f},{},{},{},{},{},{},{},{}\n", csv_field(mpi), ranks,
               row.mode, row.bytes, row.half_trip_us.mean, ci95 ? fmt::format("{:.4f}", *ci95) : "",
               row.bandwidth_MBps(), row.ratio_to_baseline(), entries, row.verified, baseline, place.memory,
               place.stream, csv_field(place.device), exchange, buffers);
  }
  if (doorbells.empty())
    return;
  fmt::print("benchmark,mode,doorbell_us_median,memory,stream,device\n");
  for (const DoorbellRow& bell : doorbells)
    fmt::print("doorbell,{},{:.4f},{},{},{}\n", bell.mode, bell.median_us, place.memory, place.stream,
               csv_field(place.device));
}

void PingpongReport::print_json() const {
  nlohmann::ordered_json out;
  out["benchmark"] = "pingpong";
  out["verified"] = verified();
  out["mpi"] = mpi;
  if (!nccl.empty())
    out["nccl"] = nccl;
  out["ranks"] = ranks;
  out["pack"] = pack;
  out["exchange"] = exchange;
  out["buffers"] = buffers;
  out["trials"] = trials;
  out["memory"] = place.memory;
  out["stream"] = place.stream;
  out["device"] = place.device;
  out["baseline"] = baseline;
  out["rows"] = nlohmann::ordered_json::array();
  for (const PingpongRow& row : rows) {
    nlohmann::ordered_json item;
    item["mode"] = row.mode;
    item["bytes"] = row.bytes;
    item["half_trip_us_mean"] = row.half_trip_us.mean;
    item["half_trip_us_ci95"] = nullptr;
    if (row.half_trip_us.ci95)
      item["half_trip_us_ci95"] = *row.half_trip_us.ci95;
    item["half_trip_us_min"] = row.half_trip_us.min;
    item["bandwidth_MBps"] = row.bandwidth_MBps();
    item["ratio_to_baseline"] = row.ratio_to_baseline();
    if (row.entries) {
      item["counters"] = row.entries->counters;
      item["entries_posted"] = row.entries->posted;
      item["entries_overflowed"] = row.entries->overflowed;
    }
    item["verified"] = row.verified;
    out["rows"].push_back(item);
  }
  for (const DoorbellRow& bell : doorbells)
    out["doorbell_us_median"][bell.mode] = bell.median_us;
  out["nic"] = nic.json();
  fmt::print("{}\n", out.dump(2));
}

}  // namespace lanyard::bench
