// Results of a benchmark: estimates from trials, progress, and one report as text, CSV or JSON.
#ifndef LANYARD_BENCH_REPORT_H_
#define LANYARD_BENCH_REPORT_H_

#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lanyard::bench {

// A value of a report: text, number or boolean; null where it does not apply.
using Json = nlohmann::ordered_json;

// The mean of a few trials, the least trial, and the half width of the mean's 95 % confidence
// interval by Student's t (null from a single trial).
struct Estimate {
  double mean = 0;
  double min = 0;
  Json ci95;
};

// Requires at least one trial.
Estimate estimate(std::span<const double> trials);

// Facts hold for the whole run. Each row is one result: an object whose keys are the table's
// columns, the same in every row. A row with "verified": false makes the report wrong.
class Report {
 public:
  explicit Report(std::string benchmark) : benchmark_(std::move(benchmark)) {}

  // A fact that is an object is printed in JSON only.
  void fact(const std::string& name, Json value) { facts_[name] = std::move(value); }
  // A line for people.
  void remark(std::string line) { remarks_.push_back(std::move(line)); }
  void add(Json row) { rows_.push_back(std::move(row)); }

  std::vector<Json>& rows() { return rows_; }
  bool verified() const;
  // Prints to stdout; `format` is text, csv or json. In CSV each row begins with the
  // benchmark's name and the facts.
  void print(const std::string& format) const;

 private:
  void print_text() const;
  void print_csv() const;
  void print_json() const;

  const std::string benchmark_;
  Json facts_ = Json::object();
  std::vector<std::string> remarks_;
  std::vector<Json> rows_;
};

// A progress line on stderr every two seconds: on a terminal at once, else only after five seconds.
class Progress {
 public:
  // is_on: whether this process prints (one rank of the job does).
  Progress(std::string what, long total, bool is_on) : what_(std::move(what)), total_(total), is_on_(is_on) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(long done);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kInterval{2}, kPatience{5};

  const std::string what_;
  const long total_;
  const bool is_on_;
  const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_ + (is_terminal_ ? kInterval : kPatience);
  bool has_printed_ = false;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_REPORT_H_
