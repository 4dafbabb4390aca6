// A queue of Lanyard's on a host stream, owned. Every call is checked; its name is the MPIX call's.
#ifndef LANYARD_BENCH_STREAM_QUEUE_H_
#define LANYARD_BENCH_STREAM_QUEUE_H_

#include "api/lanyard.h"
#include "bench/host_stream.h"
#include "bench/mpi_check.h"
#include "bench/queue_info.h"
#include "bench/request_set.h"

namespace lanyard::bench {

class StreamQueue {
 public:
  explicit StreamQueue(HostStream& stream) {
    check(MPIX_Queue_init(&queue_, MPIX_QUEUE_HOST, stream.address()), "MPIX_Queue_init");
  }
  // Requires that the wait of every start has been enqueued.
  ~StreamQueue() { check(MPIX_Queue_free(&queue_), "MPIX_Queue_free"); }
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  void start(MPI_Request& request) {
    check(MPIX_Enqueue_start(queue_, &request), "MPIX_Enqueue_start");
  }
  void wait(MPI_Request& request) {
    check(MPIX_Enqueue_wait(queue_, &request), "MPIX_Enqueue_wait");
  }
  void start_all(int count, MPI_Request* requests) {
    check(MPIX_Enqueue_startall(queue_, count, requests), "MPIX_Enqueue_startall");
  }
  void start_all(RequestSet& set) { start_all(set.count(), set.data()); }
  void wait_all(int count, MPI_Request* requests) {
    check(MPIX_Enqueue_waitall(queue_, count, requests), "MPIX_Enqueue_waitall");
  }
  void wait_all(RequestSet& set) { wait_all(set.count(), set.data()); }

  // Blocks the caller until everything enqueued has completed, starts without a wait included.
  void drain() { check(MPIX_Queue_wait(queue_), "MPIX_Queue_wait"); }
  QueueInfo info() const { return QueueInfo(queue_); }

 private:
  MPIX_Queue queue_ = MPIX_QUEUE_NULL;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAM_QUEUE_H_
