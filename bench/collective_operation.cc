#include "bench/collective_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include <lanyard/lanyard.h>
#include "bench/mpi_check.h"

namespace lanyard::bench {
namespace {

// As doubles no number, so that nothing is right by chance.
constexpr std::byte kPoison{0xff};

AlignedBuffer poisoned(size_t elements, Gpu* gpu, bool is_pinned) {
  const size_t bytes = elements * sizeof(double);
  AlignedBuffer buffer = is_pinned ? AlignedBuffer::pinned(bytes, *gpu) : AlignedBuffer(bytes, gpu);
  buffer.write([](std::span<std::byte> to) { std::fill(to.begin(), to.end(), kPoison); });
  return buffer;
}

template <class T>
AlignedBuffer zero(Gpu* gpu) {
  AlignedBuffer buffer(sizeof(T), gpu);
  buffer.write([](std::span<std::byte> to) { std::fill(to.begin(), to.end(), std::byte{}); });
  return buffer;
}

template <class T>
std::vector<T> contents(const AlignedBuffer& buffer) {
  return buffer.read([](std::span<const std::byte> from) {
    std::vector<T> values(from.size() / sizeof(T));
    std::memcpy(values.data(), from.data(), from.size());
    return values;
  });
}

}  // namespace

CollectiveOperation::CollectiveOperation(CollectiveKind kind, CollectiveMode mode, uint64_t bytes,
                                         const MpiProcess& process, Stream& stream, StreamQueue* queue, Nccl* nccl)
    : kind_(kind),
      mode_(mode),
      elements_(kind == CollectiveKind::kBarrier ? 1 : bytes / sizeof(double)),
      results_(elements_ * (kind == CollectiveKind::kAllgather ? static_cast<size_t>(process.ranks()) : 1)),
      process_(process),
      stream_(stream),
      queue_(queue),
      nccl_(nccl),
      contributed_(is_in_place() ? AlignedBuffer() : poisoned(elements_, stream.gpu(), is_staged())),
      exchanged_(poisoned(results_, stream.gpu(), is_staged())),
      rounds_(zero<uint64_t>(stream.gpu())),
      blocks_done_(zero<uint32_t>(stream.gpu())) {
  contribute_ = {own(), elements_, static_cast<uint64_t>(process.rank()), reinterpret_cast<uint64_t*>(rounds_.data()),
                 reinterpret_cast<uint32_t*>(blocks_done_.data())};
  if (is_staged()) {
    shown_ = poisoned(results_, stream.gpu(), false);
    show_ = {shown_.data(), exchanged_.data(), results_ * sizeof(double)};
  }
  if (has_queue() || mode_ == CollectiveMode::kPersistent)
    make_request();
  if (is_captured())
    capture();
}

double* CollectiveOperation::own() {
  if (!is_in_place())
    return reinterpret_cast<double*>(contributed_.data());
  return exchanged() + (kind_ == CollectiveKind::kAllgather ? static_cast<size_t>(process_.rank()) * elements_ : 0);
}

void CollectiveOperation::make_request() {
  MPI_Request request = MPI_REQUEST_NULL;
  switch (kind_) {
    case CollectiveKind::kBarrier:
      check(MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request), "MPIX_Barrier_init");
      break;
    case CollectiveKind::kBroadcast:
      check(MPIX_Bcast_init(own(), count(), MPI_DOUBLE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request), "MPIX_Bcast_init");
      break;
    case CollectiveKind::kAllreduce:
      check(MPIX_Allreduce_init(own(), exchanged(), count(), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                &request),
            "MPIX_Allreduce_init");
      break;
    case CollectiveKind::kAllgather:
      check(MPIX_Allgather_init(MPI_IN_PLACE, count(), MPI_DOUBLE, exchanged(), count(), MPI_DOUBLE, MPI_COMM_WORLD,
                                MPI_INFO_NULL, &request),
            "MPIX_Allgather_init");
  }
  requests_.add(request);
  // Graphs start single requests, the same each time.
  if (is_captured())
    requests_.merge(0, 1, "none", "none");
  if (has_queue())
    requests_.match();
}

