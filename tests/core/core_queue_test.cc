// Queue over threaded NICs and host streams: all messages of a job, with all its threads, and
// requests whose buffers have gaps.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gpu/packing.h"
#include "tests/core/core_local_job.h"
#include "transport/core/queue.h"

namespace lanyard {
namespace {

constexpr uint64_t kIterations = 12;

struct Setting {
  std::string name;
  uint32_t ranks = 2;
  uint32_t depth = 504;
  bool overflow_thread = true;
  bool helpers = true;
  LocalOptions::Wire wire = LocalOptions::Wire::kShm;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

// Every rank sends messages of several lengths to every rank, also to itself.
class Exchange {
 public:
  explicit Exchange(const Setting& setting) : setting_(setting), job_(setting.ranks, options()) {
    for (uint32_t from = 0; from < setting.ranks; ++from)
      for (uint32_t to = 0; to < setting.ranks; ++to)
        add_links(from, to);
    job_.match();
    for (const auto& link : links_) {
      EXPECT_TRUE(link->send.matched() && link->receive.matched());
    }
  }

  // Enqueues one iteration of a rank. Call it from one thread per rank.
  void enqueue(uint32_t which, uint64_t i) {
    LocalJob::Rank& rank = job_[which];
    std::vector<Request*> receives, sends, all;
    for (const auto& link : links_) {
      if (link->to == which)
        receives.push_back(&link->receive);
      if (link->from == which)
        sends.push_back(&link->send);
    }
    all = receives;
    all.insert(all.end(), sends.begin(), sends.end());
    rank.launch([this, which, i] {
      for (const auto& link : links_)
        if (link->from == which)
          fill(link->send, link->seed(i));
    });
    rank.start(receives);
    for (const auto& link : links_)  // a ready send may start only after its receive
      if (link->to == which && link->ready)
        rank.enqueue({.kind = gpu::StreamOp::Kind::kWrite64, .word = &link->started, .value = i});
    for (const auto& link : links_)
      if (link->from == which && link->ready)
        rank.enqueue({.kind = gpu::StreamOp::Kind::kWait64, .word = &link->started, .value = i});
    rank.start(sends);
    rank.wait(all);
    rank.launch([this, which, i] {
      for (const auto& link : links_) {
        if (link->from == which)
          clear(link->send);
        if (link->to != which)
          continue;
        if (holds(link->receive, link->seed(i)))
          right_.fetch_add(1);
        clear(link->receive);
      }
    });
  }

  void check() {
    EXPECT_EQ(right_.load(), kIterations * links_.size());
    for (const auto& link : links_) {
      EXPECT_TRUE(works(job_[link->from].endpoint.free_request(&link->send)));
      EXPECT_TRUE(works(job_[link->to].endpoint.free_request(&link->receive)));
    }
    for (uint32_t which = 0; which < job_.size(); ++which) {
      LocalJob::Rank& rank = job_[which];
      nic::Nic& nic = rank.endpoint.nic();
      EXPECT_TRUE(rank.queue->settled());
      EXPECT_EQ(rank.endpoint.take_failed(*rank.queue), nullptr);
      EXPECT_EQ(nic.free_entries(), nic.caps().deferred_depth);
      EXPECT_EQ(rank.queue->epoch_entries(), 0u);
      EXPECT_EQ(rank.queue->unwaited(), 0u);
      if (setting_.depth < 100) {
        EXPECT_GT(rank.endpoint.overflow().overflowed(), 0u);
      }
      EXPECT_EQ(nic.usage().counters, 1u) << "expected only the queue's counter";
    }
  }

  LocalJob& job() { return job_; }

 private:
  struct Link {
    uint64_t seed(uint64_t i) const { return 1'000 * number + i; }
    uint64_t number;
    uint32_t from, to;
    bool ready;
    Request& send;
    Request& receive;
    uint64_t started = 0;
  };

  LocalJobOptions options() const {
    LocalJobOptions options;
    options.local.limits.deferred_depth = setting_.depth;
    options.local.limits.max_message_bytes = 10'000;
    options.local.wire = setting_.wire;
    options.overflow_thread = setting_.overflow_thread;
    options.helpers = setting_.helpers;
    return options;
  }
  void add_links(uint32_t from, uint32_t to) {
    int tag = 0;
    for (const uint64_t bytes : {0u, 8u, 5'000u, 32'000u}) {
      const bool ready = tag % 2 != 0;
      links_.push_back(std::make_unique<Link>(Link{links_.size() + 1, from, to, ready,
                                                   job_[from].send(static_cast<int>(to), tag, bytes, ready),
                                                   job_[to].receive(static_cast<int>(from), tag, bytes + from)}));
      ++tag;
    }
  }

