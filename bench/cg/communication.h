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

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/cg/kernels.h"
#include "bench/cg/matrix.h"
#include "bench/program.h"
#include "bench/report.h"
#include "bench/stream.h"
#include "bench/streams.h"

namespace lanyard::bench::cg {

// Values in a stream's memory, or in memory of the host that is pinned for it.
template <class T>
class Array {
 public:
  Array(const std::vector<T>& values, Stream& stream, bool is_pinned = false)
      : count_(values.size()),
        buffer_(is_pinned ? AlignedBuffer::pinned(count_ * sizeof(T), *stream.gpu())
                          : AlignedBuffer(count_ * sizeof(T), stream.gpu())) {
    write(values);
  }
  T* data() { return reinterpret_cast<T*>(buffer_.data()); }
  // Both require that the stream is empty.
  void write(const std::vector<T>& values) {
    buffer_.write([&](std::span<std::byte> to) { std::memcpy(to.data(), values.data(), to.size()); });
  }
  std::vector<T> read() const {
    return buffer_.read([&](std::span<const std::byte> from) {
      std::vector<T> values(count_);
      std::memcpy(static_cast<void*>(values.data()), from.data(), from.size());
      return values;
    });
  }

 private:
  size_t count_;
  AlignedBuffer buffer_;
};

// One thread; errors end the job. Every rank makes the same calls in the same order.
class Communication {
 public:
  // `way`: mpi, stream or exchange. `is_overlapped`: the solver enqueues work between start_sum()
  // and wait_sum(). Matches; collective over MPI_COMM_WORLD. The stream must outlive this.
  Communication(const std::string& way, const LocalMatrix& matrix, bool is_overlapped, Stream& stream)
      : stream_(stream),
        is_overlapped_(is_overlapped),
        is_pinned_(way == "mpi" && stream.gpu() != nullptr),
        out_(numbers(matrix.sent.size())),
        own_sums_(numbers(kSums)),
        sums_(numbers(kSums)) {
    const bool is_exchange = way == "exchange";
    const auto bytes = [](int64_t count) { return static_cast<size_t>(count) * sizeof(double); };
    for (int set = 0; set < (is_exchange ? 2 : 1); ++set) {
      double* const ghosts = ghosts_.emplace_back(numbers(matrix.ghosts.size())).data();
      for (const LocalMatrix::Neighbour& n : matrix.neighbours)
        requests_.add_receive(ghosts + n.first_ghost, bytes(n.ghosts), n.rank, set);
      for (const LocalMatrix::Neighbour& n : matrix.neighbours)
        requests_.add_send(false, out() + n.first_sent, bytes(n.sent), n.rank, set);
      if (set == 0)
        halo_requests_ = requests_.count();
      if (is_exchange)
        requests_.merge(set * halo_requests_, halo_requests_, "halo", set);
    }
    if (way == "mpi")
      return;
    queue_.emplace(stream);
    MPI_Request sum = MPI_REQUEST_NULL;
    check(MPIX_Allreduce_init(own_sums(), sums(), kSums, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &sum),
          "MPIX_Allreduce_init");
    requests_.add(Request(sum));
    if (!is_exchange)
      requests_.merge(requests_.count() - 1, 1, "none");
    requests_.match();
  }

  // In the stream's memory, but for the MPI of a GPU's stream, where it is pinned.
  double* out() { return out_.data(); }
  const double* ghosts(int set) { return ghosts_[static_cast<size_t>(set)].data(); }
  double* own_sums() { return own_sums_.data(); }
  double* sums() { return sums_.data(); }

  int sets() const { return static_cast<int>(ghosts_.size()); }

  // Sends the values that the stream has put into out().
  void start_halo() {
    if (queue_)
      return queue_->start_all(halo_requests_, halo());
    stream_.synchronize();
    check(MPI_Startall(halo_requests_, halo()), "MPI_Startall");
  }
  // The set of ghosts that has the received values.
  int wait_halo() {
    if (queue_) {
      queue_->wait_all(halo_requests_, halo());
      return std::exchange(set_, (set_ + 1) % sets());
    }
    // The kernels of a host stream need this thread's core, which MPI_Waitall would poll on.
    if (stream_.gpu() == nullptr)
      stream_.synchronize();
    check(MPI_Waitall(halo_requests_, halo(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    return 0;
  }

  // Adds up what the stream has put into own_sums(), in the order of ranks in all ways but mpi. An
  // element that has not changed keeps its sum.
  void start_sum() {
    if (queue_)
      return queue_->start(sum());
    stream_.synchronize();
    if (is_overlapped_)
      check(MPI_Iallreduce(own_sums(), sums(), kSums, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &sum_), "MPI_Iallreduce");
    else
      check(MPI_Allreduce(own_sums(), sums(), kSums, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  }
  void wait_sum() {
    if (queue_)
      return queue_->wait(sum());
    check(MPI_Wait(&sum_, MPI_STATUS_IGNORE), "MPI_Wait");
  }

  // Blocks the host until everything enqueued has run.
  void synchronize() {
    if (queue_)
      queue_->drain();
    else
      stream_.synchronize();
  }
  // True if every call blocks the host until the stream has run. Then the host can check the result
  // of every iteration.
  bool is_by_host() const { return !queue_; }
  // The queue's info; null without a queue.
  Json info() const { return queue_ ? queue_->info() : Json(); }

 private:
  Array<double> numbers(size_t count) const { return {std::vector<double>(count), stream_, is_pinned_}; }
  MPI_Request* halo() { return requests_.data() + set_ * halo_requests_; }
  MPI_Request& sum() { return requests_[static_cast<size_t>(requests_.count() - 1)]; }

  Stream& stream_;
  const bool is_overlapped_, is_pinned_;
  Array<double> out_, own_sums_, sums_;
  std::vector<Array<double>> ghosts_;
  std::optional<StreamQueue> queue_;
  RequestSet requests_;    // by set: receives, then sends; then the sum
  int halo_requests_ = 0;  // of a set
  int set_ = 0;            // of the halo to come, or under way
  MPI_Request sum_ = MPI_REQUEST_NULL;
};

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_COMMUNICATION_H_
