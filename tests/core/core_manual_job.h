// ManualJob: simulated processes in one thread. They run only when the test steps them.
#ifndef LANYARD_TESTS_CORE_MANUAL_JOB_H_
#define LANYARD_TESTS_CORE_MANUAL_JOB_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "tests/core/core_mail.h"
#include "tests/core/core_process.h"
#include "tests/core/manual_stream.h"
#include "tests/contract/model_fabric.h"

namespace lanyard {

struct ManualJobOptions {
  nicsim::ModelLimits limits = {};
  bool overflow = true;
  bool stream_calls = true;  // false: streams ring doorbell words, like a GPU's streams
  core::Strategy strategy = core::Strategy::kTargetCounter;
};

class ManualJob {
 public:
  using Options = ManualJobOptions;

  // A process with a stream and a queue.
  struct Rank : Process {
    Rank(nic::Nic& nic, uint32_t rank, Mail& mail, const Options& options)
        : Process(nic, rank, mail,
                  {.overflow = options.overflow, .overflow_thread = false, .strategy = options.strategy}) {
      stream.calls = options.stream_calls;
      queue = std::move(core::Queue::create(endpoint, stream).value());
    }
    Status start(std::initializer_list<Request*> requests) { return queue->start({requests.begin(), requests.size()}); }
    Status wait(std::initializer_list<Request*> requests) { return queue->wait({requests.begin(), requests.size()}); }
    nic::Nic& nic() { return endpoint.nic(); }

    ManualStream stream;
    std::unique_ptr<core::Queue> queue;
  };

  explicit ManualJob(uint32_t ranks, const Options& options = {}) : fabric(ranks, options.limits), mail(ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank)
      ranks_.push_back(std::make_unique<Rank>(fabric.nic(rank), rank, mail, options));
  }

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  Rank& operator[](uint32_t rank) { return *ranks_[rank]; }

  // Delivers match cards until none is in flight.
  void match() {
    while (mail.under_way() > 0)
      for (auto& rank : ranks_)
        rank->matcher.progress();
  }
  // Runs the NICs and the overflow until they have nothing to do. The streams do not run.
  void settle() {
    size_t steps = 0;
    do {
      steps = fabric.quiesce();
      for (auto& rank : ranks_)
        steps += drain(*rank);
    } while (steps > 0);
  }
  // Drains the rank's overflow once. It may hold at most a few hundred operations.
  static size_t drain(Rank& rank) {
    constexpr int kCalls = 64;
    size_t count = 0;
    for (int call = 0; call < kCalls && count == 0 && !rank.endpoint.overflow().empty(); ++call)
      count = rank.endpoint.overflow().drain();
    return count;
  }
  // Runs the streams too. Operations left after that wait for something that never comes.
  void run() {
    bool moved = true;
    while (moved) {
      settle();
      moved = false;
      for (auto& rank : ranks_)
        while (rank->stream.step())
          moved = true;
    }
  }
  // Whether all started requests and enqueued operations are done.
  bool over() {
    for (auto& rank : ranks_)
      if (!rank->stream.empty() || !rank->queue->settled())
        return false;
    return fabric.under_way() == 0;
  }

  ModelFabric fabric;
  Mail mail;

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
};

// A matched send and receive of two ranks.
struct Pair {
  Pair(ManualJob& job, uint32_t from, uint32_t to, uint64_t bytes, bool ready = false, int tag = 7)
      : sender(job[from]),
        receiver(job[to]),
        send(sender.send(static_cast<int>(to), tag, bytes, ready)),
        receive(receiver.receive(static_cast<int>(from), tag, bytes)) {
    job.match();
    EXPECT_TRUE(send.matched() && receive.matched());
  }
  void start_send() { EXPECT_TRUE(works(sender.start({&send}))); }
  void start_receive() { EXPECT_TRUE(works(receiver.start({&receive}))); }
  void wait_send() { EXPECT_TRUE(works(sender.wait({&send}))); }
  void wait_receive() { EXPECT_TRUE(works(receiver.wait({&receive}))); }

  ManualJob::Rank& sender;
  ManualJob::Rank& receiver;
  Request& send;
  Request& receive;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_CORE_MANUAL_JOB_H_
