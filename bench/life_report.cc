#include "bench/life_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lanyard::bench {
namespace {

nlohmann::ordered_json to_json(const std::optional<bool>& verified) {
  return verified ? nlohmann::ordered_json(*verified) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::optional<bool> LifeReport::verified() const {
  std::optional<bool> all;
  for (const LifeRow& row : runs)
    if (row.verified)
      all = all.value_or(true) && *row.verified;
  return all;
}

double LifeReport::entries_per_step(const LifeRow& row) const {
  return static_cast<double>(row.entries->posted) / static_cast<double>(steps);
}

void LifeReport::print(Format format) const {
  switch (format) {
    case Format::kText: return print_text();
    case Format::kCsv: return print_csv();
    case Format::kJson: return print_json();
  }
}

void LifeReport::print_text() const {
  fmt::print("# Game of Life, {} x {} cells, {} steps, pattern {}\n", rows, columns, steps, pattern);
  fmt::print("# MPI library: {}\n# ranks: {} ({} x {})\n", mpi, ranks, ranks_y, ranks_x);
  fmt::print("# memory: {}\n", place.summary());
  fmt::print("# exchange: {}, collective: {}\n", exchange, collective ? "on" : "off");
  QueueInfo nic;
  for (const LifeRow& row : runs)
    if (!row.nic.empty())
      nic = row.nic;
  fmt::print("# NIC: {}\n", nic.summary());
  fmt::print("{:<6} {:>11} {:>12} {:>13} {:>8} {:>13} {:>9}\n", "mode", "seconds", "us a step", "baseline us", "ratio",
             "entries/step", "verified");
  for (const LifeRow& row : runs) {
    const char* verified = !row.verified ? "-" : *row.verified ? "yes" : "NO";
    fmt::print("{:<6} {:>11.4f} {:>12.2f} {:>13.2f} {:>8.2f} {:>13} {:>9}\n", row.mode, row.seconds, row.us_per_step,
               row.baseline_us_per_step, row.us_per_step / row.baseline_us_per_step,
               row.entries ? fmt::format("{:.1f}", entries_per_step(row)) : "-", verified);
  }
  for (const LifeRow& row : runs)
    if (row.entries)
      fmt::print("# mode {}: {} of {} deferred-work entries overflowed\n", row.mode, row.entries->overflowed,
                 row.entries->posted);
}

void LifeReport::print_csv() const {
  fmt::print(
      "benchmark,mpi,ranks,mode,rows,columns,steps,us_per_step,baseline_us_per_step,counters,"
      "entries_posted,entries_overflowed,entries_per_step,verified,memory,stream,device,exchange,collective\n");
  for (const LifeRow& row : runs) {
    std::string entries = ",,,";
    if (row.entries)
      entries = fmt::format("{},{},{},{:.3f}", row.entries->counters, row.entries->posted, row.entries->overflowed,
                            entries_per_step(row));
    fmt::print("game_of_life,{},{},{},{},{},{},{:.3f},{:.3f},{},{},{},{},{},{},{}\n", csv_field(mpi), ranks, row.mode,
               rows, columns, steps, row.us_per_step, row.baseline_us_per_step, entries,
               row.verified ? fmt::to_string(*row.verified) : "", place.memory, place.stream, csv_field(place.device),
               exchange, collective);
  }
}

void LifeReport::print_json() const {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const LifeRow& row : runs) {
    Json run;
    run["benchmark"] = "game_of_life";
    run["verified"] = to_json(row.verified);
    run["mpi"] = mpi;
    run["memory"] = place.memory;
    run["stream"] = place.stream;
    run["device"] = place.device;
    run["mode"] = row.mode;
    run["ranks"] = ranks;
    run["layout"] = {ranks_y, ranks_x};
    run["size"] = {rows, columns};
    run["steps"] = steps;
    run["pattern"] = pattern;
    run["exchange"] = exchange;
    run["collective"] = collective;
    run["seconds"] = row.seconds;
    run["us_per_step"] = row.us_per_step;
    run["baseline_us_per_step"] = row.baseline_us_per_step;
    if (row.entries) {
      run["entries_posted"] = row.entries->posted;
      run["entries_overflowed"] = row.entries->overflowed;
      run["entries_per_step"] = entries_per_step(row);
    }
    run["nic"] = row.nic.json();
    list.push_back(run);
  }
  if (!is_list)
    return fmt::print("{}\n", list.at(0).dump(2));
  Json out;
  out["benchmark"] = "game_of_life";
  out["verified"] = to_json(verified());
  out["runs"] = list;
  fmt::print("{}\n", out.dump(2));
}

}  // namespace lanyard::bench
