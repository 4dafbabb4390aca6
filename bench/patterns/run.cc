#include "bench/patterns/run.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace lanyard::bench::patterns {

using Means = BackEnd::Means;

Run::Run(const BackEnd& back_end, const Plan& plan, bool has_barriers, const Streams& streams,
         const MpiProcess& process)
    : back_end_(back_end),
      has_barriers_(has_barriers),
      process_(process),
      layout_(plan, process.rank(), process.ranks()) {
  if (streams.has_device() || back_end.means != Means::kMpi)
    stream_ = streams.make();
  memory_ = AlignedBuffer(layout_.bytes(), gpu());
  data_ = memory_.data();
  if (gpu() != nullptr && back_end.means == Means::kMpi) {
    staging_ = AlignedBuffer::pinned(layout_.bytes(), *gpu());
    data_ = staging_.data();
  }
  for (size_t step = 0; step < layout_.steps().size(); ++step)
    combining_.emplace_back(this, step);
  if (plan.combines() && gpu() != nullptr)
    refusal_ = "reductions are in host memory only";
  else if (back_end.means == Means::kNccl)
    nccl_ = Nccl::open(process, *stream_, refusal_);
  else if (back_end.means == Means::kQueue)
    queue_.emplace(*stream_);
  if (back_end.is_persistent && refusal_.empty())
    make_requests();
  if (back_end.step == &Run::alltoallv)
    make_rounds(plan);
}

void Run::make_requests() {
  for (size_t i = 0; i < layout_.steps().size(); ++i) {
    const int tag = static_cast<int>(i);
    RequestSet& requests = requests_.emplace_back();
    for (const Transfer& t : layout_.steps()[i].receives)
      requests.add_receive(data_ + t.at, t.bytes, t.peer, tag);
    for (const Transfer& t : layout_.steps()[i].sends)
      requests.add_send(back_end_.is_ready, data_ + t.at, t.bytes, t.peer, tag);
    if (!queue_ || requests.count() == 0)
      continue;
    if (back_end_.is_exchange)
      requests.merge(0, requests.count(), fmt::format("step {}", i), "none");
    requests.match();
    const Json facts = requests.facts(0);
    if (back_end_.is_exchange && facts.value("lanyard_exchange", "none") == "none")
      refusal_ = facts.value("lanyard_exchange_why", "no exchange");
  }
}

// Round i of a step has the i-th message of each two ranks.
void Run::make_rounds(const Plan& plan) {
  if (layout_.bytes() > Pattern::kMostBytes) {
    refusal_ = fmt::format("a rank's memory has more than {} bytes", Pattern::kMostBytes);
    return;
  }
  const auto ranks = static_cast<size_t>(process_.ranks());
  for (size_t i = 0; i < plan.steps().size(); ++i) {
    std::map<std::pair<int, int>, size_t> messages;
    size_t most = 0;
    for (const Message& m : plan.steps()[i].messages())
      most = std::max(most, ++messages[{m.source, m.destination}]);
    std::vector<Round>& rounds = rounds_.emplace_back(most, Round(ranks));
    std::map<int, size_t> sent, received;  // by peer
    for (const Transfer& t : layout_.steps()[i].sends) {
      Round& round = rounds[sent[t.peer]++];
      round.sent[static_cast<size_t>(t.peer)] = static_cast<int>(t.bytes);
      round.sent_at[static_cast<size_t>(t.peer)] = static_cast<int>(t.at);
    }
    // The call's two buffers must differ: the receive buffer begins where the first data does.
    for (const Transfer& t : layout_.steps()[i].receives) {
      Round& round = rounds[received[t.peer]++];
      round.received[static_cast<size_t>(t.peer)] = static_cast<int>(t.bytes);
      round.received_at[static_cast<size_t>(t.peer)] = static_cast<int>(t.at - Layout::kAlignment);
    }
  }
}

void Run::fill(uint64_t iteration) {
  memory_.write([&](std::span<std::byte> bytes) { layout_.fill(bytes, iteration); });
}

std::optional<std::string> Run::verify(uint64_t iteration) const {
  return memory_.read([&](std::span<const std::byte> bytes) { return layout_.verify(bytes, iteration); });
}

