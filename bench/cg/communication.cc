#include "bench/cg/communication.h"

#include <utility>

#include "bench/program.h"
#include "bench/queue.h"

namespace lanyard::bench::cg {
namespace {

AlignedBuffer numbers(int64_t count, bool is_pinned, Stream& stream) {
  const auto bytes = static_cast<size_t>(count) * sizeof(double);
  return is_pinned ? AlignedBuffer::pinned(bytes, *stream.gpu()) : AlignedBuffer(bytes, stream.gpu());
}

class HostCommunication final : public Communication {
 public:
  HostCommunication(const LocalMatrix& matrix, bool is_overlapped, Stream& stream)
      : Communication(matrix, 1, stream.gpu() != nullptr, stream), is_overlapped_(is_overlapped) {
    add_halo(requests_, 0);
  }

  void start_halo() override {
    stream_.synchronize();
    check(MPI_Startall(requests_.count(), requests_.data()), "MPI_Startall");
  }
  int wait_halo() override {
    // The kernels of a host stream need this thread's core, which MPI_Waitall would poll on.
    if (stream_.gpu() == nullptr)
      stream_.synchronize();
    check(MPI_Waitall(requests_.count(), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    return 0;
  }
  void start_sum(const SumRange& range) override {
    stream_.synchronize();
    double* const own = own_sums() + range.first;
    double* const sums = reinterpret_cast<double*>(sums_.data()) + range.first;
    if (is_overlapped_)
      check(MPI_Iallreduce(own, sums, range.count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &sum_), "MPI_Iallreduce");
    else
      check(MPI_Allreduce(own, sums, range.count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  }
  void wait_sum(const SumRange& /*range*/) override { check(MPI_Wait(&sum_, MPI_STATUS_IGNORE), "MPI_Wait"); }
  void synchronize() override { stream_.synchronize(); }
  bool is_by_host() const override { return true; }
  Json info() const override { return {}; }

 private:
  const bool is_overlapped_;
  RequestSet requests_;  // receives, then sends
  MPI_Request sum_ = MPI_REQUEST_NULL;
};

class QueueCommunication final : public Communication {
 public:
  QueueCommunication(const LocalMatrix& matrix, const std::vector<SumRange>& sums, bool is_exchange, Stream& stream)
      : Communication(matrix, is_exchange ? 2 : 1, false, stream), queue_(stream) {
    for (int set = 0; set < sets(); ++set) {
      add_halo(requests_, set);
      if (is_exchange)
        requests_.merge(set * halo_requests(), halo_requests(), "halo", std::to_string(set));
    }
    for (const SumRange& range : sums) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPIX_Allreduce_init(own_sums() + range.first, sums_.data() + range.first * sizeof(double), range.count,
                                MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
            "MPIX_Allreduce_init");
      requests_.add(request);
      if (!is_exchange)
        requests_.merge(requests_.count() - 1, 1, "none", "none");
    }
    requests_.match();
  }

  void start_halo() override { queue_.start_all(halo_requests(), halo()); }
  int wait_halo() override {
    queue_.wait_all(halo_requests(), halo());
    return std::exchange(set_, (set_ + 1) % sets());
  }
  void start_sum(const SumRange& range) override { queue_.start(sum(range)); }
  void wait_sum(const SumRange& range) override { queue_.wait(sum(range)); }
  void synchronize() override { queue_.drain(); }
  bool is_by_host() const override { return false; }
  Json info() const override { return queue_.info(); }

 private:
  int halo_requests() const { return 2 * neighbours(); }
  MPI_Request* halo() { return requests_.data() + set_ * halo_requests(); }
  // A sum is known by where it begins.
  MPI_Request& sum(const SumRange& range) {
    return requests_[static_cast<size_t>(sets() * halo_requests() + range.first)];
  }

  StreamQueue queue_;
  RequestSet requests_;  // by set: receives, then sends; then the sums
  int set_ = 0;          // of the halo to come, or under way
};

}  // namespace

Communication::Communication(const LocalMatrix& matrix, int sets, bool is_pinned, Stream& stream)
    : neighbours_(matrix.neighbours),
      stream_(stream),
      out_(numbers(static_cast<int64_t>(matrix.sent.size()), is_pinned, stream)),
      own_sums_(numbers(kSums, is_pinned, stream)),
      sums_(numbers(kSums, is_pinned, stream)) {
  for (int set = 0; set < sets; ++set)
    ghosts_.push_back(numbers(static_cast<int64_t>(matrix.ghosts.size()), is_pinned, stream));
}

void Communication::add_halo(RequestSet& requests, int set) {
  for (const LocalMatrix::Neighbour& n : neighbours_)
    requests.add_receive(ghosts_[static_cast<size_t>(set)].data() + n.first_ghost * sizeof(double),
                         static_cast<size_t>(n.ghosts) * sizeof(double), n.rank, set);
  for (const LocalMatrix::Neighbour& n : neighbours_)
    requests.add_send(false, out_.data() + n.first_sent * sizeof(double), static_cast<size_t>(n.sent) * sizeof(double),
                      n.rank, set);
}

std::unique_ptr<Communication> make_communication(const std::string& name, const LocalMatrix& matrix,
                                                  const std::vector<SumRange>& sums, bool is_overlapped,
                                                  Stream& stream) {
  if (name == "mpi")
    return std::make_unique<HostCommunication>(matrix, is_overlapped, stream);
  return std::make_unique<QueueCommunication>(matrix, sums, name == "exchange", stream);
}

}  // namespace lanyard::bench::cg