std::string CollectiveOperation::why_not_captured() {
  if (stream_.gpu() == nullptr)
    return "host streams capture no graphs";
  // What GPUs carry themselves is captured whatever the card can. Else captures are refused where sets for kernels are.
  if (!has_queue() || requests_.goes_by_lane(0))
    return "";
  MPIX_Device_requests* set = nullptr;
  const std::string why = queue_->try_make_set(requests_.count(), requests_.data(), set);
  if (why.empty())
    queue_->free_set(set);
  return why;
}

void CollectiveOperation::capture() {
  refusal_ = why_not_captured();
  if (!refusal_.empty())
    return;
  // NCCL's first operation makes connections, which no capture may.
  if (nccl_ != nullptr) {
    enqueue();
    stream_.synchronize();
    ++made_;
  }
  stream_.gpu()->begin_capture();
  for (int i = 0; i < kGraphOperations; ++i)
    enqueue();
  graph_ = stream_.gpu()->end_capture();
}

void CollectiveOperation::run(int operations) {
  for (int done = 0; done < operations; done += unit())
    if (graph_ != nullptr)
      stream_.gpu()->replay(*graph_);
    else
      enqueue();
  made_ += static_cast<uint64_t>(operations);
  drain();
}

void CollectiveOperation::enqueue() {
  stream_.launch(contribute_);
  switch (mode_) {
    case CollectiveMode::kMpi:
    case CollectiveMode::kMpiGpu:
    case CollectiveMode::kPersistent:
      stream_.synchronize();
      call();
      // A barrier leaves nothing.
      if (is_staged() && kind_ != CollectiveKind::kBarrier)
        stream_.launch(show_);
      return;
    case CollectiveMode::kNccl:
    case CollectiveMode::kNcclGraph: return nccl_->sum(own(), exchanged(), elements_);
    case CollectiveMode::kStream:
    case CollectiveMode::kGraph: queue_->start(requests_[0]); return queue_->wait(requests_[0]);
  }
}

void CollectiveOperation::call() {
  if (mode_ == CollectiveMode::kPersistent) {
    check(MPI_Start(&requests_[0]), "MPI_Start");
    return check(MPI_Wait(&requests_[0], MPI_STATUS_IGNORE), "MPI_Wait");
  }
  switch (kind_) {
    case CollectiveKind::kBarrier: return check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    case CollectiveKind::kBroadcast:
      return check(MPI_Bcast(own(), count(), MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    case CollectiveKind::kAllreduce:
      return check(MPI_Allreduce(own(), exchanged(), count(), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    case CollectiveKind::kAllgather:
      return check(MPI_Allgather(MPI_IN_PLACE, count(), MPI_DOUBLE, exchanged(), count(), MPI_DOUBLE, MPI_COMM_WORLD),
                   "MPI_Allgather");
  }
}

void CollectiveOperation::drain() {
  if (has_queue())
    queue_->drain();  // it reports failures better
  else
    stream_.synchronize();
}

double CollectiveOperation::expected(size_t index) const {
  if (!is_sum())
    return contribution(made_, index / elements_, index % elements_);  // a broadcast's root is rank 0
  double sum = 0;
  for (int rank = 0; rank < process_.ranks(); ++rank)
    sum += contribution(made_, static_cast<uint64_t>(rank), index);
  return sum;
}

std::string CollectiveOperation::mistake() const {
  if (const uint64_t made = contents<uint64_t>(rounds_).front(); made != made_)
    return fmt::format("rank {} has made {} contributions, should have made {}", process_.rank(), made, made_);
  if (kind_ == CollectiveKind::kBarrier && !is_sum())
    return "";
  const std::vector<double> found = contents<double>(is_staged() ? shown_ : exchanged_);
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] != expected(i))
      return fmt::format("operation {}: number {} on rank {} is {}, should be {}", made_, i, process_.rank(), found[i],
                         expected(i));
  return "";
}

}  // namespace lanyard::bench
