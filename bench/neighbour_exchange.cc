#include "bench/neighbour_exchange.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace lanyard::bench {

namespace {

int count_messages(const Neighbours& neighbours) {
  int count = 0;
  for (int d = 0; d < neighbours.count; ++d)
    count += neighbours.has_message(d) ? 1 : 0;
  return count;
}

}  // namespace

NeighbourExchange::NeighbourExchange(HaloMode mode, MPI_Comm comm, const Neighbours& neighbours,
                                     const Lengths& bytes_out, const Lengths& bytes_in, int first_tag, Stream& stream,
                                     StreamQueue* queue, Nccl* nccl)
    : mode_(mode),
      comm_(comm),
      neighbours_(neighbours),
      messages_(count_messages(neighbours)),
      first_tag_(first_tag),
      stream_(stream),
      queue_(queue),
      nccl_(nccl) {
  host_requests_.fill(MPI_REQUEST_NULL);
  const int sets = has_two_sets() ? 2 : 1;
  const bool is_pinned = is_cpu_driven(mode_) && mode_ != HaloMode::kMpiGpu && stream.gpu() != nullptr;
  out_ = Messages(bytes_out, stream.gpu(), is_pinned);
  for (int s = 0; s < sets; ++s) {
    sets_[index(s)].in = Messages(bytes_in, stream.gpu(), is_pinned);
    if (is_collective())
      make_collective();
    else if (has_requests())
      make_requests(s, first_tag + s * neighbours_.count);
  }
  if (has_queue(mode_))
    requests_.match();
  prime();
}

NeighbourExchange::~NeighbourExchange() {
  for (Set& set : sets_) {
    if (set.for_receives != nullptr)
      queue_->free_set(set.for_receives);
    if (set.for_sends != nullptr)
      queue_->free_set(set.for_sends);
  }
}

NeighbourExchange::Messages::Messages(const Lengths& bytes, Gpu* gpu, bool is_pinned) : bytes_(bytes) {
  constexpr size_t kLine = 64;  // no two messages share a cache line
  size_t total = 0;
  for (size_t d = 0; d < kDirections; ++d) {
    offsets_[d] = total;
    total += (bytes[d] + kLine - 1) / kLine * kLine;
  }
  buffer_ = is_pinned ? AlignedBuffer::pinned(total, *gpu) : AlignedBuffer(total, gpu);
}

void NeighbourExchange::Messages::poison() {
  buffer_.write([](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0xFF}); });
}

void NeighbourExchange::make_requests(int set, int first_tag) {
  Set& s = sets_[index(set)];
  s.first = requests_.count();
  const bool ready = mode_ == HaloMode::kRsend || mode_ == HaloMode::kMergedRsend || mode_ == HaloMode::kPairedRsend;
  const SendKind kind = ready ? SendKind::kReady : SendKind::kRegular;
  for (int d = 0; d < neighbours_.count; ++d)
    if (neighbours_.has_message(d))
      requests_.add_receive(s.in.message(d), s.in.bytes(d), neighbours_.rank(d), first_tag + neighbours_.opposite(d),
                            comm_);
  for (int d = 0; d < neighbours_.count; ++d)
    if (neighbours_.has_message(d))
      requests_.add_send(kind, out_.message(d), out_.bytes(d), neighbours_.rank(d), first_tag + d, comm_);
  if (is_paired())
    requests_.merge(s.first, 2 * messages_, "halo", std::to_string(set));
  else if (is_merged())
    requests_.merge(s.first, 2 * messages_, "halo " + std::to_string(set), "none");
}

// What this rank receives from direction opposite(d) its neighbour there sent in direction d.
void NeighbourExchange::make_collective() {
  Messages& in = sets_[0].in;
  std::vector<int> from, to, in_bytes, out_bytes;
  std::vector<MPI_Aint> in_places, out_places;
  for (int d = 0; d < neighbours_.count; ++d) {
    if (const int back = neighbours_.opposite(d); neighbours_.has_message(back)) {
      from.push_back(neighbours_.rank(back));
      in_bytes.push_back(static_cast<int>(in.bytes(back)));
      in_places.push_back(in.message(back) - in.message(0));
    }
    if (neighbours_.has_message(d)) {
      to.push_back(neighbours_.rank(d));
      out_bytes.push_back(static_cast<int>(out_.bytes(d)));
      out_places.push_back(out_.message(d) - out_.message(0));
    }
  }
  const std::vector<MPI_Datatype> types(from.size(), MPI_BYTE);
  graph_.emplace(comm_, from, to);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPIX_Neighbor_alltoallw_init(out_.message(0), out_bytes.data(), out_places.data(), types.data(), in.message(0),
                                     in_bytes.data(), in_places.data(), types.data(), graph_->get(), MPI_INFO_NULL,
                                     &request),
        "MPIX_Neighbor_alltoallw_init");
  requests_.add(request);
}

void NeighbourExchange::prime() {
  if (mode_ == HaloMode::kRsend) {
    if (messages_ > 0) {
      queue_->start_all(messages_, receives(sets_[index(set_)]));
      stream_.synchronize();  // not the queue: it would wait for the receives to complete
    }
    // Also of ranks without messages, as every rank of comm must call it.
    check(MPI_Barrier(comm_), "MPI_Barrier");
  }
  is_primed_ = true;
}

