// Run: one rank's part of a plan, carried out again and again by one back end. What differs between
// back ends is a row of a table.
#ifndef LANYARD_BENCH_PATTERNS_RUN_H_
#define LANYARD_BENCH_PATTERNS_RUN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/nccl.h"
#include "bench/patterns/layout.h"
#include "bench/program.h"
#include "bench/queue.h"
#include "bench/stream.h"
#include "bench/streams.h"

namespace lanyard::bench::patterns {

class Run;

struct BackEnd {
  const char* name;
  enum class Means : uint8_t { kMpi, kQueue, kNccl } means;
  bool is_persistent;         // it has persistent requests
  bool is_ready;              // ready sends; all receives are started before the clock runs
  bool is_exchange;           // the requests of a step are one exchange
  void (Run::*step)(size_t);  // carries out a step, or enqueues that
};

class Run {
 public:
  // Collective. Between two steps is a barrier of all ranks if `has_barriers`. In memory of GPUs,
  // what MPI sends and receives is copied from and to the host by the stream.
  Run(const BackEnd& back_end, const Plan& plan, bool has_barriers, const Streams& streams, const MpiProcess& process);

  // Why the back end cannot be had, on a rank that knows; once() is not called then.
  const std::string& refusal() const { return refusal_; }
  void fill(uint64_t iteration);
  // Carries out the plan once, after a barrier. Seconds from the barrier to the end on this rank.
  // Collective.
  double once();
  // The first wrong byte of this rank since fill(iteration) and one once().
  std::optional<std::string> verify(uint64_t iteration) const;
  // Of its queue; null where it has none.
  Json info() const { return queue_ ? queue_->info() : Json(); }
  // "NCCL 2.28.3", where it is that.
  std::string library() const { return nccl_ ? nccl_->version() : ""; }

  // ---- For the table of back ends
  void post(size_t step);       // MPI_Irecv, MPI_Isend, MPI_Waitall
  void start(size_t step);      // MPI_Startall, MPI_Waitall
  void alltoallv(size_t step);  // MPI_Alltoallv, as often as the most messages between two ranks
  void enqueue(size_t step);    // MPIX_Enqueue_startall, MPIX_Enqueue_waitall
  void group(size_t step);      // ncclSend and ncclRecv in a group

 private:
  // One MPI_Alltoallv: by rank.
  struct Round {
    explicit Round(size_t ranks) : sent(ranks), sent_at(ranks), received(ranks), received_at(ranks) {}
    std::vector<int> sent, sent_at, received, received_at;
  };

  Gpu* gpu() const { return stream_ ? stream_->gpu() : nullptr; }
  void make_requests();
  void make_rounds(const Plan& plan);
  void stage(size_t step, bool is_out);
  void combine(size_t step);

  const BackEnd& back_end_;
  const bool has_barriers_;
  const MpiProcess& process_;
  const Layout layout_;
  std::string refusal_;
  std::unique_ptr<Stream> stream_;
  AlignedBuffer memory_, staging_;
  std::byte* data_ = nullptr;  // what messages are sent from and received into
  std::unique_ptr<Nccl> nccl_;
  std::optional<StreamQueue> queue_;
  std::deque<RequestSet> requests_;                 // by step: the receives, then the sends
  std::vector<std::vector<Round>> rounds_;          // by step
  std::vector<std::pair<Run*, size_t>> combining_;  // by step: what its kernel takes
  std::vector<MPI_Request> posted_;
};

inline constexpr BackEnd kBackEnds[] = {
    {"mpi", BackEnd::Means::kMpi, false, false, false, &Run::post},
    {"persistent", BackEnd::Means::kMpi, true, false, false, &Run::start},
    {"alltoallv", BackEnd::Means::kMpi, false, false, false, &Run::alltoallv},
    {"send", BackEnd::Means::kQueue, true, false, false, &Run::enqueue},
    {"rsend", BackEnd::Means::kQueue, true, true, false, &Run::enqueue},
    {"exchange", BackEnd::Means::kQueue, true, false, true, &Run::enqueue},
    {"nccl", BackEnd::Means::kNccl, false, false, false, &Run::group},
};

}  // namespace lanyard::bench::patterns

#endif  // LANYARD_BENCH_PATTERNS_RUN_H_