  const Setting setting_;
  LocalJob job_;
  std::vector<std::unique_ptr<Link>> links_;
  std::atomic<uint64_t> right_{0};
};

class QueueExchange : public ::testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(
    Local, QueueExchange,
    ::testing::Values(Setting{.name = "FourRanks", .ranks = 4},
                      Setting{.name = "FiveEntriesAlone", .depth = 5, .helpers = false},
                      Setting{.name = "FiveEntriesOverTcp", .depth = 5, .wire = LocalOptions::Wire::kTcp},
                      Setting{.name = "OneEntryWithoutThread", .depth = 1, .overflow_thread = false}),
    [](const auto& info) { return info.param.name; });

// One thread per rank waits after each iteration, or enqueues all iterations ahead.
TEST_P(QueueExchange, CarriesEveryMessage) {
  for (const bool ahead : {false, true}) {
    Exchange exchange(GetParam());
    {
      std::vector<std::jthread> hosts;
      for (uint32_t rank = 0; rank < exchange.job().size(); ++rank)
        hosts.emplace_back([&exchange, rank, ahead] {
          for (uint64_t i = 1; i <= kIterations; ++i) {
            exchange.enqueue(rank, i);
            if (ahead && i < kIterations)
              continue;
            if (GetParam().helpers)
              exchange.job()[rank].synchronize();
            else
              exchange.job()[rank].watch();
          }
        });
    }
    exchange.check();
  }
}

// ---- Buffers with gaps: what starts and waits enqueue, and when the buffer is free again

// Sends every other word of a buffer to a receive of the same rank.
struct Packing : ::testing::Test {
  static constexpr size_t kWords = 8;

  core::Transfer transfer(core::Direction direction, std::array<uint64_t, 2 * kWords>& memory, int device) {
    gpu::Shape word;
    word.length = sizeof(uint64_t);
    auto packing = std::make_shared<gpu::Packing>();
    packing->layout = std::make_shared<const gpu::Layout>(repeat(word, kWords, 2 * sizeof(uint64_t)));
    packing->packed = {new std::byte[kWords * sizeof(uint64_t)], std::default_delete<std::byte[]>()};
    packing->memory = memory.data();
    packing->device = device;
    core::Transfer made = rank().transfer(direction, 0, 5, kWords * sizeof(uint64_t));
    made.buffer = packing->packed.get();
    made.packing = std::move(packing);
    return made;
  }
  LocalJob::Rank& rank() { return job_[0]; }
  void connect(int device = DeviceMemory::kHost) {
    send = &rank().begin(transfer(core::Direction::kSend, out, DeviceMemory::kHost));
    receive = &rank().begin(transfer(core::Direction::kReceive, in, device));
    job_.match();
    ASSERT_TRUE(send->matched() && receive->matched());
  }
  void free(Request* request) { EXPECT_TRUE(works(rank().endpoint.free_request(request))); }

  LocalJob job_{1, {}};
  std::array<uint64_t, 2 * kWords> out{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, in{};
  Request* send = nullptr;
  Request* receive = nullptr;
};

// The message has arrived, but the stream has not unpacked it: the buffer will still be written.
TEST_F(Packing, IsNotCompleteBeforeItIsUnpacked) {
  connect();
  const std::array both{send, receive};
  std::atomic<bool> go{false};
  rank().start(both);
  rank().launch([&go] {
    while (!go.load())
      std::this_thread::yield();
  });
  rank().wait(both);
  EXPECT_TRUE(eventually([&] { return receive->transferred(); }));
  EXPECT_FALSE(receive->complete());
  EXPECT_EQ(rank().endpoint.free_request(receive).code(), Code::kInvalidState);
  // The same after a release.
  rank().endpoint.release(*receive);
  EXPECT_EQ(rank().endpoint.free_request(receive).code(), Code::kInvalidState);
  EXPECT_EQ(in[0], 0u);
  go.store(true);
  rank().synchronize();
  EXPECT_EQ(in[0], 1u);
  free(receive);
  free(send);
}

// A start is refused if the stream could not unpack behind its wait.
TEST_F(Packing, AStreamThatCannotUnpackStartsNothing) {
  connect(7);
  const std::array both{send, receive};
  EXPECT_EQ(rank().queue->start(both).code(), Code::kUnsupported);
  EXPECT_EQ(send->starts, 0u);
  EXPECT_EQ(receive->starts, 0u);
  EXPECT_EQ(rank().stream.enqueued(), 0u);
  free(send);
  free(receive);
}

TEST_F(Packing, CannotStand) {
  connect();
  const std::array both{send, receive};
  EXPECT_EQ(rank().queue->stand(both).code(), Code::kUnsupported);
  rank().start(both);
  rank().wait(both);
  rank().synchronize();
  EXPECT_EQ(in[2], 3u);
  free(send);
  free(receive);
}

}  // namespace
}  // namespace lanyard
