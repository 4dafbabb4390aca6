#include "bench/halo/exchange.h"

#include <string>

namespace lanyard::bench {

NeighbourExchange::NeighbourExchange(HaloMode mode, MPI_Comm comm, const CartesianLayout& layout,
                                     const Lengths& bytes_out, const Lengths& bytes_in, int first_tag, Stream& stream,
                                     StreamQueue* queue)
    : mode_(mode), comm_(comm), layout_(layout), first_tag_(first_tag), stream_(stream), queue_(queue) {
  const int sets = has_two_sets() ? 2 : 1;
  const bool is_staged = !has_queue() && stream.gpu() != nullptr;
  out_ = Messages(bytes_out, stream.gpu(), is_staged);
  for (int s = 0; s < sets; ++s) {
    sets_[index(s)].in = Messages(bytes_in, stream.gpu(), is_staged);
    if (is_collective())
      make_collective();
    else if (has_queue())
      make_requests(s, first_tag + s * kDirections);
  }
  if (has_queue())
    requests_.match();
  prime();
}

NeighbourExchange::~NeighbourExchange() {
  requests_.free();
  if (graph_ != MPI_COMM_NULL)
    check(MPI_Comm_free(&graph_), "MPI_Comm_free");
}

NeighbourExchange::Messages::Messages(const Lengths& bytes, Gpu* gpu, bool is_staged) : bytes_(bytes) {
  constexpr size_t kLine = 64;  // no two messages share a cache line
  for (size_t d = 0; d < kDirections; ++d) {
    offsets_[d] = total_;
    total_ += (bytes[d] + kLine - 1) / kLine * kLine;
  }
  buffer_ = AlignedBuffer(total_, gpu);
  if (is_staged)
    staging_ = AlignedBuffer::pinned(total_, *gpu);
}

void NeighbourExchange::make_requests(int set, int first_tag) {
  Set& s = sets_[index(set)];
  s.first = requests_.count();
  for (int d = 0; d < kDirections; ++d)
    requests_.add_receive(s.in.message(d), s.in.bytes(d), layout_.neighbour(d), first_tag + opposite(d), comm_);
  for (int d = 0; d < kDirections; ++d)
    requests_.add_send(mode_.way == HaloMode::kRsend, out_.message(d), out_.bytes(d), layout_.neighbour(d),
                       first_tag + d, comm_);
  if (mode_.sets == 2)
    requests_.merge(s.first, kMessages, "halo", std::to_string(set));
  else if (mode_.sets == 1)
    requests_.merge(s.first, kMessages, "halo " + std::to_string(set), "none");
}

// What this rank receives from direction opposite(d) its neighbour there sent in direction d.
void NeighbourExchange::make_collective() {
  Messages& in = sets_[0].in;
  std::array<int, kDirections> from{}, to{}, in_bytes{}, out_bytes{};
  std::array<MPI_Aint, kDirections> in_places{}, out_places{};
  std::array<MPI_Datatype, kDirections> types{};
  types.fill(MPI_BYTE);
  for (int d = 0; d < kDirections; ++d) {
    const size_t i = index(d);
    from[i] = layout_.neighbour(opposite(d));
    in_bytes[i] = static_cast<int>(in.bytes(opposite(d)));
    in_places[i] = in.message(opposite(d)) - in.message(0);
    to[i] = layout_.neighbour(d);
    out_bytes[i] = static_cast<int>(out_.bytes(d));
    out_places[i] = out_.message(d) - out_.message(0);
  }
  check(MPI_Dist_graph_create_adjacent(comm_, kDirections, from.data(), MPI_UNWEIGHTED, kDirections, to.data(),
                                       MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph_),
        "MPI_Dist_graph_create_adjacent");
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPIX_Neighbor_alltoallw_init(out_.message(0), out_bytes.data(), out_places.data(), types.data(), in.message(0),
                                     in_bytes.data(), in_places.data(), types.data(), graph_, MPI_INFO_NULL, &request),
        "MPIX_Neighbor_alltoallw_init");
  requests_.add(request);
}

void NeighbourExchange::prime() {
  if (is_ahead()) {
    queue_->start_all(kDirections, receives(sets_[index(set_)]));
    stream_.synchronize();  // not the queue: it would wait for the receives to complete
    check(MPI_Barrier(comm_), "MPI_Barrier");
  }
  is_primed_ = true;
}

void NeighbourExchange::start_receives() {
  if (!is_primed_)
    prime();
  if (mode_.way == HaloMode::kSend && mode_.sets == 0)
    queue_->start_all(kDirections, receives(sets_[0]));
  if (is_ahead())
    queue_->start_all(kDirections, receives(sets_[index(1 - set_)]));
}

void NeighbourExchange::send_and_wait() {
  Set& s = sets_[index(set_)];
  if (!has_queue()) {
    exchange_on_host(s);
  } else {
    if (is_one_start())
      queue_->start_all(requests_of_set(), receives(s));
    else
      queue_->start_all(kDirections, sends(s));
    queue_->wait_all(requests_of_set(), receives(s));
  }
  if (has_two_sets())
    set_ = 1 - set_;
}

void NeighbourExchange::exchange_on_host(Set& set) {
  Gpu* const gpu = stream_.gpu();
  if (gpu != nullptr)
    out_.stage(*gpu);
  for (int d = 0; d < kDirections; ++d)  // while the pack kernel runs
    check(MPI_Irecv(set.in.staged(d), static_cast<int>(set.in.bytes(d)), MPI_BYTE, layout_.neighbour(d),
                    first_tag_ + opposite(d), comm_, &host_requests_[index(d)]),
          "MPI_Irecv");
  stream_.synchronize();
  for (int d = 0; d < kDirections; ++d)
    check(MPI_Isend(out_.staged(d), static_cast<int>(out_.bytes(d)), MPI_BYTE, layout_.neighbour(d), first_tag_ + d,
                    comm_, &host_requests_[index(kDirections + d)]),
          "MPI_Isend");
  check(MPI_Waitall(2 * kDirections, host_requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  if (gpu != nullptr)
    set.in.unstage(*gpu);
}

void NeighbourExchange::close() {
  if (!is_ahead() || !is_primed_)
    return;
  // An exchange without receives ahead. Its receives are started on every rank, so it is as legal
  // as any other.
  send_and_wait();
  is_primed_ = false;
}

}  // namespace lanyard::bench
