#include "bench/cg_run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "bench/nccl.h"
#include "bench/progress.h"

namespace lanyard::bench {
namespace {

// From the beginning until it is over, or `most` iterations have been made; how many have been enqueued. All ranks look
// at the same point and see the same.
int64_t solve(CgLoop& loop, bool is_by_host, int64_t check_every, int64_t most, Progress& progress) {
  // Pipelined CG sees in an iteration what the one before has come to.
  const int64_t last = most + 1;
  int64_t enqueued = 0;
  loop.begin();
  for (bool is_over = false; !is_over && enqueued < last;) {
    const int64_t batch = is_by_host ? 1 : std::min(check_every, last - enqueued);
    for (int64_t i = 0; i < batch; ++i)
      loop.iterate();
    enqueued += batch;
    if (!is_by_host)
      loop.synchronize();
    is_over = loop.is_over();
    progress.at(enqueued);
  }
  loop.synchronize();
  return enqueued;
}

CgSeconds measure(CgLoop& loop, const CgRunOptions& options, const CgSystem& system, int64_t iterations) {
  loop.fill(system.side, options.tolerance, options.most_iterations);
  loop.begin();
  loop.synchronize();
  loop.measure();
  // Not the last one, which may leave undone what it finds to be over.
  const int64_t measured = std::max<int64_t>(std::min(options.measured, iterations - 1), 1);
  for (int64_t i = 0; i < measured; ++i)
    loop.iterate();
  loop.synchronize();
  CgSeconds us = loop.seconds();
  for (double& each : us)
    each *= 1e6 / static_cast<double>(measured);
  check(MPI_Allreduce(MPI_IN_PLACE, us.data(), kCgWorks, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
  return us;
}

}  // namespace

CgResult run_cg(const CgMethod& method, const std::string& name, const CgRunOptions& options, const CgSystem& system,
                const Streams& streams, const MpiProcess& process) {
  CgResult result;
  const std::unique_ptr<Stream> stream = streams.make();
  std::unique_ptr<Nccl> nccl;
  if (method.mode == CgMode::kNccl) {
    nccl = Nccl::open(process, *stream, result.refusal);
    result.is_refused = nccl == nullptr;
    if (result.is_refused)
      return result;
    result.nccl = nccl->version();
  }
  CgLoop loop(method, system.local, process.ranks(), options.most_iterations, *stream, nccl.get());
  result.refusal = method.is_captured ? loop.why_not_captured() : loop.why_not_merged();
  result.is_refused = !process.all(result.refusal.empty());
  if (result.is_refused)
    return result;
  if (method.is_captured) {
    loop.fill(system.side, options.tolerance, options.most_iterations);
    loop.capture();
  }
  const bool is_by_host = method.mode == CgMode::kMpi;
  Progress progress("cg: " + name, options.most_iterations, process.is_first());
  const auto solve_from_start = [&](int64_t most) {
    loop.fill(system.side, options.tolerance, most);
    process.barrier();
    const auto begin = std::chrono::steady_clock::now();
    result.enqueued = solve(loop, is_by_host, options.check_every, most, progress);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return process.largest(elapsed.count());
  };
  if (options.warmup > 0)
    solve_from_start(options.warmup);
  const QueueInfo before = loop.info();
  std::vector<double> history;
  bool is_reproducible = true;
  for (int trial = 0; trial < options.trials; ++trial) {
    result.seconds.push_back(solve_from_start(options.most_iterations));
    std::vector<double> residuals = loop.history();
    is_reproducible = is_reproducible && (trial == 0 || residuals == history);
    history = std::move(residuals);
  }
  result.nic = loop.info();
  if (method.mode == CgMode::kStream)
    result.entries = entry_figures(before, result.nic);
  const CgState state = loop.state();
  result.iterations = state.iterations;
  // The MPI adds up as it likes, NCCL too.
  const CgClaim claim = {method.solver, options.tolerance, options.expected_iterations,
                         is_reproducible || method.mode != CgMode::kStream};
  result.findings =
      check_cg(system.problem, system.partition, system.local, claim, state, history, loop.solution(), process);
  if (options.measured > 0 && !method.is_captured && result.findings.mistakes.empty())
    result.us_per_iteration = measure(loop, options, system, result.iterations);
  return result;
}

}  // namespace lanyard::bench
