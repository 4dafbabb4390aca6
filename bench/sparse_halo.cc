#include "bench/sparse_halo.h"

#include <cstring>

namespace lanyard::bench {

SparseHalo::SparseHalo(CgMode mode, Merging merging, const LocalMatrix& matrix, Stream& stream, StreamQueue* queue,
                       Nccl* nccl)
    : mode_(mode),
      merging_(merging),
      neighbours_(matrix.neighbours),
      stream_(stream),
      queue_(queue),
      nccl_(nccl),
      sent_(matrix.sent()) {
  std::vector<int32_t> places;
  for (const LocalMatrix::Neighbour& neighbour : neighbours_) {
    offsets_.push_back(places.size());
    places.insert(places.end(), neighbour.sent.begin(), neighbour.sent.end());
  }
  places_ = AlignedBuffer(places.size() * sizeof(int32_t), stream.gpu());
  places_.write([&](std::span<std::byte> to) { std::memcpy(to.data(), places.data(), to.size()); });
  // GPUs write and read messages of an MPI that knows nothing of them in pinned memory of the host.
  const bool is_pinned = mode == CgMode::kMpi && stream.gpu() != nullptr;
  const auto allocate = [&](size_t values) {
    const size_t bytes = values * sizeof(double);
    return is_pinned ? AlignedBuffer::pinned(bytes, *stream.gpu()) : AlignedBuffer(bytes, stream.gpu());
  };
  out_ = allocate(places.size());
  for (int set = 0; set < sets(); ++set) {
    in_[static_cast<size_t>(set)] = allocate(matrix.ghosts.size());
    if (mode_ != CgMode::kNccl)
      make_requests(set);
  }
  if (mode_ == CgMode::kStream)
    requests_.match();
}

void SparseHalo::make_requests(int set) {
  const int first = requests_.count();
  std::byte* const in = in_[static_cast<size_t>(set)].data();
  for (const LocalMatrix::Neighbour& n : neighbours_)
    requests_.add_receive(in + n.first_ghost * sizeof(double), static_cast<size_t>(n.ghosts) * sizeof(double), n.rank,
                          set);
  for (size_t i = 0; i < neighbours_.size(); ++i)
    requests_.add_send(SendKind::kRegular, message_out(i), neighbours_[i].sent.size() * sizeof(double),
                       neighbours_[i].rank, set);
  if (merging_ != Merging::kSingle)
    requests_.merge(first, 2 * neighbours(), "halo", merging_ == Merging::kTwoSets ? std::to_string(set) : "none");
}

void SparseHalo::start_receives() {
  if (is_empty())
    return;
  if (mode_ == CgMode::kMpi)
    check(MPI_Startall(neighbours(), receives()), "MPI_Startall");
  if (mode_ == CgMode::kStream && merging_ == Merging::kSingle)
    queue_->start_all(neighbours(), receives());
}

void SparseHalo::send() {
  if (is_empty())
    return;
  if (mode_ == CgMode::kMpi) {
    stream_.synchronize();
    check(MPI_Startall(neighbours(), sends()), "MPI_Startall");
  } else if (mode_ == CgMode::kNccl) {
    nccl_->begin_group();
    for (size_t i = 0; i < neighbours_.size(); ++i) {
      const LocalMatrix::Neighbour& n = neighbours_[i];
      nccl_->send(message_out(i), n.sent.size() * sizeof(double), n.rank);
      nccl_->receive(in_[0].data() + n.first_ghost * sizeof(double), static_cast<size_t>(n.ghosts) * sizeof(double),
                     n.rank);
    }
    nccl_->end_group();
  } else if (merging_ == Merging::kSingle) {
    queue_->start_all(neighbours(), sends());
  } else {
    queue_->start_all(2 * neighbours(), receives());
  }
}

void SparseHalo::wait() {
  if (is_empty())
    return;
  if (mode_ == CgMode::kMpi)
    check(MPI_Waitall(2 * neighbours(), receives(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  if (mode_ == CgMode::kStream)
    queue_->wait_all(2 * neighbours(), receives());
  if (sets() == 2)
    set_ = 1 - set_;
}

std::string SparseHalo::why_not_merged() const {
  if (merging_ == Merging::kSingle)
    return "";
  for (int i = 0; i < requests_.count(); ++i)
    if (const std::string why = requests_.why_not_merged(static_cast<size_t>(i)); !why.empty())
      return "its messages are no exchange: " + why;
  return "";
}

std::string SparseHalo::why_not_captured() {
  if (stream_.gpu() == nullptr)
    return "host streams capture no graphs";
  // What GPUs carry themselves is captured whatever the card can. Else captures are refused where sets for kernels are.
  std::vector<MPI_Request> by_card;
  for (int i = 0; i < requests_.count(); ++i)
    if (!requests_.goes_by_lane(static_cast<size_t>(i)))
      by_card.push_back(requests_[static_cast<size_t>(i)]);
  if (by_card.empty())
    return "";
  MPIX_Device_requests* set = nullptr;
  const std::string why = queue_->try_make_set(static_cast<int>(by_card.size()), by_card.data(), set);
  if (why.empty())
    queue_->free_set(set);
  return why;
}

}  // namespace lanyard::bench
