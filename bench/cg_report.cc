#include "bench/cg_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace lanyard::bench {
namespace {

template <class T>
Record to_json(const std::optional<T>& value) {
  return value ? Record(*value) : Record(nullptr);
}

double giga_each_second(double amount, double us) { return us > 0 ? amount / us / 1e3 : 0; }

}  // namespace

const char* name_of(CgSolver solver) { return solver == CgSolver::kCg ? "cg" : "pipelined"; }

bool CgReport::verified() const {
  return baseline_is_right && !runs.empty() &&
         std::all_of(runs.begin(), runs.end(), [](const CgRow& row) { return row.is_right(); });
}

QueueInfo CgReport::nic() const {
  QueueInfo last;
  for (const CgRow& row : runs)
    if (!row.result.nic.empty())
      last = row.result.nic;
  return last;
}

// SpMV: 2 flops and 20 bytes an entry, and 20 bytes a row; AXPY 2 flops and 24 bytes a row, DOT 2 and 16, NRM2 2 and 8.
std::vector<CgKernelFigures> CgReport::kernels(const CgRow& row) const {
  const auto m = static_cast<double>(rows), nnz = static_cast<double>(nonzeros), values = static_cast<double>(ghosts);
  const CgSeconds& all = *row.result.us_per_iteration;
  const auto us = [&](CgWork work) { return all[static_cast<size_t>(work)]; };
  const bool is_cg = row.solver == CgSolver::kCg;
  const int axpys = is_cg ? 3 : 6;
  std::vector<CgKernelFigures> list;
  list.push_back({"SpMV", 1, 2 * nnz, 20 * (nnz + m), us(CgWork::kSpmv)});
  list.push_back({"AXPY", axpys, 2 * m * axpys, 24 * m * axpys, us(CgWork::kAxpy)});
  if (is_cg) {
    list.push_back({"DOT", 1, 2 * m, 16 * m, us(CgWork::kDot)});
    list.push_back({"NRM2", 1, 2 * m, 8 * m, us(CgWork::kNorm)});
  } else {
    list.push_back({"DOT+NRM2", 2, 4 * m, 24 * m, us(CgWork::kDot)});
  }
  list.push_back({"pack", 1, 0, 20 * values, us(CgWork::kPack)});
  list.push_back({"halo", 1, 0, 8 * values, us(CgWork::kHalo)});
  const int sums = is_cg ? 2 : 1;
  list.push_back({"allreduce", sums, 0, 16.0 * ranks, us(CgWork::kSum)});
  list.push_back({"scalars", sums, 0, 0, us(CgWork::kScalars)});
  return list;
}

Record CgReport::kernels_json() const {
  Record list = Record::array();
  for (const CgRow& row : runs) {
    if (!row.result.us_per_iteration)
      continue;
    const auto iterations = static_cast<double>(row.result.iterations);
    for (const CgKernelFigures& k : kernels(row))
      list.push_back({{"solver", name_of(row.solver)},
                      {"mode", row.mode},
                      {"work", k.name},
                      {"calls", k.calls * row.result.iterations},
                      {"flops", k.flops * iterations},
                      {"bytes", k.bytes * iterations},
                      {"us_per_iteration", k.us},
                      {"gflops_per_s", giga_each_second(k.flops, k.us)},
                      {"gbytes_per_s", giga_each_second(k.bytes, k.us)}});
  }
  return list;
}

void CgReport::print(Format format) const {
  switch (format) {
    case Format::kText: return print_text();
    case Format::kCsv: return results().print_csv();
    case Format::kJson:
      return results().print_json({{"verified", verified()}, {"kernels", kernels_json()}, {"nic", nic().json()}});
  }
}

