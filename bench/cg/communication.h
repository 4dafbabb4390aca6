// Communication: moves halo values and sums between the ranks of a solver, in one of three ways:
//
//   mpi       the host synchronises the stream, then calls MPI
//   stream    requests are matched once; the host only enqueues their starts and waits
//   exchange  as stream, but a halo is one exchange with two sets, and so is a sum
//
// Between start_halo() and wait_halo() a rank multiplies the part that needs no ghosts. The next
// halo may overwrite ghosts: in mpi the host has synchronised the stream since they were read, in
// stream their readers come earlier in the stream. In exchange it goes to the other set.
#ifndef LANYARD_BENCH_CG_COMMUNICATION_H_
#define LANYARD_BENCH_CG_COMMUNICATION_H_

#include <memory>
#include <string>
#include <vector>

#include "bench/cg/kernels.h"
#include "bench/cg/local_matrix.h"
#include "bench/queue.h"
#include "bench/report.h"
#include "bench/stream.h"

namespace lanyard::bench::cg {

// Which elements of the sums are added up by one call.
struct SumRange {
  int first = 0, count = 0;
};

// One thread; errors end the job. Every rank makes the same calls in the same order.
class Communication {
 public:
  virtual ~Communication() = default;

  // In the stream's memory, but for the MPI of a GPU's stream, where it is pinned.
  double* out() { return reinterpret_cast<double*>(out_.data()); }
  const double* ghosts(int set) { return reinterpret_cast<const double*>(ghosts_[static_cast<size_t>(set)].data()); }
  double* own_sums() { return reinterpret_cast<double*>(own_sums_.data()); }
  const double* sums() { return reinterpret_cast<const double*>(sums_.data()); }

  int sets() const { return static_cast<int>(ghosts_.size()); }

  // Sends the values that the stream has put into out(). wait_halo() returns the set of ghosts that
  // holds the received values.
  virtual void start_halo() = 0;
  virtual int wait_halo() = 0;
  // Adds up what the stream has put into own_sums(), in the order of ranks in all ways but mpi.
  virtual void start_sum(const SumRange& range) = 0;
  virtual void wait_sum(const SumRange& range) = 0;

  // Blocks the host until everything enqueued has run.
  virtual void synchronize() = 0;
  // True if every call blocks the host until the stream has run. Then the host can check the result
  // of every iteration.
  virtual bool is_by_host() const = 0;
  // The queue's info; null without a queue.
  virtual Json info() const = 0;

 protected:
  Communication(const LocalMatrix& matrix, int sets, bool is_pinned, Stream& stream);
  int neighbours() const { return static_cast<int>(neighbours_.size()); }
  // Makes the receives and then the sends of a halo that goes to ghosts(set).
  void add_halo(RequestSet& requests, int set);

  const std::vector<LocalMatrix::Neighbour>& neighbours_;
  Stream& stream_;
  AlignedBuffer out_, own_sums_, sums_;
  std::vector<AlignedBuffer> ghosts_;
};

// `name`: mpi, stream or exchange. `sums`: all ranges that start_sum() will get. `is_overlapped`:
// the solver enqueues work between start_sum() and wait_sum(). Matches; collective over
// MPI_COMM_WORLD. The matrix and the stream must outlive the result.
std::unique_ptr<Communication> make_communication(const std::string& name, const LocalMatrix& matrix,
                                                  const std::vector<SumRange>& sums, bool is_overlapped,
                                                  Stream& stream);

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_COMMUNICATION_H_
