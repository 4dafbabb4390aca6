// A host stream of Lanyard's, owned: it stands in for a GPU stream, functions on it for kernels.
#ifndef LANYARD_BENCH_HOST_STREAM_H_
#define LANYARD_BENCH_HOST_STREAM_H_

#include <cstring>

#include <lanyard/lanyard.h>
#include "bench/life.h"
#include "bench/mpi_check.h"
#include "bench/stream.h"

namespace lanyard::bench {

class HostStream final : public Stream {
 public:
  HostStream() { check(MPIX_Host_stream_create(&stream_), "MPIX_Host_stream_create"); }
  ~HostStream() override { check(MPIX_Host_stream_free(&stream_), "MPIX_Host_stream_free"); }

  Kind kind() const override { return Kind::kHost; }
  void* address() override { return &stream_; }
  void synchronize() override { check(MPIX_Host_stream_synchronize(stream_), "MPIX_Host_stream_synchronize"); }

  // Enqueues kernel(argument); the argument must live until it has run.
  void launch(void (*kernel)(void*), void* argument) {
    if (MPIX_Host_stream_launch(stream_, kernel, argument) == MPI_SUCCESS) [[likely]]
      return;
    // Most likely the stream is full. Letting it run dry cannot deadlock: every wait enqueued so
    // far has its start enqueued before it, on every rank. A second failure is a real one.
    synchronize();
    check(MPIX_Host_stream_launch(stream_, kernel, argument), "MPIX_Host_stream_launch");
  }

  void launch(const CopyKernel& kernel) override { launch(copy, mutable_address(kernel)); }
  void launch(const HaloKernel& kernel) override { launch(kernel.on_host, mutable_address(kernel)); }
  void launch(const LifeKernel& kernel) override { launch(life_kernel, mutable_address(kernel)); }
  void launch(const JacobiKernel& kernel) override { launch(kernel.on_host, mutable_address(kernel)); }
  void launch(const JacobiLoop& kernel) override { launch(kernel.on_host, mutable_address(kernel)); }
  void launch(const TripsKernel& kernel) override { launch(trips, mutable_address(kernel)); }
  void launch(const ComputeKernel& kernel) override { launch(compute_alone, mutable_address(kernel)); }
  void launch(const ContributionKernel& kernel) override { launch(contribute, mutable_address(kernel)); }

 private:
  struct OnlyThread {
    void copy(const CopyKernel& what) const { std::memcpy(what.to, what.from, what.bytes); }
  };

  // Kernels take a void*, but do not write to it.
  template <class Kernel>
  static void* mutable_address(const Kernel& kernel) {
    return const_cast<Kernel*>(&kernel);
  }
  static void copy(void* argument) { OnlyThread().copy(*static_cast<const CopyKernel*>(argument)); }
  static void compute_alone(void* argument) {
    const ComputeKernel& kernel = *static_cast<const ComputeKernel*>(argument);
    *kernel.result = compute(kernel.rounds);
  }
  static void contribute(void* argument) {
    const ContributionKernel& kernel = *static_cast<const ContributionKernel*>(argument);
    const uint64_t round = ++*kernel.rounds;
    for (size_t i = 0; i < kernel.count; ++i)
      kernel.to[i] = contribution(round, kernel.rank, i);
  }
  static void trips(void* argument) { make_trips(*static_cast<const TripsKernel*>(argument), OnlyThread()); }

  MPIX_Host_stream stream_ = MPIX_HOST_STREAM_NULL;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_HOST_STREAM_H_
