#include "nicsim/modelled/calibration.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <boost/numeric/ublas/lu.hpp>
#include <boost/numeric/ublas/matrix.hpp>
#include <boost/numeric/ublas/vector.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "nicsim/modelled/engine.h"

namespace lanyard::modelled {

namespace {

// Reads a CSV table line by line; fields by column name.
class Table {
 public:
  // Reads the header.
  Table(std::istream& text, std::string name) : text_(text), name_(std::move(name)) {
    if (next())
      for (size_t i = 0; i < fields_.size(); ++i)
        columns_[fields_[i]] = i;
  }

  bool next() {
    std::string line;
    while (std::getline(text_, line)) {
      ++number_;
      if (!line.empty() && line.back() == '\r')
        line.pop_back();
      if (line.empty())
        continue;
      fields_.clear();
      std::istringstream parts(line);
      for (std::string field; std::getline(parts, field, ',');)
        fields_.push_back(field);
      return true;
    }
    return false;
  }
  bool empty() const { return columns_.empty(); }
  bool has(std::initializer_list<const char*> names) const {
    return std::ranges::all_of(names, [&](const char* name) { return columns_.contains(name); });
  }
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
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

Result<Measurements> read_measurements(std::istream& text, const std::string& name) {
  Table table(text, name);
  if (table.empty())
    return table.wrong("the file is empty");
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
    LANYARD_ASSIGN_OR_RETURN(const Trial trial, halo ? read_halo(table) : read_ping_pong(table));
    const Workload& workload = trial.workload;
    if (workload.ranks == 0) {
      ++measurements.others;
      continue;
    }
    auto& [of, times] = trials[key(workload)];
    of = workload;
    times.push_back(trial.us);
  }
  for (const auto& [unused, each] : trials)
    measurements.rows.push_back({each.first, median(each.second), static_cast<uint32_t>(each.second.size())});
  if (measurements.rows.empty())
    return Status(Code::kInvalidArgument, name + ": the file has no trial of a stream-triggered program");
  return measurements;
}

namespace {

namespace ublas = boost::numeric::ublas;
using Matrix = ublas::matrix<double>;
using Vector = ublas::vector<double>;

// Differences are wide and to both sides: a step takes the longer of two chains. Near equal lengths
// the slope would be that of one chain only.
constexpr double kRelativeChange = 0.01, kLeastChange = 0.01;
// Start with short steps: a long one may make a chain the shorter of the two,
// which hides its figures.
constexpr double kFirstDamping = 1, kMoreDamping = 4, kLessDamping = 2.5, kMostDamping = 1e6;
constexpr double kLeastGain = 1e-5;

double sum_of_squares(const std::vector<double>& residuals, const std::vector<double>& weights) {
  double sum = 0;
  for (size_t i = 0; i < residuals.size(); ++i)
    sum += weights[i] * residuals[i] * residuals[i];
  return sum;
}

// By row and value.
Matrix jacobian(const LeastSquares& problem, const std::vector<double>& values) {
  Matrix slopes(problem.weights.size(), values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    const double change = std::max(kLeastChange, kRelativeChange * values[k]);
    const double below = std::min(change, values[k]);
    std::vector<double> moved = values;
    moved[k] = values[k] + change;
    const std::vector<double> more = problem.residuals(moved);
    moved[k] = values[k] - below;
    const std::vector<double> less = problem.residuals(moved);
    for (size_t i = 0; i < more.size(); ++i)
      slopes(i, k) = (more[i] - less[i]) / (change + below);
  }
  return slopes;
}

// The matrix of the normal equations.
Matrix normal(const Matrix& slopes, const std::vector<double>& weights) {
  Matrix matrix = ublas::zero_matrix<double>(slopes.size2(), slopes.size2());
  for (size_t i = 0; i < slopes.size1(); ++i)
    for (size_t a = 0; a < slopes.size2(); ++a)
      for (size_t b = 0; b < slopes.size2(); ++b)
        matrix(a, b) += weights[i] * slopes(i, a) * slopes(i, b);
  return matrix;
}

// Returns false if the matrix is singular.
bool solve(Matrix matrix, Vector& right) {
  ublas::permutation_matrix<size_t> order(matrix.size1());
  if (ublas::lu_factorize(matrix, order) != 0)
    return false;
  ublas::lu_substitute(matrix, order, right);
  return true;
}

// Half the 95 % intervals. Infinite for a value that the rows do not determine.
std::vector<double> margins(const Matrix& slopes, const std::vector<double>& weights, double squares) {
  std::vector<double> margins(slopes.size2(), std::numeric_limits<double>::infinity());
  Matrix matrix = normal(slopes, weights);
  std::vector<size_t> determined;
  for (size_t k = 0; k < margins.size(); ++k)
    if (matrix(k, k) > 0)
      determined.push_back(k);
    else
      matrix(k, k) = 1;  // keeps the matrix regular and does not change the other values
  if (slopes.size1() <= determined.size())
    return margins;
  const double freedom = static_cast<double>(slopes.size1() - determined.size());
  const double quantile = boost::math::quantile(boost::math::students_t(freedom), 0.975);
  for (const size_t k : determined) {
    Vector unit = ublas::unit_vector<double>(margins.size(), k);
    if (solve(matrix, unit) && unit(k) > 0)
      margins[k] = quantile * std::sqrt(unit(k) * squares / freedom);
  }
  return margins;
}

}  // namespace

LeastSquares::Fit LeastSquares::fit(std::vector<double> start) const {
  Fit best{std::move(start), {}, {}};
  best.residuals = residuals(best.values);
  double squares = sum_of_squares(best.residuals, weights);
  double damping = kFirstDamping;
  Matrix slopes = jacobian(*this, best.values);
  for (int step = 0; step < most_steps && damping < kMostDamping;) {
    Matrix matrix = normal(slopes, weights);
    Vector right = ublas::zero_vector<double>(best.values.size());
    for (size_t k = 0; k < best.values.size(); ++k) {
      for (size_t i = 0; i < best.residuals.size(); ++i)
        right(k) -= weights[i] * slopes(i, k) * best.residuals[i];
      matrix(k, k) = matrix(k, k) * (1 + damping) + 1e-12;
    }
    std::vector<double> values = best.values;
    if (solve(matrix, right))
      for (size_t k = 0; k < values.size(); ++k)
        values[k] = std::max(0.0, values[k] + right(k));
    std::vector<double> there = residuals(values);
    const double less = sum_of_squares(there, weights);
    if (less >= squares) {
      damping *= kMoreDamping;
      continue;
    }
    const bool converged = less > squares * (1 - kLeastGain);
    best.values = std::move(values);
    best.residuals = std::move(there);
    squares = less;
    damping /= kLessDamping;
    ++step;
    slopes = jacobian(*this, best.values);
    if (converged)
      break;
  }
  best.margins = modelled::margins(slopes, weights, squares);
  return best;
}

namespace {

// Enough steps that the host stays ahead of its stream, or behind it.
constexpr uint32_t kSteps = 12;
constexpr int kStepsOfRefits = 6;  // steps of a fit that starts from a fit of nearly the same rows

// A figure to fit. `same`, if any, gets the same value.
struct Unknown {
  const char* figure;
  const char* same = nullptr;
};
constexpr Unknown kUnknowns[] = {
    {"kernel.copy"},
    {"kernel.copy_fine"},
    {"nic.byte"},
    {"nic.chunk_byte"},
    {"stream.ring", "stream.wait"},
    {"kernel.halo"},
    {"kernel.halo_fine"},
    {"kernel.edge_byte"},
    {"kernel.edge_byte_fine"},
    {"kernel.cell"},
    {"cpu.post"},
    {"cpu.post_shared"},
    {"cpu.launch"},
    {"cpu.launch_fine"},
};

void set(Machine& machine, const Unknown& unknown, double value, const std::string& origin) {
  machine.set(unknown.figure, value, origin);
  if (unknown.same != nullptr)
    machine.set(unknown.same, value, "assumed: as " + std::string(unknown.figure));
}

void set(Machine& machine, const std::vector<double>& values, const std::string& origin) {
  for (size_t i = 0; i < std::size(kUnknowns); ++i)
    set(machine, kUnknowns[i], values[i], origin);
}

std::vector<double> values_of(const Machine& machine) {
  std::vector<double> values;
  for (const Unknown& unknown : kUnknowns)
    values.push_back(machine[unknown.figure]);
  return values;
}

std::vector<double> weights_of(const std::vector<Measurement>& rows) {
  std::map<uint32_t, double> counts;  // halos by ranks
  double ping_pongs = 0;
  for (const Measurement& row : rows)
    (row.workload.kind == Kind::kPingPong ? ping_pongs : counts[row.workload.ranks]) += 1;
  const double halos = static_cast<double>(std::max<size_t>(1, counts.size()));
  std::vector<double> weights;
  for (const Measurement& row : rows)
    weights.push_back(row.workload.kind == Kind::kPingPong ? 1 / ping_pongs : 1 / halos / counts[row.workload.ranks]);
  return weights;
}

LeastSquares problem(const std::vector<Measurement>& rows, const Machine& machine) {
  LeastSquares problem;
  problem.weights = weights_of(rows);
  problem.residuals = [&rows, &machine](const std::vector<double>& values) {
    Machine tried = machine;
    set(tried, values, "tried");
    std::vector<double> residuals;
    for (const Measurement& row : rows)
      residuals.push_back(modelled_us(row.workload, tried).value() / row.us - 1);
    return residuals;
  };
  return problem;
}

}  // namespace

Result<double> modelled_us(const Workload& workload, const Machine& machine) {
  LANYARD_ASSIGN_OR_RETURN(const Job job, make_typical_job(workload, machine));
  LANYARD_ASSIGN_OR_RETURN(const Timing timing, run(job, {.steps = kSteps}));
  return static_cast<double>(timing.step_time()) / static_cast<double>(kMicrosecond);
}

Errors errors_of(const std::vector<double>& relative) {
  Errors errors;
  errors.rows = relative.size();
  for (const double each : relative) {
    errors.mean += std::abs(each) / static_cast<double>(relative.size());
    errors.most = std::max(errors.most, std::abs(each));
  }
  return errors;
}

Result<std::vector<Compared>> compare(const std::vector<Measurement>& rows, const Machine& machine) {
  std::vector<Compared> compared;
  for (const Measurement& row : rows) {
    LANYARD_ASSIGN_OR_RETURN(const double us, modelled_us(row.workload, machine));
    compared.push_back({row, us});
  }
  return compared;
}

Result<Calibration> calibrate(const std::vector<Measurement>& rows, const Machine& machine, const std::string& origin) {
  // A workload that runs with these figures runs with all others too.
  LANYARD_RETURN_IF_ERROR(compare(rows, machine).status());
  const LeastSquares::Fit fit = problem(rows, machine).fit(values_of(machine));
  Calibration calibration{machine, {}, {}};
  for (size_t i = 0; i < std::size(kUnknowns); ++i) {
    calibration.figures.push_back({kUnknowns[i].figure, fit.values[i], fit.margins[i]});
    if (!std::isfinite(fit.margins[i]))
      continue;
    char interval[64];
    std::snprintf(interval, sizeof interval, ", +- %.2g", fit.margins[i]);
    set(calibration.machine, kUnknowns[i], fit.values[i], origin + interval);
  }
  for (size_t i = 0; i < rows.size(); ++i)
    calibration.rows.push_back({rows[i], rows[i].us * (1 + fit.residuals[i])});
  return calibration;
}

Result<std::vector<LeftOut>> leave_rank_counts_out(const std::vector<Measurement>& rows, const Calibration& all) {
  const auto is_left_out = [](const Measurement& row, uint32_t ranks) {
    return row.workload.kind != Kind::kPingPong && row.workload.ranks == ranks;
  };
  std::set<uint32_t> counts;
  for (const Measurement& row : rows)
    if (row.workload.kind != Kind::kPingPong)
      counts.insert(row.workload.ranks);
  std::vector<LeftOut> left_out;
  for (const uint32_t ranks : counts) {
    std::vector<Measurement> kept, out;
    for (const Measurement& row : rows)
      (is_left_out(row, ranks) ? out : kept).push_back(row);
    if (kept.empty())
      continue;
    LeastSquares refit = problem(kept, all.machine);
    refit.most_steps = kStepsOfRefits;
    Machine machine = all.machine;
    set(machine, refit.fit(values_of(machine)).values, "fitted without some rows");
    LANYARD_ASSIGN_OR_RETURN(std::vector<Compared> compared, compare(out, machine));
    left_out.push_back({ranks, std::move(compared)});
  }
  return left_out;
}

}  // namespace lanyard::modelled
