#include "bench/halo_run.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "bench/gpu_aware_mpi.h"
#include "bench/progress.h"

namespace lanyard::bench {
namespace {

class HaloRun {
 public:
  HaloRun(HaloMode mode, const HaloRunOptions& options, Stream& stream, std::unique_ptr<HaloSteps> steps)
      : mode_(mode), options_(options), stream_(stream), steps_(std::move(steps)) {}

  HaloSteps& steps() { return *steps_; }

  // Makes the graphs that run() takes for so many steps: of whole ones, and of what is left. Before fill().
  void capture(long steps) {
    if (mode_ == HaloMode::kNccl) {
      steps_->enqueue(0, 1);  // the first makes connections, which no capture may
      steps_->synchronize();
    }
    for (const long length : {std::min(steps, kGraphSteps), steps % kGraphSteps}) {
      if (length == 0 || graphs_[length] != nullptr)
        continue;
      stream_.gpu()->begin_capture();
      for (long step = 0; step < length; ++step)
        steps_->enqueue(step, 1);
      graphs_[length] = stream_.gpu()->end_capture();
    }
  }

  // But where the host sends it only enqueues, and waits after every batch.
  void run(long steps, Progress& progress) {
    const long length = mode_ == HaloMode::kKernel ? steps : options_.is_captured ? kGraphSteps : 1;
    const long batch = std::max(options_.batch / std::max(length, 1L), 1L) * length;
    for (long done = 0; done < steps;) {
      const long next = std::min(length, steps - done);
      if (options_.is_captured)
        stream_.gpu()->replay(*graphs_.at(next));
      else
        steps_->enqueue(done, next);
      done += next;
      if (done % batch != 0)
        continue;
      if (!is_cpu_driven(mode_))
        steps_->synchronize();
      progress.at(done);
    }
    steps_->synchronize();
  }

 private:
  const HaloMode mode_;
  const HaloRunOptions& options_;
  Stream& stream_;
  const std::unique_ptr<HaloSteps> steps_;
  // By how many steps they have; those begin at the first one's place, which is even as all of them are for programs
  // with two generations of cells. Destroyed before the requests in them.
  static_assert(kGraphSteps % 2 == 0);
  std::map<long, std::unique_ptr<Graph>> graphs_;
};

}  // namespace

HaloRunResult run_halo(HaloMode mode, const std::string& what, const HaloRunOptions& options, const Streams& streams,
                       const MpiProcess& process, const std::function<std::unique_ptr<HaloSteps>(Stream&, Nccl*)>& make,
                       const std::function<void()>& finish) {
  HaloRunResult result;
  const auto is_refused = [&] {
    result.is_refused = !process.all(result.refusal.empty());
    return result.is_refused;
  };
  const std::unique_ptr<Stream> stream = streams.make();
  std::unique_ptr<Nccl> nccl;
  if (mode == HaloMode::kMpiGpu)
    result.refusal = why_not_gpu_aware(*stream);
  if (is_refused())
    return result;
  if (mode == HaloMode::kNccl) {
    nccl = Nccl::open(process, *stream, result.refusal);
    result.is_refused = nccl == nullptr;
    if (result.is_refused)
      return result;
    result.nccl = nccl->version();
  }
  HaloRun run(mode, options, *stream, make(*stream, nccl.get()));
  HaloSteps& steps = run.steps();
  if (options.is_captured || mode == HaloMode::kKernel) {
    result.refusal = steps.why_not();
    if (is_refused())
      return result;
  }
  if (options.is_captured) {
    run.capture(options.warmup);
    run.capture(options.steps);
  }
  Progress progress(what, options.steps, process.is_first());
  steps.fill();
  run.run(options.warmup, progress);
  steps.fill();
  steps.poison_messages();  // not before the warm-up, whose messages may be coming in already
  const QueueInfo before = steps.info();

  process.barrier();
  const auto begin = std::chrono::steady_clock::now();
  run.run(options.steps, progress);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;

  result.seconds = process.largest(elapsed.count());
  result.nic = steps.info();
  if (has_queue(mode))
    result.entries = entry_figures(before, result.nic);
  finish();
  return result;
}

}  // namespace lanyard::bench
