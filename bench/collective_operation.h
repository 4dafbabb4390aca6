// CollectiveOperation: one collective of all ranks again and again, each time with other values, in any of seven ways.
//
// An operation is, in the order of the stream:
//
//   kMpi, kMpiGpu  contribute | synchronise the stream, the MPI's blocking collective *
//   kPersistent    contribute | synchronise the stream, start the MPI's persistent collective, wait for it *
//   kNccl          contribute | a sum of NCCL's
//   kStream        contribute | start | wait
//
// What has a * the host does; "contribute" is a kernel that writes what the rank has. kNcclGraph and kGraph are kNccl
// and kStream captured into a graph of kGraphOperations, which is replayed.
//
// All memory is the stream's. But where that is a GPU's, kMpi and kPersistent give the MPI pinned memory of the host:
// the kernel writes there, and behind the collective another one copies what has come to the GPU. kMpiGpu gives it the
// GPU's.
#ifndef LANYARD_BENCH_COLLECTIVE_OPERATION_H_
#define LANYARD_BENCH_COLLECTIVE_OPERATION_H_

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "bench/aligned_buffer.h"
#include "bench/kernels.h"
#include "bench/mpi_process.h"
#include "bench/nccl.h"
#include "bench/request_set.h"
#include "bench/stream.h"
#include "bench/stream_queue.h"

namespace lanyard::bench {

enum class CollectiveKind { kBarrier, kBroadcast, kAllreduce, kAllgather };
enum class CollectiveMode { kMpi, kPersistent, kMpiGpu, kNccl, kNcclGraph, kStream, kGraph };

class CollectiveOperation {
 public:
  static constexpr int kGraphOperations = 20;

  // Of doubles, `bytes` a rank, which a barrier does not look at. Collective over MPI_COMM_WORLD. The stream, the queue
  // (kStream, kGraph) and `nccl` (kNccl, kNcclGraph; barriers and allreduces only) outlive this object.
  CollectiveOperation(CollectiveKind kind, CollectiveMode mode, uint64_t bytes, const MpiProcess& process,
                      Stream& stream, StreamQueue* queue, Nccl* nccl);
  // Requires that everything has run.
  ~CollectiveOperation() = default;
  CollectiveOperation(const CollectiveOperation&) = delete;
  CollectiveOperation& operator=(const CollectiveOperation&) = delete;

  // Why this mode cannot run, empty if it can. Where any rank has a reason none may call run().
  const std::string& refusal() const { return refusal_; }
  // What is enqueued at once: so many operations, or a multiple of it.
  int unit() const { return is_captured() ? kGraphOperations : 1; }
  // Makes that many operations, a multiple of unit(), and blocks until they are over. Every rank calls it alike.
  void run(int operations);
  // What is wrong with what the last operation brought, or with the number of contributions; empty if nothing is.
  std::string mistake() const;
  // Deferred-work entries that a start takes of the card; kStream, kGraph.
  uint64_t entries() const { return requests_.entries(0); }

 private:
  bool is_captured() const { return mode_ == CollectiveMode::kNcclGraph || mode_ == CollectiveMode::kGraph; }
  bool has_queue() const { return mode_ == CollectiveMode::kStream || mode_ == CollectiveMode::kGraph; }
  bool is_staged() const {
    return stream_.gpu() != nullptr && (mode_ == CollectiveMode::kMpi || mode_ == CollectiveMode::kPersistent);
  }
  // Whether the contributions are added up. NCCL has no barrier: a sum of one number is what takes its place.
  bool is_sum() const {
    return kind_ == CollectiveKind::kAllreduce || (kind_ == CollectiveKind::kBarrier && nccl_ != nullptr);
  }
  bool is_in_place() const { return kind_ == CollectiveKind::kBroadcast || kind_ == CollectiveKind::kAllgather; }
  double* own();
  double* exchanged() { return reinterpret_cast<double*>(exchanged_.data()); }
  int count() const { return static_cast<int>(elements_); }

  void make_request();
  std::string why_not_captured();
  void capture();
  void enqueue();
  void call();
  void drain();
  double expected(size_t index) const;

  const CollectiveKind kind_;
  const CollectiveMode mode_;
  const size_t elements_;  // of a contribution; a barrier's is one number
  const size_t results_;   // of what an operation leaves
  const MpiProcess& process_;
  Stream& stream_;
  StreamQueue* const queue_;
  Nccl* const nccl_;
  AlignedBuffer contributed_;           // where it is not in place
  AlignedBuffer exchanged_;             // what an operation leaves
  AlignedBuffer shown_;                 // where that is staged: the same in the GPU's memory
  AlignedBuffer rounds_, blocks_done_;  // of the kernel
  ContributionKernel contribute_;
  CopyKernel show_;
  RequestSet requests_;
  std::unique_ptr<Graph> graph_;  // destroyed before the request in it
  uint64_t made_ = 0;             // operations so far
  std::string refusal_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_COLLECTIVE_OPERATION_H_
