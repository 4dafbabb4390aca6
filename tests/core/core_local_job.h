// LocalJob: a job of several simulated processes, each with a threaded NIC, a host
// stream and a queue.
#ifndef LANYARD_TESTS_CORE_LOCAL_JOB_H_
#define LANYARD_TESTS_CORE_LOCAL_JOB_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpu/host/host_stream.h"
#include "tests/core/core_process.h"
#include "tests/contract/local_fabric.h"

namespace lanyard {

struct LocalJobOptions {
  LocalOptions local = {};
  bool overflow_thread = true;
  // Whether a waiting stream also drives the NIC and the overflow. If not, only their
  // own threads do.
  bool helpers = true;
  core::Strategy strategy = core::Strategy::kTargetCounter;
  // Wraps a rank's NIC, if not null. What it returns must outlive the job.
  std::function<nic::Nic&(uint32_t rank, nic::Nic& nic)> wrap = nullptr;
};

class LocalJob {
 public:
  using Clock = std::chrono::steady_clock;
  // Far longer than any correct operation takes, also under sanitizers.
  static constexpr std::chrono::seconds kBound{120};

  struct Rank : Process {
    Rank(nic::Nic& nic, uint32_t rank, Mail& mail, const LocalJobOptions& options)
        : Process(nic, rank, mail,
                  {.overflow = true, .overflow_thread = options.overflow_thread, .strategy = options.strategy}),
          helper(endpoint) {
      if (options.helpers)
        stream.set_helper(&helper);
      queue = std::move(core::Queue::create(endpoint, stream).value());
    }
    ~Rank() { stream.set_helper(nullptr); }

    void start(std::span<Request* const> requests) { EXPECT_TRUE(works(queue->start(requests))); }
    void wait(std::span<Request* const> requests) { EXPECT_TRUE(works(queue->wait(requests))); }
    // Enqueues a kernel. Kernels live as long as the rank.
    void launch(std::function<void()> kernel) {
      kernels_.push_back(std::move(kernel));
      EXPECT_TRUE(works(
          stream.launch([](void* argument) { (*static_cast<std::function<void()>*>(argument))(); }, &kernels_.back())));
    }
    void enqueue(const gpu::StreamOp& op) { EXPECT_TRUE(works(stream.enqueue({&op, 1}))); }
    // Waits until everything enqueued has run. The calling thread helps.
    void synchronize() {
      const Status status = stream.synchronize(Clock::now() + kBound);
      EXPECT_TRUE(works(status)) << "rank " << rank << "\n" << queue->explain_stall();
    }
    // The same, but without a call into any object of the job.
    void watch() {
      EXPECT_TRUE(eventually([&] { return stream.executed() >= stream.enqueued(); })) << "rank " << rank << "\n"
                                                                                      << queue->explain_stall();
    }

    struct NicHelper final : gpu::Helper {
      explicit NicHelper(core::Endpoint& endpoint) : endpoint(endpoint) {}
      bool help() override { return endpoint.nic().progress() + endpoint.overflow().drain() > 0; }
      uint64_t activity() override { return endpoint.nic().activity(); }
      void sleep_since(uint64_t seen, std::chrono::nanoseconds timeout) override {
        endpoint.nic().wait_since(seen, timeout);
      }
      core::Endpoint& endpoint;
    };

    NicHelper helper;

   private:
    std::deque<std::function<void()>> kernels_;

   public:
    gpu::HostStream stream;
    std::unique_ptr<core::Queue> queue;
  };

  LocalJob(uint32_t ranks, const LocalJobOptions& options) : mail(ranks), fabric(ranks, options.local) {
    for (uint32_t rank = 0; rank < ranks; ++rank)
      ranks_.push_back(std::make_unique<Rank>(options.wrap ? options.wrap(rank, fabric.nic(rank)) : fabric.nic(rank),
                                              rank, mail, options));
  }

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  Rank& operator[](uint32_t rank) { return *ranks_[rank]; }
  void match() {
    while (mail.under_way() > 0)
      for (auto& rank : ranks_)
        rank->matcher.progress();
  }

  Mail mail;
  LocalFabric fabric;

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_CORE_LOCAL_JOB_H_
