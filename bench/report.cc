#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/algorithm/string.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace lanyard::bench {
namespace {

// Numbers that are not whole have that many decimals, small ones with an exponent.
std::string to_text(const Json& value, int decimals) {
  if (value.is_string())
    return value.get<std::string>();
  if (!value.is_number_float())
    return value.dump();
  const double number = value.get<double>();
  const bool is_small = number != 0 && std::abs(number) < 1e-3;
  return is_small ? fmt::format("{:.{}e}", number, decimals) : fmt::format("{:.{}f}", number, decimals);
}

std::string text_cell(const Json& value) {
  if (value.is_null())
    return "-";
  if (value.is_boolean())
    return value.get<bool>() ? "yes" : "NO";
  return to_text(value, 3);
}

// Quoted where it must be.
std::string csv_cell(const Json& value) {
  const std::string text = value.is_null() ? "" : to_text(value, 4);
  if (text.find_first_of(",\"\n") == std::string::npos)
    return text;
  return fmt::format("\"{}\"", boost::replace_all_copy(text, "\"", "\"\""));
}

}  // namespace

Estimate estimate(std::span<const double> trials) {
  const double n = static_cast<double>(trials.size());
  const double mean = std::accumulate(trials.begin(), trials.end(), 0.0) / n;
  Estimate result{mean, *std::min_element(trials.begin(), trials.end()), nullptr};
  if (trials.size() < 2)
    return result;
  double squares = 0;
  for (const double x : trials)
    squares += (x - mean) * (x - mean);
  const double t95 = boost::math::quantile(boost::math::students_t(n - 1), 0.975);
  result.ci95 = t95 * std::sqrt(squares / (n - 1) / n);
  return result;
}

bool Report::verified() const {
  return std::none_of(rows_.begin(), rows_.end(),
                      [](const Json& row) { return row.contains("verified") && row.at("verified") == false; });
}

void Report::print(const std::string& format) const {
  if (format == "json")
    print_json();
  else if (format == "csv")
    print_csv();
  else
    print_text();
}

void Report::print_text() const {
  fmt::print("# {}\n", benchmark_);
  for (const auto& [name, value] : facts_.items())
    if (!value.is_object())
      fmt::print("# {}: {}\n", name, text_cell(value));
  for (const std::string& remark : remarks_)
    fmt::print("# {}\n", remark);
  if (rows_.empty())
    return;
  long heads = 0;  // lines; the words of a column's name stand below each other
  for (const auto& [name, unused] : rows_.front().items())
    heads = std::max(heads, 1 + std::count(name.begin(), name.end(), '_'));
  std::vector<std::string> lines(static_cast<size_t>(heads) + rows_.size());
  for (const auto& [name, first] : rows_.front().items()) {
    std::vector<std::string> cells;
    boost::split(cells, name, boost::is_any_of("_"));
    cells.insert(cells.begin(), static_cast<size_t>(heads) - cells.size(), "");
    for (const Json& row : rows_)
      cells.push_back(text_cell(row.at(name)));
    size_t width = 0;
    for (const std::string& cell : cells)
      width = std::max(width, cell.size());
    // Text stands at the left, all else at the right.
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string rest(width - cells[i].size(), ' ');
      lines[i] += lines[i].empty() ? "" : "  ";
      lines[i] += first.is_string() ? cells[i] + rest : rest + cells[i];
    }
  }
  for (const std::string& line : lines)
    fmt::print("{}\n", line);
}

void Report::print_csv() const {
  Json facts = {{"benchmark", benchmark_}};
  for (const auto& [name, value] : facts_.items())
    if (!value.is_object())
      facts[name] = value;
  for (const Json& row : rows_) {
    Json line = facts;
    line.update(row);
    std::string names, cells;
    for (const auto& [name, value] : line.items()) {
      names += names.empty() ? "" : ",";
      names += name;
      cells += cells.empty() ? "" : ",";
      cells += csv_cell(value);
    }
    if (&row == &rows_.front())
      fmt::print("{}\n", names);
    fmt::print("{}\n", cells);
  }
}

void Report::print_json() const {
  Json out = {{"benchmark", benchmark_}, {"verified", verified()}};
  out.update(facts_);
  out["rows"] = rows_;
  fmt::print("{}\n", out.dump(2));
}

Progress::~Progress() {
  if (has_printed_ && is_terminal_)
    fmt::print(stderr, "\n");
}

void Progress::at(long done) {
  if (!is_on_)
    return;
  const auto now = Clock::now();
  if (now < next_)
    return;
  next_ = now + kInterval;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  fmt::print(stderr, "{}{}: {} of {} steps, {:.0f} s{}", is_terminal_ ? "\r" : "", what_, done, total_, seconds,
             is_terminal_ ? "" : "\n");
  has_printed_ = true;
}

}  // namespace lanyard::bench
