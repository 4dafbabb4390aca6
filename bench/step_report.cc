#include "bench/step_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace lanyard::bench {
namespace {

Record to_json(const std::optional<bool>& verified) { return verified ? Record(*verified) : Record(nullptr); }

// A name's underscores are spaces for people.
std::string words(std::string name) {
  for (char& c : name)
    if (c == '_')
      c = ' ';
  return name;
}

}  // namespace

StepRow::StepRow(const std::string& m, const HaloRunResult& result, long steps)
    : mode(m),
      seconds(result.seconds),
      us_per_step(result.us_per_step(steps)),
      entries(result.entries),
      nic(result.nic),
      more(Record::object()) {}

std::optional<bool> StepReport::verified() const {
  std::optional<bool> all = baseline_verified;
  for (const StepRow& row : runs)
    if (row.verified)
      all = all.value_or(true) && *row.verified;
  return all;
}

double StepReport::entries_per_step(const StepRow& row) const {
  return static_cast<double>(row.entries->posted) / static_cast<double>(steps);
}

QueueInfo StepReport::nic() const {
  QueueInfo last;
  for (const StepRow& row : runs)
    if (!row.nic.empty())
      last = row.nic;
  return last;
}

void StepReport::print(Format format) const {
  switch (format) {
    case Format::kText: return print_text();
    case Format::kCsv: return results().print_csv();
    case Format::kJson: return results().print_json({{"verified", to_json(verified())}, {"nic", nic().json()}});
  }
}

void StepReport::print_text() const {
  fmt::print("# {}\n", title);
  fmt::print("# MPI library: {}\n# ranks: {} ({})\n", mpi_library(), ranks, ranks_text);
  fmt::print("# commit: {}\n# memory: {}\n", commit(), place.summary());
  for (const std::string& heading : headings)
    fmt::print("# {}\n", heading);
  if (!nccl.empty())
    fmt::print("# {}\n", nccl);
  fmt::print("# NIC: {}\n", nic().summary());
  fmt::print("{:<10} {:>11} {:>12} {:>13} {:>8} {:>13}", "mode", "seconds", "us a step", "baseline us", "ratio",
             "entries/step");
  if (!runs.empty())
    for (const auto& column : runs.front().more.items())
      fmt::print(" {:>{}}", words(column.key()), std::max<size_t>(column.key().size(), 9));
  fmt::print(" {:>9}\n", "verified");
  for (const StepRow& row : runs) {
    const char* verified = !row.verified ? "-" : *row.verified ? "yes" : "NO";
    fmt::print("{:<10} {:>11.4f} {:>12.2f} {:>13.2f} {:>8.2f} {:>13}", row.mode, row.seconds, row.us_per_step,
               row.baseline_us_per_step, row.us_per_step / row.baseline_us_per_step,
               row.entries ? fmt::format("{:.1f}", entries_per_step(row)) : "-");
    for (const auto& column : row.more.items())
      fmt::print(" {:>{}}", column.value().is_null() ? "-" : fmt::format("{:.5g}", column.value().get<double>()),
                 std::max<size_t>(column.key().size(), 9));
    fmt::print(" {:>9}\n", verified);
  }
  for (const StepRow& row : runs)
    if (row.entries)
      fmt::print("# mode {}: {} of {} deferred-work entries overflowed\n", row.mode, row.entries->overflowed,
                 row.entries->posted);
}

Results StepReport::results() const {
  Results results(benchmark, ranks, place);
  for (const auto& fact : facts.items())
    results.set(fact.key(), fact.value());
  if (!nccl.empty())
    results.set("nccl", nccl);
  for (const StepRow& row : runs) {
    Record r = {{"mode", row.mode},
                {"seconds", row.seconds},
                {"us_per_step", row.us_per_step},
                {"baseline_us_per_step", row.baseline_us_per_step}};
    r.update(row.more);
    r["verified"] = to_json(row.verified);
    if (row.entries) {
      r.update(row.entries->record());
      r["entries_per_step"] = entries_per_step(row);
    }
    results.add(r);
  }
  return results;
}

void say_skipped(const char* program, const char* mode, const HaloRunResult& result, const MpiProcess& process) {
  if (process.is_first())
    fmt::print(stderr, "{}: mode {} skipped: {}\n", program, mode,
               result.refusal.empty() ? "not possible on another rank" : result.refusal);
}

void say_overflowed(const char* program, const StepRow& row, const MpiProcess& process) {
  if (process.is_first() && row.entries && row.entries->overflowed > 0)
    fmt::print(stderr, "{}: mode {}: {} of {} deferred-work entries overflowed\n", program, row.mode,
               row.entries->overflowed, row.entries->posted);
}

}  // namespace lanyard::bench
