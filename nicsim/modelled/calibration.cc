#include "nicsim/modelled/calibration.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "nicsim/modelled/engine.h"

namespace lanyard::modelled {

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

void set(Machine& machine, const std::vector<double>& values, const std::string& origin) {
  size_t next = 0;
  for (const Unknown& unknown : kUnknowns) {
    machine.set(unknown.figure, values[next], origin);
    if (unknown.same != nullptr)
      machine.set(unknown.same, values[next], "assumed: as " + std::string(unknown.figure));
    ++next;
  }
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
  const Result<Job> job = make_typical_job(workload, machine);
  if (!job.ok())
    return job.status();
  const Result<Timing> timing = run(job.value(), {.steps = kSteps});
  if (!timing.ok())
    return timing.status();
  return static_cast<double>(timing.value().step_time()) / static_cast<double>(kMicrosecond);
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
    const Result<double> us = modelled_us(row.workload, machine);
    if (!us.ok())
      return us.status();
    compared.push_back({row, us.value()});
  }
  return compared;
}

Result<Calibration> calibrate(const std::vector<Measurement>& rows, const Machine& machine, const std::string& origin) {
  // A workload that runs with these figures runs with all others too.
  const Result<std::vector<Compared>> before = compare(rows, machine);
  if (!before.ok())
    return before.status();
  const LeastSquares::Fit fit = problem(rows, machine).fit(values_of(machine));
  Calibration calibration{machine, {}, {}};
  size_t next = 0;
  for (const Unknown& unknown : kUnknowns) {
    const Calibration::Fitted fitted{unknown.figure, fit.values[next], fit.margins[next]};
    calibration.figures.push_back(fitted);
    ++next;
    if (!std::isfinite(fitted.margin))
      continue;
    char interval[64];
    std::snprintf(interval, sizeof interval, ", +- %.2g", fitted.margin);
    calibration.machine.set(unknown.figure, fitted.value, origin + interval);
    if (unknown.same != nullptr)
      calibration.machine.set(unknown.same, fitted.value, "assumed: as " + fitted.figure);
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
    Result<std::vector<Compared>> compared = compare(out, machine);
    if (!compared.ok())
      return compared.status();
    left_out.push_back({ranks, std::move(compared.value())});
  }
  return left_out;
}

}  // namespace lanyard::modelled
