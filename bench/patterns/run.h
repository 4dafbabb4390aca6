// Run: one rank's part of a plan, carried out again and again by one back end. What differs between
// back ends is a row of a table.
#ifndef LANYARD_BENCH_PATTERNS_RUN_H_
#define LANYARD_BENCH_PATTERNS_RUN_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/nccl.h"
#include "bench/patterns/layout.h"
#include "bench/program.h"
#include "bench/stream.h"
#include "bench/streams.h"

namespace lanyard::bench::patterns {

class Run;

struct BackEnd {
  const char* name;
  enum class Means : uint8_t { kMpi, kQueue, kNccl } means;
  bool is_ready;              // ready sends; all receives are started before the clock runs
  bool is_exchange;           // the requests of a step are one exchange
  void (Run::*step)(size_t);  // carries out a step, or enqueues that
};

class Run {
 public:
  // Collective. Between two steps is a barrier of all ranks if `has_barriers`. In memory of GPUs,
  // what MPI sends and receives is copied from and to the host by the stream.
  Run(const BackEnd& back_end, const Plan& plan, bool has_barriers, const Streams& streams, const MpiProcess& process)
      : back_end_(back_end),
        has_barriers_(has_barriers),
        process_(process),
        layout_(plan, process.rank(), process.ranks()) {
    const bool is_mpi = back_end.means == BackEnd::Means::kMpi;
    if (streams.has_device() || !is_mpi)
      stream_ = streams.make();
    memory_ = AlignedBuffer(layout_.bytes(), gpu());
    data_ = memory_.data();
    if (gpu() != nullptr && is_mpi) {
      staging_ = AlignedBuffer::pinned(layout_.bytes(), *gpu());
      data_ = staging_.data();
    }
    for (const RankStep& step : layout_.steps())
      combining_.push_back({memory_.data(), &step});
    if (plan.combines() && gpu() != nullptr)
      refusal_ = "reductions are in host memory only";
    else if (back_end.means == BackEnd::Means::kNccl)
      nccl_ = Nccl::open(process, *stream_, refusal_);
    else if (back_end.means == BackEnd::Means::kQueue)
      queue_.emplace(*stream_);
    if (queue_ || back_end.step == &Run::start)
      make_requests();
    if (back_end.step == &Run::alltoallv)
      make_rounds(plan);
  }

  // Why the back end cannot be had, on a rank that knows; once() is not called then.
  const std::string& refusal() const { return refusal_; }

  void fill(uint64_t iteration) {
    memory_.write([&](std::span<std::byte> bytes) { layout_.fill(bytes, iteration); });
  }

