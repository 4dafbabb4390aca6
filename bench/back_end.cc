#include "bench/back_end.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "bench/aligned_buffer.h"
#include "bench/gpu_aware_mpi.h"
#include "bench/graph_communicator.h"
#include "bench/host_stream.h"
#include "bench/mpi_check.h"
#include "bench/nccl.h"
#include "bench/request_set.h"
#include "bench/stream_queue.h"

namespace lanyard::bench {
namespace {

struct CombineKernel {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t bytes = 0;
};

void combine(void* argument) {
  const CombineKernel& kernel = *static_cast<const CombineKernel*>(argument);
  for (size_t i = 0; i < kernel.bytes; ++i)
    kernel.to[i] ^= kernel.from[i];
}

CombineKernel kernel_of(const Combine& c, std::byte* memory) { return {memory + c.to, memory + c.from, c.bytes}; }

void combine_on_host(const StepShare& step, std::byte* memory) {
  for (const Combine& c : step.combines) {
    CombineKernel kernel = kernel_of(c, memory);
    combine(&kernel);
  }
}

// The messages of a step by MPI's ordinary calls.
void exchange_by_mpi(const StepShare& step, std::byte* memory, std::vector<MPI_Request>& requests) {
  requests.assign(step.transfers(), MPI_REQUEST_NULL);
  MPI_Request* next = requests.data();
  for (const Transfer& t : step.receives)
    check(MPI_Irecv(memory + t.offset, static_cast<int>(t.bytes), MPI_BYTE, t.peer, t.tag, MPI_COMM_WORLD, next++),
          "MPI_Irecv");
  for (const Transfer& t : step.sends)
    check(MPI_Isend(memory + t.offset, static_cast<int>(t.bytes), MPI_BYTE, t.peer, t.tag, MPI_COMM_WORLD, next++),
          "MPI_Isend");
  check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

class MpiBackEnd final : public BackEnd {
 public:
  MpiBackEnd(const PlanShare& share, std::byte* memory) : share_(share), memory_(memory) {}

  void enqueue() override {
    for (const StepShare& step : share_.steps()) {
      exchange_by_mpi(step, memory_, requests_);
      combine_on_host(step, memory_);
    }
  }
  void finish() override {}

 private:
  const PlanShare& share_;
  std::byte* const memory_;
  std::vector<MPI_Request> requests_;
};

// The requests of all steps, and which of them are a step's.
class StepRequests {
 public:
  StepRequests(const PlanShare& share, std::byte* memory) {
    for (const StepShare& step : share.steps()) {
      firsts_.push_back(requests_.count());
      for (const Transfer& t : step.receives)
        requests_.add_receive(memory + t.offset, t.bytes, t.peer, t.tag);
      for (const Transfer& t : step.sends)
        requests_.add_send(SendKind::kRegular, memory + t.offset, t.bytes, t.peer, t.tag);
    }
    firsts_.push_back(requests_.count());
  }

  RequestSet& all() { return requests_; }
  int first(size_t step) const { return firsts_[step]; }
  int count(size_t step) const { return firsts_[step + 1] - firsts_[step]; }
  MPI_Request* of(size_t step) { return requests_.data() + firsts_[step]; }
  std::string why_not_merged(size_t step, int i) const {
    return requests_.why_not_merged(static_cast<size_t>(firsts_[step] + i));
  }

 private:
  RequestSet requests_;
  std::vector<int> firsts_;  // by step, and of a step behind the last one
};

class PersistentBackEnd final : public BackEnd {
 public:
  PersistentBackEnd(const PlanShare& share, std::byte* memory)
      : share_(share), memory_(memory), requests_(share, memory) {}

  void enqueue() override {
    for (size_t step = 0; step < share_.steps().size(); ++step) {
      if (const int count = requests_.count(step); count > 0) {
        check(MPI_Startall(count, requests_.of(step)), "MPI_Startall");
        check(MPI_Waitall(count, requests_.of(step), MPI_STATUSES_IGNORE), "MPI_Waitall");
      }
      combine_on_host(share_.steps()[step], memory_);
    }
  }
  void finish() override {}

 private:
  const PlanShare& share_;
  std::byte* const memory_;
  StepRequests requests_;
};

class StagedBackEnd final : public BackEnd {
 public:
  StagedBackEnd(const PlanShare& share, std::byte* memory, Stream& stream)
      : share_(share),
        memory_(memory),
        stream_(stream),
        staging_(AlignedBuffer::pinned(share.bytes(), *stream.gpu())) {}

  void enqueue() override {
    for (const StepShare& step : share_.steps()) {
      for (const Transfer& t : step.sends)
        stream_.gpu()->transfer(staging_.data() + t.offset, memory_ + t.offset, t.bytes);
      stream_.synchronize();  // what the step before received has left the staging memory, too
      exchange_by_mpi(step, staging_.data(), requests_);
      for (const Transfer& t : step.receives)
        stream_.gpu()->transfer(memory_ + t.offset, staging_.data() + t.offset, t.bytes);
    }
  }
  void finish() override { stream_.synchronize(); }

 private:
  const PlanShare& share_;
  std::byte* const memory_;
  Stream& stream_;
  AlignedBuffer staging_;
  std::vector<MPI_Request> requests_;
};

class NcclBackEnd final : public BackEnd {
 public:
  NcclBackEnd(const PlanShare& share, std::byte* memory, Stream& stream, std::unique_ptr<Nccl> nccl)
      : share_(share), memory_(memory), stream_(stream), nccl_(std::move(nccl)) {}

  void enqueue() override {
    for (const StepShare& step : share_.steps()) {
      if (step.transfers() == 0)
        continue;
      nccl_->begin_group();
      for (const Transfer& t : step.sends)
        nccl_->send(memory_ + t.offset, t.bytes, t.peer);
      for (const Transfer& t : step.receives)
        nccl_->receive(memory_ + t.offset, t.bytes, t.peer);
      nccl_->end_group();
    }
  }
  void finish() override { stream_.synchronize(); }
  std::string library() const override { return nccl_->version(); }

 private:
  const PlanShare& share_;
  std::byte* const memory_;
  Stream& stream_;
  const std::unique_ptr<Nccl> nccl_;
};

// Whatever the requests of a step are: started by one call and waited for by one.
class QueueBackEnd : public BackEnd {
 public:
  QueueBackEnd(const PlanShare& share, std::byte* memory, Stream& stream) : stream_(stream), queue_(stream) {
    for (const StepShare& step : share.steps()) {
      std::vector<CombineKernel>& kernels = kernels_.emplace_back();
      for (const Combine& c : step.combines)
        kernels.push_back(kernel_of(c, memory));
    }
  }

  void enqueue() override {
    for (size_t step = 0; step < kernels_.size(); ++step) {
      if (const auto [count, requests] = of(step); count > 0) {
        queue_.start_all(count, requests);
        queue_.wait_all(count, requests);
      }
      for (CombineKernel& kernel : kernels_[step])
        static_cast<HostStream&>(stream_).launch(combine, &kernel);
    }
  }
  void finish() override { queue_.drain(); }
  QueueInfo info() const override { return queue_.info(); }

 protected:
  virtual std::pair<int, MPI_Request*> of(size_t step) = 0;
  size_t steps() const { return kernels_.size(); }

 private:
  Stream& stream_;
  StreamQueue queue_;
  std::vector<std::vector<CombineKernel>> kernels_;  // by step
};

class LanyardBackEnd final : public QueueBackEnd {
 public:
  LanyardBackEnd(const PlanShare& share, std::byte* memory, Stream& stream, bool is_exchange)
      : QueueBackEnd(share, memory, stream), requests_(share, memory) {
    for (size_t step = 0; is_exchange && step < steps(); ++step)
      requests_.all().merge(requests_.first(step), requests_.count(step), fmt::format("step {}", step), "none");
    if (requests_.all().count() > 0)
      requests_.all().match();
  }

  // Why a step's requests are no exchange, empty if all are one.
  std::string why_no_exchange() const {
    for (size_t step = 0; step < steps(); ++step)
      for (int i = 0; i < requests_.count(step); ++i)
        if (const std::string why = requests_.why_not_merged(step, i); !why.empty())
          return fmt::format("step {} is no exchange: {}", step, why);
    return "";
  }

 private:
  std::pair<int, MPI_Request*> of(size_t step) override { return {requests_.count(step), requests_.of(step)}; }

  StepRequests requests_;
};

// Of several messages from one rank to another the first of the one side is the first of the other: both list them in
// the order of the pattern.
class NeighbourBackEnd final : public QueueBackEnd {
 public:
  NeighbourBackEnd(const PlanShare& share, std::byte* memory, Stream& stream) : QueueBackEnd(share, memory, stream) {
    for (const StepShare& step : share.steps()) {
      const Side in(step.receives), out(step.sends);
      const auto& graph =
          graphs_.emplace_back(std::make_unique<GraphCommunicator>(MPI_COMM_WORLD, in.peers, out.peers));
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPIX_Neighbor_alltoallw_init(memory, out.counts.data(), out.places.data(), out.types.data(), memory,
                                         in.counts.data(), in.places.data(), in.types.data(), graph->get(),
                                         MPI_INFO_NULL, &request),
            "MPIX_Neighbor_alltoallw_init");
      requests_.add(request);
    }
    requests_.match();
  }

 private:
  // The arrays have one place more than there are neighbours: the call takes no null address.
  struct Side {
    explicit Side(const std::vector<Transfer>& transfers)
        : counts(transfers.size() + 1), places(transfers.size() + 1), types(transfers.size() + 1, MPI_BYTE) {
      for (size_t i = 0; i < transfers.size(); ++i) {
        peers.push_back(transfers[i].peer);
        counts[i] = static_cast<int>(transfers[i].bytes);
        places[i] = static_cast<MPI_Aint>(transfers[i].offset);
      }
    }
    std::vector<int> peers, counts;
    std::vector<MPI_Aint> places;
    std::vector<MPI_Datatype> types;
  };

  std::pair<int, MPI_Request*> of(size_t step) override { return {1, &requests_[step]}; }

  std::vector<std::unique_ptr<GraphCommunicator>> graphs_;
  RequestSet requests_;
};

}  // namespace

std::unique_ptr<BackEnd> make_back_end(BackEndKind kind, const PlanShare& share, std::byte* memory, Stream* stream,
                                       const MpiProcess& process, std::string& why) {
  const bool on_gpu = stream != nullptr && stream->gpu() != nullptr;
  switch (kind) {
    case BackEndKind::kMpi:
    case BackEndKind::kPersistent:
      why = on_gpu ? why_not_gpu_aware(*stream) : "";
      if (!process.all(why.empty()))
        return nullptr;
      if (kind == BackEndKind::kMpi)
        return std::make_unique<MpiBackEnd>(share, memory);
      return std::make_unique<PersistentBackEnd>(share, memory);
    case BackEndKind::kStaged:
      why = on_gpu ? "" : "needs memory of a GPU";
      if (!process.all(why.empty()))
        return nullptr;
      return std::make_unique<StagedBackEnd>(share, memory, *stream);
    case BackEndKind::kNccl: {
      std::unique_ptr<Nccl> nccl = Nccl::open(process, *stream, why);
      if (nccl == nullptr)
        return nullptr;
      return std::make_unique<NcclBackEnd>(share, memory, *stream, std::move(nccl));
    }
    case BackEndKind::kLanyard: return std::make_unique<LanyardBackEnd>(share, memory, *stream, false);
    case BackEndKind::kExchange: {
      auto back_end = std::make_unique<LanyardBackEnd>(share, memory, *stream, true);
      why = back_end->why_no_exchange();
      if (!process.all(why.empty()))
        return nullptr;
      return back_end;
    }
    case BackEndKind::kNeighbour: return std::make_unique<NeighbourBackEnd>(share, memory, *stream);
  }
  return nullptr;
}

}  // namespace lanyard::bench
