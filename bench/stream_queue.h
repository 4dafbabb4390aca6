// A queue of Lanyard's on a stream, owned. Every call is checked; its name is the MPIX call's.
#ifndef LANYARD_BENCH_STREAM_QUEUE_H_
#define LANYARD_BENCH_STREAM_QUEUE_H_

#include <string>

#include <lanyard/lanyard.h>
#include "bench/mpi_check.h"
#include "bench/queue_info.h"
#include "bench/request_set.h"
#include "bench/stream.h"

namespace lanyard::bench {

class StreamQueue {
 public:
  explicit StreamQueue(Stream& stream) {
    check(MPIX_Queue_init(&queue_, type(stream), stream.address()), "MPIX_Queue_init");
  }
  // Why there can be no queue on the stream whose requests move the stream's memory; empty if there
  // can.
  static std::string refusal(Stream& stream) {
    MPIX_Queue queue = MPIX_QUEUE_NULL;
    const int code = MPIX_Queue_init(&queue, type(stream), stream.address());
    if (code != MPI_SUCCESS)
      return "MPIX_Queue_init: " + mpi_error_text(code);
    const QueueInfo info(queue);
    check(MPIX_Queue_free(&queue), "MPIX_Queue_free");
    if (stream.gpu() != nullptr && info.text("device_memory") != "yes")
      return "the network card (" + info.text("nic") + ") does not reach GPU memory";
    return "";
  }
  // Requires that the wait of every start has been enqueued.
  ~StreamQueue() { check(MPIX_Queue_free(&queue_), "MPIX_Queue_free"); }
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  void start(MPI_Request& request) { check(MPIX_Enqueue_start(queue_, &request), "MPIX_Enqueue_start"); }
  void wait(MPI_Request& request) { check(MPIX_Enqueue_wait(queue_, &request), "MPIX_Enqueue_wait"); }
  void start_all(int count, MPI_Request* requests) {
    check(MPIX_Enqueue_startall(queue_, count, requests), "MPIX_Enqueue_startall");
  }
  void start_all(RequestSet& set) { start_all(set.count(), set.data()); }
  void wait_all(int count, MPI_Request* requests) {
    check(MPIX_Enqueue_waitall(queue_, count, requests), "MPIX_Enqueue_waitall");
  }
  void wait_all(RequestSet& set) { wait_all(set.count(), set.data()); }

  // A set of the requests for kernels on the stream, which must have ended when it is freed. Why it
  // cannot be had, or nothing.
  std::string try_make_set(int count, MPI_Request* requests, MPIX_Device_requests*& set) {
    const int code = MPIX_Device_requests_create(queue_, count, requests, &set);
    return code == MPI_SUCCESS ? "" : "MPIX_Device_requests_create: " + mpi_error_text(code);
  }
  void free_set(MPIX_Device_requests*& set) {
    check(MPIX_Device_requests_free(queue_, &set), "MPIX_Device_requests_free");
  }

  // Blocks the caller until everything enqueued has completed, starts without a wait included.
  void drain() { check(MPIX_Queue_wait(queue_), "MPIX_Queue_wait"); }
  QueueInfo info() const { return QueueInfo(queue_); }

 private:
  static MPIX_Queue_type type(const Stream& stream) {
    switch (stream.kind()) {
      case Stream::Kind::kCuda: return MPIX_QUEUE_CUDA;
      case Stream::Kind::kHip: return MPIX_QUEUE_HIP;
      default: return MPIX_QUEUE_HOST;
    }
  }

  MPIX_Queue queue_ = MPIX_QUEUE_NULL;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAM_QUEUE_H_
