// BackEnd: a way to carry out a plan, again and again on the same memory.
//
//   kMpi        MPI_Irecv, MPI_Isend and MPI_Waitall, a step after the other
//   kPersistent the same with persistent requests: MPI_Startall and MPI_Waitall
//   kStaged     as kMpi in pinned host memory, into and out of which the stream copies the messages; GPUs only
//   kNccl       a group of NCCL's (or RCCL's) sends and receives a step, enqueued; GPUs only
//   kLanyard    stream-triggered single requests: a start and a wait a step, enqueued
//   kExchange   the same, the requests of a step being an exchange in Lanyard's sense (MPIX_Request_set_info)
//   kNeighbour  the same, the requests of a step being one MPIX_Neighbor_alltoallw_init on the step's graph
//
// Steps need no synchronisation of their own: of two messages from one rank to another the tags differ, and a receive
// is started when its rank has got there, so no message is written before its receiver is through with the step before.
#ifndef LANYARD_BENCH_BACK_END_H_
#define LANYARD_BENCH_BACK_END_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bench/mpi_process.h"
#include "bench/plan_share.h"
#include "bench/queue_info.h"
#include "bench/stream.h"

namespace lanyard::bench {

enum class BackEndKind : uint8_t { kMpi, kPersistent, kStaged, kNccl, kLanyard, kExchange, kNeighbour };

// Whether it needs no stream in host memory: it can run before there is a network card.
constexpr bool is_host_driven(BackEndKind kind) {
  return kind == BackEndKind::kMpi || kind == BackEndKind::kPersistent;
}

class BackEnd {
 public:
  virtual ~BackEnd() = default;

  // Carries out the plan once, or enqueues that.
  virtual void enqueue() = 0;
  // Blocks until all that was enqueued has been done.
  virtual void finish() = 0;
  // Of its queue; empty where it has none.
  virtual QueueInfo info() const { return QueueInfo(); }
  // "NCCL 2.28.3", where it is that.
  virtual std::string library() const { return ""; }
};

// Collective. Null on all ranks, and `why` says why on those that know: it cannot be had here. `memory` is the rank's,
// of the GPU if `stream` is one's; it, the share and the stream outlive the back end. `stream` may be null where
// is_host_driven() and the memory is the host's. In GPU memory the share combines nothing.
std::unique_ptr<BackEnd> make_back_end(BackEndKind kind, const PlanShare& share, std::byte* memory, Stream* stream,
                                       const MpiProcess& process, std::string& why);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_BACK_END_H_
