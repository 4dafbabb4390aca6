// GlobalSum: adds up some numbers of all ranks, by the host or in the order of a stream.
#ifndef LANYARD_BENCH_GLOBAL_SUM_H_
#define LANYARD_BENCH_GLOBAL_SUM_H_

#include <mpi.h>

#include <string>

#include <lanyard/lanyard.h>
#include "bench/mpi_check.h"
#include "bench/nccl.h"
#include "bench/request_set.h"
#include "bench/sparse_halo.h"
#include "bench/stream.h"
#include "bench/stream_queue.h"

namespace lanyard::bench {

class GlobalSum {
 public:
  // `own` and `totals` are of `count` numbers, in the stream's memory; in kMpi in the host's. Where there is one rank
  // they are the same: nothing is to be done then. is_captured: for graphs. Collective over MPI_COMM_WORLD, in kStream
  // matches. The stream, the queue (kStream) and `nccl` (kNccl) outlive this object.
  GlobalSum(CgMode mode, const double* own, double* totals, int count, bool is_captured, Stream& stream,
            StreamQueue* queue, Nccl* nccl)
      : mode_(mode), own_(own), totals_(totals), count_(count), stream_(stream), queue_(queue), nccl_(nccl) {
    if (mode_ == CgMode::kStream && !is_alone())
      make_request(is_captured);
  }
  // Requires that everything has run.
  ~GlobalSum() = default;
  GlobalSum(const GlobalSum&) = delete;
  GlobalSum& operator=(const GlobalSum&) = delete;

  // From start() to wait() `own` must not change, and behind wait() all ranks have the same totals. In kMpi the host
  // synchronises the stream in start(), and blocks in wait(). Every rank calls them as often.
  void start() {
    if (mode_ == CgMode::kMpi)
      stream_.synchronize();
    if (is_alone())
      return;
    switch (mode_) {
      case CgMode::kMpi:
        return check(MPI_Iallreduce(own_, totals_, count_, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &host_request_),
                     "MPI_Iallreduce");
      case CgMode::kStream: return queue_->start(requests_[0]);
      case CgMode::kNccl: return nccl_->sum(own_, totals_, static_cast<size_t>(count_));
    }
  }
  void wait() {
    if (mode_ == CgMode::kStream && !is_alone())
      queue_->wait(requests_[0]);
    if (mode_ == CgMode::kMpi)
      check(MPI_Wait(&host_request_, MPI_STATUS_IGNORE), "MPI_Wait");
  }
  // Both at once.
  void sum() {
    if (mode_ != CgMode::kMpi || is_alone()) {
      start();
      return wait();
    }
    stream_.synchronize();
    check(MPI_Allreduce(own_, totals_, count_, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  }

 private:
  bool is_alone() const { return own_ == totals_; }
  void make_request(bool is_captured) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPIX_Allreduce_init(own_, totals_, count_, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
          "MPIX_Allreduce_init");
    requests_.add(request);
    // Two sets of messages in turn would be two graphs.
    if (is_captured)
      requests_.merge(0, 1, "none", "none");
    requests_.match();
  }

  const CgMode mode_;
  const double* const own_;
  double* const totals_;
  const int count_;
  Stream& stream_;
  StreamQueue* const queue_;
  Nccl* const nccl_;
  RequestSet requests_;
  MPI_Request host_request_ = MPI_REQUEST_NULL;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_GLOBAL_SUM_H_