void CgReport::print_text() const {
  fmt::print("# Conjugate gradients, {}: {} rows, {} entries, b: {}, to {:g}\n", matrix, rows, nonzeros, side,
             tolerance);
  fmt::print("# MPI library: {}\n# ranks: {}, partition: {}, {} values exchanged\n", mpi_library(), ranks, partition,
             ghosts);
  fmt::print("# commit: {}\n# memory: {}\n", commit(), place.summary());
  fmt::print("# exchange: {}, iterations enqueued before the host looks: {}\n", exchange, check_every);
  if (!nccl.empty())
    fmt::print("# {}\n", nccl);
  fmt::print("# NIC: {}\n", nic().summary());
  fmt::print("{:<10} {:<11} {:>10} {:>10} {:>9} {:>13} {:>7} {:>10} {:>10} {:>9}\n", "solver", "mode", "iterations",
             "seconds", "+-", "iterations/s", "ratio", "residual", "true", "verified");
  for (const CgRow& row : runs) {
    const Estimate seconds = row.seconds();
    const CgResult& result = row.result;
    fmt::print("{:<10} {:<11} {:>10} {:>10.5f} {:>9} {:>13.1f} {:>7.2f} {:>10.3e} {:>10.3e} {:>9}\n",
               name_of(row.solver), row.mode, result.iterations, seconds.mean,
               seconds.ci95 ? fmt::format("{:.5f}", *seconds.ci95) : "-",
               static_cast<double>(result.iterations) / seconds.mean, seconds.mean / row.baseline_seconds,
               result.findings.relative_residual, result.findings.true_residual, row.is_right() ? "yes" : "NO");
  }
  for (const CgRow& row : runs) {
    if (row.result.entries)
      fmt::print("# {} {}: {} of {} deferred-work entries overflowed\n", name_of(row.solver), row.mode,
                 row.result.entries->overflowed, row.result.entries->posted);
    if (row.result.findings.closed_form)
      fmt::print("# {} {}: residuals differ by {:.2e} from the closed form\n", name_of(row.solver), row.mode,
                 *row.result.findings.closed_form);
  }
  for (const CgRow& row : runs)
    if (row.result.us_per_iteration)
      print_kernels(row);
}

void CgReport::print_kernels(const CgRow& row) const {
  fmt::print("# {} {}, each piece of work awaited by the host, of the slowest rank; of all ranks and iterations:\n",
             name_of(row.solver), row.mode);
  fmt::print("{:<10} {:>10} {:>12} {:>12} {:>14} {:>10} {:>10}\n", "work", "calls", "Gflop", "GB", "us/iteration",
             "Gflop/s", "GB/s");
  const auto iterations = static_cast<double>(row.result.iterations);
  for (const CgKernelFigures& k : kernels(row))
    fmt::print("{:<10} {:>10} {:>12.4f} {:>12.4f} {:>14.2f} {:>10.3f} {:>10.3f}\n", k.name,
               k.calls * row.result.iterations, k.flops * iterations / 1e9, k.bytes * iterations / 1e9, k.us,
               giga_each_second(k.flops, k.us), giga_each_second(k.bytes, k.us));
}

Results CgReport::results() const {
  Results results("cg", ranks, place);
  results.set("matrix", matrix);
  results.set("rows", rows);
  results.set("nonzeros", nonzeros);
  results.set("ghosts", ghosts);
  results.set("partition", partition);
  results.set("rhs", side);
  results.set("exchange", exchange);
  results.set("tolerance", tolerance);
  results.set("check_every", check_every);
  if (!nccl.empty())
    results.set("nccl", nccl);
  for (const CgRow& row : runs) {
    const Estimate seconds = row.seconds();
    const CgResult& result = row.result;
    const CgFindings& findings = result.findings;
    Record r = {{"solver", name_of(row.solver)},
                {"mode", row.mode},
                {"iterations", result.iterations},
                {"iterations_enqueued", result.enqueued},
                {"seconds_mean", seconds.mean},
                {"seconds_ci95", to_json(seconds.ci95)},
                {"seconds_min", seconds.min},
                {"iterations_per_s", static_cast<double>(result.iterations) / seconds.mean},
                {"baseline_seconds_mean", row.baseline_seconds},
                {"ratio_to_baseline", seconds.mean / row.baseline_seconds},
                {"relative_residual", findings.relative_residual},
                {"true_residual", findings.true_residual},
                {"error", to_json(findings.error)},
                {"closed_form_difference", to_json(findings.closed_form)},
                {"verified", row.is_right()}};
    if (result.entries)
      r.update(result.entries->record());
    if (result.us_per_iteration)
      for (const CgKernelFigures& k : kernels(row))
        r[k.name + "_us_per_iteration"] = k.us;
    results.add(r);
  }
  return results;
}

}  // namespace lanyard::bench
