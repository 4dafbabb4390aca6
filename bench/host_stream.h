// A host stream of Lanyard's, owned: it stands in for a GPU stream, functions on it for kernels.
#ifndef LANYARD_BENCH_HOST_STREAM_H_
#define LANYARD_BENCH_HOST_STREAM_H_

#include "api/lanyard.h"
#include "bench/mpi_check.h"

namespace lanyard::bench {

class HostStream {
 public:
  HostStream() { check(MPIX_Host_stream_create(&stream_), "MPIX_Host_stream_create"); }
  ~HostStream() { check(MPIX_Host_stream_free(&stream_), "MPIX_Host_stream_free"); }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  // Enqueues kernel(argument); the argument must live until it has run.
  void launch(void (*kernel)(void*), void* argument) {
    if (MPIX_Host_stream_launch(stream_, kernel, argument) == MPI_SUCCESS) [[likely]]
      return;
    // Most likely the stream is full. Letting it run dry cannot deadlock: every wait enqueued so
    // far has its start enqueued before it, on every rank. A second failure is a real one.
    synchronize();
    check(MPIX_Host_stream_launch(stream_, kernel, argument), "MPIX_Host_stream_launch");
  }
  void synchronize() {
    check(MPIX_Host_stream_synchronize(stream_), "MPIX_Host_stream_synchronize");
  }
  MPIX_Host_stream* address() { return &stream_; }

 private:
  MPIX_Host_stream stream_ = MPIX_HOST_STREAM_NULL;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_HOST_STREAM_H_