  // Carries out the plan once, after a barrier. Seconds from the barrier to the end on this rank.
  // Collective.
  double once() {
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

  // The first wrong byte of this rank since fill(iteration) and one once().
  std::optional<std::string> verify(uint64_t iteration) const {
    return memory_.read([&](std::span<const std::byte> bytes) { return layout_.verify(bytes, iteration); });
  }
  // Of its queue; null where it has none.
  Json info() const { return queue_ ? queue_->info() : Json(); }
  // "NCCL 2.28.3", where it is that.
  std::string library() const { return nccl_ ? nccl_->version() : ""; }

  // ---- For the table of back ends

  // MPI_Irecv, MPI_Isend, MPI_Waitall
  void post(size_t step) {
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

  // MPI_Startall, MPI_Waitall
  void start(size_t step) {
    RequestSet& requests = requests_[step];
    if (requests.count() == 0)
      return;
    check(MPI_Startall(requests.count(), requests.data()), "MPI_Startall");
    check(MPI_Waitall(requests.count(), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }

  // MPI_Alltoallv, as often as the most messages between two ranks
  void alltoallv(size_t step) {
    for (const Round& round : rounds_[step])
      check(MPI_Alltoallv(data_, round.sent.data(), round.sent_at.data(), MPI_BYTE, data_ + Layout::kAlignment,
                          round.received.data(), round.received_at.data(), MPI_BYTE, MPI_COMM_WORLD),
            "MPI_Alltoallv");
  }

  // MPIX_Enqueue_startall, MPIX_Enqueue_waitall
  void enqueue(size_t step) {
    RequestSet& requests = requests_[step];
    const int started = back_end_.is_ready ? static_cast<int>(layout_.steps()[step].receives.size()) : 0;
    if (requests.count() > started)
      queue_->start_all(requests.count() - started, requests.data() + started);
    if (requests.count() > 0)
      queue_->wait_all(requests);
  }

  // ncclSend and ncclRecv in a group
  void group(size_t step) {
    nccl_->begin_group();
    for (const Transfer& t : layout_.steps()[step].sends)
      nccl_->send(data_ + t.at, t.bytes, t.peer);
    for (const Transfer& t : layout_.steps()[step].receives)
      nccl_->receive(data_ + t.at, t.bytes, t.peer);
    nccl_->end_group();
  }

 private:
  // One MPI_Alltoallv: by rank.
  struct Round {
    explicit Round(size_t ranks) : sent(ranks), sent_at(ranks), received(ranks), received_at(ranks) {}
    std::vector<int> sent, sent_at, received, received_at;
  };
  struct Combining {
    std::byte* memory;
    const RankStep* step;
  };

  Gpu* gpu() const { return stream_ ? stream_->gpu() : nullptr; }

  void make_requests() {
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
        requests.merge(0, requests.count(), fmt::format("step {}", i));
      requests.match();
      const Json facts = requests.facts(0);
      if (back_end_.is_exchange && facts.value("lanyard_exchange", "none") == "none")
        refusal_ = facts.value("lanyard_exchange_why", "no exchange");
    }
  }

  // Round i of a step has the i-th message of each two ranks.
  void make_rounds(const Plan& plan) {
    if (layout_.bytes() > Pattern::kMostBytes) {
      refusal_ = fmt::format("a rank's memory has more than {} bytes", Pattern::kMostBytes);
      return;
    }
    for (size_t i = 0; i < plan.steps().size(); ++i) {
      std::map<std::pair<int, int>, size_t> messages;
      size_t most = 0;
      for (const Message& m : plan.steps()[i].messages())
        most = std::max(most, ++messages[{m.source, m.destination}]);
      std::vector<Round>& rounds = rounds_.emplace_back(most, Round(static_cast<size_t>(process_.ranks())));
      const auto place = [&](const std::vector<Transfer>& transfers, auto bytes, auto at, size_t begin) {
        std::map<int, size_t> before;  // by peer
        for (const Transfer& t : transfers) {
          Round& round = rounds[before[t.peer]++];
          (round.*bytes)[static_cast<size_t>(t.peer)] = static_cast<int>(t.bytes);
          (round.*at)[static_cast<size_t>(t.peer)] = static_cast<int>(t.at - begin);
        }
      };
      place(layout_.steps()[i].sends, &Round::sent, &Round::sent_at, 0);
      // The call's two buffers must differ: the receive buffer begins where the first data does.
      place(layout_.steps()[i].receives, &Round::received, &Round::received_at, Layout::kAlignment);
    }
  }

  // Between a GPU's memory and the host's, where MPI moves the messages.
  void stage(size_t step, bool is_out) {
    if (data_ == memory_.data())
      return;
    for (const Transfer& t : is_out ? layout_.steps()[step].sends : layout_.steps()[step].receives) {
      std::byte *const device = memory_.data() + t.at, *const host = data_ + t.at;
      gpu()->transfer(is_out ? host : device, is_out ? device : host, t.bytes);
    }
    if (is_out)
      stream_->synchronize();
  }

  void combine(size_t step) {
    const auto kernel = [](void* argument) {
      const auto& [memory, mine] = *static_cast<const Combining*>(argument);
      for (const RankStep::Combination& c : mine->combinations)
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
  std::deque<RequestSet> requests_;         // by step: the receives, then the sends
  std::vector<std::vector<Round>> rounds_;  // by step
  std::vector<Combining> combining_;        // by step: what its kernel takes
  std::vector<MPI_Request> posted_;
};

inline constexpr BackEnd kBackEnds[] = {
    {"mpi", BackEnd::Means::kMpi, false, false, &Run::post},
    {"persistent", BackEnd::Means::kMpi, false, false, &Run::start},
    {"alltoallv", BackEnd::Means::kMpi, false, false, &Run::alltoallv},
    {"send", BackEnd::Means::kQueue, false, false, &Run::enqueue},
    {"rsend", BackEnd::Means::kQueue, true, false, &Run::enqueue},
    {"exchange", BackEnd::Means::kQueue, false, true, &Run::enqueue},
    {"nccl", BackEnd::Means::kNccl, false, false, &Run::group},
};

}  // namespace lanyard::bench::patterns

#endif  // LANYARD_BENCH_PATTERNS_RUN_H_
