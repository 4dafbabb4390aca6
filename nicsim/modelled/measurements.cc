#include "nicsim/modelled/calibration.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

namespace lanyard::modelled {

namespace {

// Reads a CSV table line by line; fields by column name.
class Table {
 public:
  Table(std::istream& text, std::string name) : text_(text), name_(std::move(name)) {}

  bool read_line(std::vector<std::string>& fields) {
    std::string line;
    while (std::getline(text_, line)) {
      ++number_;
      if (!line.empty() && line.back() == '\r')
        line.pop_back();
      if (line.empty())
        continue;
      fields.clear();
      std::istringstream parts(line);
      for (std::string field; std::getline(parts, field, ',');)
        fields.push_back(field);
      return true;
    }
    return false;
  }
  void set_header(const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i)
      columns_[names[i]] = i;
  }
  bool has(std::initializer_list<const char*> names) const {
    return std::all_of(names.begin(), names.end(), [&](const char* name) { return columns_.contains(name); });
  }
  bool next() { return read_line(fields_); }
  bool is_whole() const { return fields_.size() == columns_.size(); }
  const std::string& text(const char* column) const { return fields_[columns_.at(column)]; }
  // Returns a positive number, or NaN.
  double number(const char* column) const {
    const std::string& field = text(column);
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    return error == std::errc() && end == field.data() + field.size() && value > 0 ? value : std::nan("");
  }
  Status wrong(const std::string& what) const {
    return {Code::kInvalidArgument, name_ + (number_ == 0 ? "" : ":" + std::to_string(number_)) + ": " + what};
  }

 private:
  std::istream& text_;
  const std::string name_;
  int number_ = 0;
  std::map<std::string, size_t, std::less<>> columns_;
  std::vector<std::string> fields_;
};

// One trial. workload.ranks is 0 if the model does not cover its program.
struct Trial {
  Workload workload{.ranks = 0};
  double us = 0;
};

constexpr double kMostRanks = 1 << 24;

Result<Trial> read_halo(const Table& table) {
  Trial trial;
  const std::string& backend = table.text("backend");
  if (backend.find("CXI-") == std::string::npos || backend.find("Buffering") == std::string::npos)
    return trial;
  const double nodes = table.number("nodes"), per_node = table.number("ntasks"), side = table.number("size");
  trial.us = table.number("solver_time") * 1e6 / table.number("cycles");
  if (!(nodes * per_node <= kMostRanks) || !(side <= 1e9) || !std::isfinite(trial.us))
    return table.wrong("a number is missing, not positive, or too large");
  trial.workload.kind = Kind::kHalo2d;
  trial.workload.ranks = static_cast<uint32_t>(nodes * per_node);
  trial.workload.ranks_per_node = static_cast<uint32_t>(per_node);
  trial.workload.cells = {static_cast<uint64_t>(side), static_cast<uint64_t>(side), 1};
  trial.workload.ready = table.text("send_type") == "Ready Send";
  trial.workload.memory = table.text("memory_type") == "fine" ? Memory::kFine : Memory::kCoarse;
  return trial;
}

Result<Trial> read_ping_pong(const Table& table) {
  Trial trial;
  const std::string& backend = table.text("Backend");
  if (backend != "cxi-coarse" && backend != "cxi-fine")
    return trial;
  const double items = table.number("Items");
  trial.us = table.number("Time") * 1e6 / table.number("Iters");
  if (!(items <= 1e12) || !std::isfinite(trial.us))
    return table.wrong("a number is missing, not positive, or too large");
  trial.workload.kind = Kind::kPingPong;
  trial.workload.ranks = 2;
  trial.workload.bytes = 4 * static_cast<uint64_t>(items);
  trial.workload.ready = table.text("Buffering") == "db";
  trial.workload.memory = backend == "cxi-fine" ? Memory::kFine : Memory::kCoarse;
  return trial;
}

// Trials with the same key have the same configuration. Also the order of the rows.
auto key(const Workload& w) {
  return std::tuple(w.kind, w.cells, w.bytes, !w.ready, w.memory, w.ranks, w.ranks_per_node);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

Result<Measurements> read_measurements(std::istream& text, const std::string& name) {
  Table table(text, name);
  std::vector<std::string> header;
  if (!table.read_line(header))
    return table.wrong("the file is empty");
  table.set_header(header);
  const bool halo =
      table.has({"nodes", "ntasks", "backend", "solver_time", "size", "memory_type", "send_type", "cycles"});
  if (!halo && !table.has({"Backend", "Buffering", "Iters", "Items", "Time"}))
    return table.wrong(
        "the header has neither the columns of halos (nodes, ntasks, ...) nor those of ping-pongs (Backend, Buffering, "
        "...)");
  Measurements measurements;
  std::map<decltype(key({})), std::pair<Workload, std::vector<double>>> trials;
  while (table.next()) {
    if (!table.is_whole())
      return table.wrong("the line has fewer or more fields than the header");
    const Result<Trial> trial = halo ? read_halo(table) : read_ping_pong(table);
    if (!trial.ok())
      return trial.status();
    const Workload& workload = trial.value().workload;
    if (workload.ranks == 0) {
      ++measurements.others;
      continue;
    }
    auto& [of, times] = trials[key(workload)];
    of = workload;
    times.push_back(trial.value().us);
  }
  for (const auto& [unused, each] : trials)
    measurements.rows.push_back({each.first, median(each.second), static_cast<uint32_t>(each.second.size())});
  if (measurements.rows.empty())
    return Status(Code::kInvalidArgument, name + ": the file has no trial of a stream-triggered program");
  return measurements;
}

}  // namespace lanyard::modelled
