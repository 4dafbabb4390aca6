#include "bench/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <sstream>

namespace lanyard::bench {
namespace {

// Two-sided 95 % quantile of Student's t. Beyond the table, the first terms of its expansion about
// the normal quantile z: t = z + (z^3 + z) / (4 df) + ..., good to 1e-4 there.
double student_t95(size_t degrees_of_freedom) {
  static constexpr double kTable[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
                                      2.2010,  2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860};
  if (degrees_of_freedom == 0)
    return INFINITY;
  if (degrees_of_freedom <= std::size(kTable))
    return kTable[degrees_of_freedom - 1];
  constexpr double z = 1.959964;
  const double df = static_cast<double>(degrees_of_freedom);
  return z + (z * z * z + z) / (4 * df) + (5 * z * z * z * z * z + 16 * z * z * z + 3 * z) / (96 * df * df);
}

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
  std::string quoted = "\"";
  for (const char c : text)
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

// The words of a column's name, which stand below each other.
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words;
  std::istringstream parts(name);
  for (std::string word; std::getline(parts, word, '_');)
    words.push_back(word);
  return words;
}

}  // namespace

Estimate estimate(std::span<const double> trials) {
  const double n = static_cast<double>(trials.size());
  double sum = 0;
  for (double x : trials)
    sum += x;
  Estimate result{sum / n, *std::min_element(trials.begin(), trials.end()), std::nullopt};
  if (trials.size() < 2)
    return result;
  double squares = 0;
  for (double x : trials)
    squares += (x - result.mean) * (x - result.mean);
  result.ci95 = student_t95(trials.size() - 1) * std::sqrt(squares / (n - 1) / n);
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
  std::vector<std::vector<std::string>> lines;  // of cells
  size_t heads = 0;
  for (const auto& [name, unused] : rows_.front().items())
    heads = std::max(heads, words_of(name).size());
  lines.resize(heads);
  for (const auto& [name, unused] : rows_.front().items()) {
    const std::vector<std::string> words = words_of(name);
    for (size_t i = 0; i < heads; ++i)
      lines[i].push_back(i + words.size() < heads ? "" : words[i + words.size() - heads]);
  }
  for (const Json& row : rows_) {
    lines.emplace_back();
    for (const Json& value : row)
      lines.back().push_back(text_cell(value));
  }
  // Text stands at the left, all else at the right.
  std::vector<bool> is_left;
  for (const Json& value : rows_.front())
    is_left.push_back(value.is_string());
  for (const std::vector<std::string>& line : lines) {
    std::string text;
    for (size_t column = 0; column < line.size(); ++column) {
      size_t width = 0;
      for (const std::vector<std::string>& each : lines)
        width = std::max(width, each[column].size());
      text += column == 0 ? "" : "  ";
      text += is_left[column] ? fmt::format("{:<{}}", line[column], width) : fmt::format("{:>{}}", line[column], width);
    }
    fmt::print("{}\n", text);
  }
}

void Report::print_csv() const {
  if (rows_.empty())
    return;
  std::string head = "benchmark", begin = benchmark_;
  for (const auto& [name, value] : facts_.items()) {
    if (value.is_object())
      continue;
    head += "," + name;
    begin += "," + csv_cell(value);
  }
  for (const auto& [name, unused] : rows_.front().items())
    head += "," + name;
  fmt::print("{}\n", head);
  for (const Json& row : rows_) {
    std::string line = begin;
    for (const Json& value : row)
      line += "," + csv_cell(value);
    fmt::print("{}\n", line);
  }
}

void Report::print_json() const {
  Json out = {{"benchmark", benchmark_}, {"verified", verified()}};
  out.update(facts_);
  out["rows"] = rows_;
  fmt::print("{}\n", out.dump(2));
}

Progress::Progress(std::string what, long total, bool is_on)
    : what_(std::move(what)),
      total_(total),
      is_on_(is_on),
      is_terminal_(isatty(STDERR_FILENO) != 0),
      begin_(Clock::now()),
      next_(begin_ + (is_terminal_ ? kInterval : kPatience)) {}

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