double Run::once() {
  // A ready send may go as soon as its sender gets there, so all receives are started before any
  // rank sends. The queue's own wait would wait for these receives; the stream passes them.
  for (size_t i = 0; back_end_.is_ready && i < requests_.size(); ++i)
    if (const auto receives = static_cast<int>(layout_.steps()[i].receives.size()); receives > 0)
      queue_->start_all(receives, requests_[i].data());
  if (back_end_.is_ready)
    stream_->synchronize();
  process_.barrier();
  const double begin = MPI_Wtime();
  for (size_t step = 0; step < layout_.steps().size(); ++step) {
    if (has_barriers_ && step > 0) {
      if (stream_)
        stream_->synchronize();
      process_.barrier();
    }
    stage(step, true);
    (this->*back_end_.step)(step);
    stage(step, false);
    combine(step);
  }
  if (queue_)
    queue_->drain();
  else if (stream_)
    stream_->synchronize();
  return MPI_Wtime() - begin;
}

// Between a GPU's memory and the host's, where MPI moves the messages.
void Run::stage(size_t step, bool is_out) {
  if (data_ == memory_.data())
    return;
  for (const Transfer& t : is_out ? layout_.steps()[step].sends : layout_.steps()[step].receives) {
    std::byte *const device = memory_.data() + t.at, *const host = data_ + t.at;
    gpu()->transfer(is_out ? host : device, is_out ? device : host, t.bytes);
  }
  if (is_out)
    stream_->synchronize();
}

void Run::combine(size_t step) {
  const auto kernel = [](void* argument) {
    const auto& [run, number] = *static_cast<std::pair<Run*, size_t>*>(argument);
    std::byte* const memory = run->memory_.data();
    for (const RankStep::Combination& c : run->layout_.steps()[number].combinations)
      for (uint64_t i = 0; i < c.bytes; ++i)
        memory[c.to + i] ^= memory[c.from + i];
  };
  if (layout_.steps()[step].combinations.empty())
    return;
  if (stream_)
    static_cast<HostStream&>(*stream_).launch(kernel, &combining_[step]);
  else
    kernel(&combining_[step]);
}

void Run::post(size_t step) {
  const RankStep& mine = layout_.steps()[step];
  posted_.assign(mine.receives.size() + mine.sends.size(), MPI_REQUEST_NULL);
  MPI_Request* next = posted_.data();
  const int tag = static_cast<int>(step);
  for (const Transfer& t : mine.receives)
    check(MPI_Irecv(data_ + t.at, static_cast<int>(t.bytes), MPI_BYTE, t.peer, tag, MPI_COMM_WORLD, next++),
          "MPI_Irecv");
  for (const Transfer& t : mine.sends)
    check(MPI_Isend(data_ + t.at, static_cast<int>(t.bytes), MPI_BYTE, t.peer, tag, MPI_COMM_WORLD, next++),
          "MPI_Isend");
  check(MPI_Waitall(static_cast<int>(posted_.size()), posted_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

void Run::start(size_t step) {
  RequestSet& requests = requests_[step];
  if (requests.count() == 0)
    return;
  check(MPI_Startall(requests.count(), requests.data()), "MPI_Startall");
  check(MPI_Waitall(requests.count(), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

void Run::alltoallv(size_t step) {
  for (const Round& round : rounds_[step])
    check(MPI_Alltoallv(data_, round.sent.data(), round.sent_at.data(), MPI_BYTE, data_ + Layout::kAlignment,
                        round.received.data(), round.received_at.data(), MPI_BYTE, MPI_COMM_WORLD),
          "MPI_Alltoallv");
}

void Run::enqueue(size_t step) {
  RequestSet& requests = requests_[step];
  const int started = back_end_.is_ready ? static_cast<int>(layout_.steps()[step].receives.size()) : 0;
  if (requests.count() > started)
    queue_->start_all(requests.count() - started, requests.data() + started);
  if (requests.count() > 0)
    queue_->wait_all(requests);
}

void Run::group(size_t step) {
  nccl_->begin_group();
  for (const Transfer& t : layout_.steps()[step].sends)
    nccl_->send(data_ + t.at, t.bytes, t.peer);
  for (const Transfer& t : layout_.steps()[step].receives)
    nccl_->receive(data_ + t.at, t.bytes, t.peer);
  nccl_->end_group();
}

}  // namespace lanyard::bench::patterns