void NeighbourExchange::start_receives() {
  if (!is_primed_)
    prime();
  if (messages_ == 0)
    return;
  if (mode_ == HaloMode::kPersistent)
    check(MPI_Startall(messages_, receives(sets_[index(set_)])), "MPI_Startall");
  else if (is_cpu_driven(mode_))
    receive_on_host(sets_[index(set_)]);
  if (mode_ == HaloMode::kSend)
    queue_->start_all(messages_, receives(sets_[0]));
  if (mode_ == HaloMode::kRsend)
    queue_->start_all(messages_, receives(sets_[index(1 - set_)]));
}

void NeighbourExchange::send_and_wait() {
  if (messages_ > 0)
    exchange(sets_[index(set_)]);
  if (has_two_sets())
    set_ = 1 - set_;
}

void NeighbourExchange::exchange(Set& s) {
  if (mode_ == HaloMode::kPersistent) {
    exchange_by_persistent(s);
  } else if (is_cpu_driven(mode_)) {
    exchange_on_host();
  } else if (mode_ == HaloMode::kNccl) {
    exchange_by_nccl(s);
  } else {
    if (is_merged() || is_collective())
      queue_->start_all(requests_of_set(), receives(s));
    else
      queue_->start_all(messages_, sends(s));
    queue_->wait_all(requests_of_set(), receives(s));
  }
}

// While the stream is still busy with the step before.
void NeighbourExchange::receive_on_host(Set& set) {
  for (int d = 0; d < neighbours_.count; ++d)
    check(MPI_Irecv(set.in.message(d), static_cast<int>(set.in.bytes(d)), MPI_BYTE, neighbours_.rank(d),
                    first_tag_ + neighbours_.opposite(d), comm_, &host_requests_[index(d)]),
          "MPI_Irecv");
}

void NeighbourExchange::exchange_on_host() {
  stream_.synchronize();
  for (int d = 0; d < neighbours_.count; ++d)
    check(MPI_Isend(out_.message(d), static_cast<int>(out_.bytes(d)), MPI_BYTE, neighbours_.rank(d), first_tag_ + d,
                    comm_, &host_requests_[index(neighbours_.count + d)]),
          "MPI_Isend");
  check(MPI_Waitall(2 * neighbours_.count, host_requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

void NeighbourExchange::exchange_by_persistent(Set& set) {
  stream_.synchronize();
  check(MPI_Startall(messages_, sends(set)), "MPI_Startall");
  check(MPI_Waitall(2 * messages_, receives(set), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

// Messages between the same two ranks are told apart by their order: both list them by the sender's direction.
void NeighbourExchange::exchange_by_nccl(Set& set) {
  nccl_->begin_group();
  for (int d = 0; d < neighbours_.count; ++d) {
    if (neighbours_.has_message(d))
      nccl_->send(out_.message(d), out_.bytes(d), neighbours_.rank(d));
    if (const int back = neighbours_.opposite(d); neighbours_.has_message(back))
      nccl_->receive(set.in.message(back), set.in.bytes(back), neighbours_.rank(back));
  }
  nccl_->end_group();
}

std::string NeighbourExchange::why_not_captured() {
  if (stream_.gpu() == nullptr)
    return "host streams capture no graphs";
  // What GPUs carry themselves is captured whatever the card can. Else captures are refused where sets for kernels are.
  std::vector<MPI_Request> by_card;
  for (int i = 0; i < requests_.count(); ++i)
    if (!requests_.goes_by_lane(index(i)))
      by_card.push_back(requests_[index(i)]);
  if (by_card.empty())
    return "";
  MPIX_Device_requests* set = nullptr;
  const std::string why = queue_->try_make_set(static_cast<int>(by_card.size()), by_card.data(), set);
  if (why.empty())
    queue_->free_set(set);
  return why;
}

std::string NeighbourExchange::why_not_by_kernel() {
  std::string why;
  for (Set& set : sets_) {
    if (why.empty() && messages_ > 0)
      why = queue_->try_make_set(messages_, receives(set), set.for_receives);
    if (why.empty() && messages_ > 0)
      why = queue_->try_make_set(messages_, sends(set), set.for_sends);
  }
  return why;
}

KernelMessages NeighbourExchange::messages() {
  KernelMessages found;
  for (size_t s = 0; s < sets_.size(); ++s) {
    found.receives[s] = sets_[s].for_receives;
    found.sends[s] = sets_[s].for_sends;
  }
  for (int d = 0; d < neighbours_.count; ++d) {
    if (!neighbours_.has_message(d))
      continue;
    found.out[d] = out_.message(d);
    for (size_t s = 0; s < sets_.size(); ++s)
      found.in[s][d] = sets_[s].in.message(d);
  }
  return found;
}

void NeighbourExchange::poison() {
  close();
  stream_.synchronize();
  out_.poison();
  for (Set& set : sets_)
    set.in.poison();
  if (!is_primed_)
    prime();
}

void NeighbourExchange::close() {
  if (mode_ != HaloMode::kRsend || !is_primed_)
    return;
  // An exchange without receives ahead. Its receives are started on every rank, so it is as legal
  // as any other.
  send_and_wait();
  is_primed_ = false;
}

}  // namespace lanyard::bench
