#include "bench/pattern_run.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "bench/aligned_buffer.h"
#include "bench/expectation.h"
#include "bench/progress.h"

namespace lanyard::bench {
namespace {

// A back end on memory of its own, whose contents are new before each iteration.
class Loop {
 public:
  Loop(const std::string& name, const Plan& plan, const PatternRunOptions& options, const MpiProcess& process,
       Stream* stream)
      : name_(name),
        options_(options),
        process_(process),
        expectation_(plan, process.rank(), process.ranks(), options.batch),
        share_(plan, process.rank()),
        memory_(share_.bytes(), stream == nullptr ? nullptr : stream->gpu()) {}

  const PlanShare& share() const { return share_; }
  std::byte* memory() { return memory_.data(); }

  // Seconds.
  double time(BackEnd& back_end, bool is_checked) {
    ++round_;
    if (is_checked)
      memory_.write([&](std::span<std::byte> bytes) { expectation_.begin(round_, bytes); });
    process_.barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < options_.batch; ++i)
      back_end.enqueue();
    back_end.finish();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (is_checked)
      check_memory();
    return elapsed.count();
  }
  bool is_right() const { return is_right_; }

 private:
  void check_memory() {
    const auto mistake =
        memory_.read([&](std::span<const std::byte> bytes) { return expectation_.mistake(round_, bytes); });
    if (mistake && is_right_)
      fmt::print(stderr, "patterns: back end {}, iteration {}: {}\n", name_, round_, *mistake);
    is_right_ = is_right_ && !mistake;
  }

  const std::string& name_;
  const PatternRunOptions& options_;
  const MpiProcess& process_;
  const Expectation expectation_;
  const PlanShare share_;
  AlignedBuffer memory_;
  uint64_t round_ = 0;
  bool is_right_ = true;
};

}  // namespace

PatternResult run_plan(BackEndKind kind, const std::string& name, const Plan& plan, const PatternRunOptions& options,
                       const Streams& streams, const MpiProcess& process) {
  PatternResult result;
  // In host memory what needs no stream shall have none whose threads could disturb it.
  std::unique_ptr<Stream> stream;
  if (streams.has_device() || !is_host_driven(kind))
    stream = streams.make();
  Loop loop(name, plan, options, process, stream.get());
  const std::unique_ptr<BackEnd> back_end =
      make_back_end(kind, loop.share(), loop.memory(), stream.get(), process, result.refusal);
  result.is_refused = back_end == nullptr;
  if (result.is_refused)
    return result;
  result.library = back_end->library();
  for (int i = 0; i < options.warmup; ++i)
    loop.time(*back_end, options.checks_all);
  const QueueInfo before = back_end->info();
  Progress progress(fmt::format("patterns: back end {}", name), options.iterations, process.is_first());
  for (int i = 0; i < options.iterations; ++i) {
    const double seconds = loop.time(*back_end, options.checks_all || i == 0 || i + 1 == options.iterations);
    result.us.push_back(seconds * 1e6 / options.batch);
    progress.at(i + 1);
  }
  check(MPI_Allreduce(MPI_IN_PLACE, result.us.data(), options.iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
        "MPI_Allreduce");
  result.is_right = process.all(loop.is_right());
  result.nic = back_end->info();
  if (!result.nic.empty())
    result.entries = entry_figures(before, result.nic);
  return result;
}

}  // namespace lanyard::bench
