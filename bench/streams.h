// Where a benchmark runs: streams of the host or of GPUs.
#ifndef LANYARD_BENCH_STREAMS_H_
#define LANYARD_BENCH_STREAMS_H_

#include <cstring>
#include <memory>
#include <string>

#include <lanyard/lanyard.h>
#include "bench/life.h"
#include "bench/program.h"
#include "bench/report.h"
#include "bench/stream.h"

namespace lanyard::bench {

// A host stream of Lanyard's, owned. It stands in for a GPU stream, and its functions for kernels.
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
  void launch(const halo::BoxCopies& copies) override { launch(halo::copy_boxes_on_host, mutable_address(copies)); }
  void launch(const JacobiKernel& kernel) override { launch(kernel.on_host, mutable_address(kernel)); }
  void launch(const LifeKernel& kernel) override { launch(life_kernel, mutable_address(kernel)); }
  void launch(const TripsKernel& kernel) override { launch(trips, mutable_address(kernel)); }

 private:
  struct OnlyThread {
    bool is_leader() const { return true; }
    void copy(const CopyKernel& what) const { std::memcpy(what.to, what.from, what.bytes); }
  };

  // Kernels take a void*, but do not write to it.
  template <class Kernel>
  static void* mutable_address(const Kernel& kernel) {
    return const_cast<Kernel*>(&kernel);
  }
  static void copy(void* argument) { OnlyThread().copy(*static_cast<const CopyKernel*>(argument)); }
  static void trips(void* argument) { make_trips(*static_cast<const TripsKernel*>(argument), OnlyThread()); }

  MPIX_Host_stream stream_ = MPIX_HOST_STREAM_NULL;
};

// What add_memory() asks for.
class Streams {
 public:
  // GPUs if asked for and possible on every rank; else the host, and the program says why on
  // stderr. Collective over MPI_COMM_WORLD. Ranks of one host take its GPUs in turn.
  Streams(bool wants_device, const char* program, const MpiProcess& process);

  // A new stream, of the same kind on every rank.
  std::unique_ptr<Stream> make() const;
  bool has_device() const { return has_device_; }
  // Facts: memory, stream, device (rank 0's; empty for host memory).
  void describe(Report& report) const;

 private:
  int local_rank_ = 0;
  bool has_device_ = false;
  std::string kind_ = "host";
  std::string device_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAMS_H_
