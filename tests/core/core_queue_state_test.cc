// Queue: which starts and waits are refused, that a refusal changes nothing, and the
// cost of a start.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/core/core_manual_job.h"

namespace lanyard {
namespace {

// The visible state of a rank and of some of its requests.
struct Snapshot {
  Snapshot(ManualJob::Rank& rank, const std::vector<Request*>& requests) {
    const core::Queue::Figures& figures = rank.queue->figures();
    values = {figures.starts,
              figures.waits,
              figures.triggers,
              figures.bytes,
              rank.queue->unwaited(),
              rank.queue->epoch_entries(),
              rank.endpoint.entries_posted(),
              rank.endpoint.overflow().overflowed(),
              rank.nic().free_entries(),
              rank.nic().usage().counters,
              rank.nic().usage().regions,
              rank.stream.size()};
    for (const Request* request : requests)
      for (const uint64_t value : {request->starts, request->waits, uint64_t{request->listed ? 1u : 0u},
                                   uint64_t{request->in_call}, uint64_t{request->matched()}})
        values.push_back(value);
  }
  std::vector<uint64_t> values;
};

class QueueState : public ::testing::Test {
 protected:
  void build(const ManualJobOptions& options = {}) { job = std::make_unique<ManualJob>(2, options); }
  ManualJob::Rank& rank(uint32_t which) { return (*job)[which]; }

  // Expects that the call fails with `code` and a message that contains `text`, and
  // changes nothing.
  template <typename Call>
  void refused(Code code, const std::string& text, const std::vector<Request*>& requests, Call call) {
    const Snapshot before(rank(0), requests);
    const Status status = call();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_TRUE(has(status, text));
    const Snapshot after(rank(0), requests);
    EXPECT_EQ(before.values, after.values);
  }
  void refused_start(Code code, const std::string& text, const std::vector<Request*>& requests) {
    refused(code, text, requests, [&] { return rank(0).queue->start(requests); });
  }
  void refused_wait(Code code, const std::string& text, const std::vector<Request*>& requests) {
    refused(code, text, requests, [&] { return rank(0).queue->wait(requests); });
  }

  std::unique_ptr<ManualJob> job;
};

TEST_F(QueueState, OnlyMatchedRequestsStart) {
  build();
  Pair good(*job, 0, 1, 8, false, 1);
  Request& matching = rank(0).send(1, 2, 8);
  Request& fresh = *rank(0).endpoint.new_request(rank(0).transfer(core::Direction::kReceive, 1, 3, 8));
  for (Request* bad : {&matching, &fresh}) {
    refused_start(Code::kInvalidState, bad->describe(), {bad});
    refused_start(Code::kInvalidState, bad->describe(), {&good.send, bad});
    refused_start(Code::kInvalidState, bad->describe(), {bad, &good.send});
  }
  good.start_send();
}

TEST_F(QueueState, OneStartBeforeTheWait) {
  build();
  Pair a(*job, 0, 1, 8, false, 1);
  Pair b(*job, 0, 1, 8, false, 2);
  refused_start(Code::kInvalidState, "twice", {&a.send, &b.send, &a.send});
  ASSERT_TRUE(works(rank(0).start({&a.send})));
  refused_start(Code::kInvalidState, a.send.describe(), {&a.send});
  refused_start(Code::kInvalidState, a.send.describe(), {&b.send, &a.send});
  job->run();
  refused_start(Code::kInvalidState, a.send.describe(), {&a.send});
  // Even after completion: only a wait allows the next start.
  a.start_receive();
  job->run();
  ASSERT_TRUE(a.send.complete());
  refused_start(Code::kInvalidState, a.send.describe(), {&a.send});
  a.wait_send();
  a.start_send();
}

TEST_F(QueueState, OneWaitPerStart) {
  build();
  Pair a(*job, 0, 1, 8, false, 1);
  Pair b(*job, 0, 1, 8, false, 2);
  refused_wait(Code::kInvalidState, a.send.describe(), {&a.send});
  ASSERT_TRUE(works(rank(0).start({&a.send, &b.send})));
  refused_wait(Code::kInvalidState, "twice", {&a.send, &a.send});
  ASSERT_TRUE(works(rank(0).wait({&a.send})));
  refused_wait(Code::kInvalidState, a.send.describe(), {&a.send});
  refused_wait(Code::kInvalidState, a.send.describe(), {&b.send, &a.send});
  ASSERT_TRUE(works(rank(0).wait({&b.send})));
  EXPECT_EQ(rank(0).queue->unwaited(), 0u);
}

// find_unwaited() names a request without its wait, for messages.
TEST_F(QueueState, NamesARequestWithoutAWait) {
  build();
  ManualStream other_stream;
  const auto other = std::move(core::Queue::create(rank(0).endpoint, other_stream).value());
  Pair a(*job, 0, 1, 8, false, 1);
  Pair b(*job, 0, 1, 8, false, 2);
  const core::Queue& queue = *rank(0).queue;
  const auto unwaited = [&](const core::Queue& of) { return rank(0).endpoint.find_unwaited(of); };
  EXPECT_EQ(unwaited(queue), nullptr);
  ASSERT_TRUE(works(rank(0).start({&a.send, &b.send})));
  ASSERT_TRUE(works(rank(0).wait({&a.send})));
  EXPECT_EQ(unwaited(queue), &b.send);
  EXPECT_EQ(unwaited(*other), nullptr);
  ASSERT_TRUE(works(rank(0).wait({&b.send})));
  EXPECT_EQ(unwaited(queue), nullptr);
}

// A wait on another stream would not be ordered after the start.
TEST_F(QueueState, TheWaitIsOnTheQueueOfTheStart) {
  build();
  ManualStream other_stream;
  const auto other = std::move(core::Queue::create(rank(0).endpoint, other_stream).value());
  Pair pair(*job, 0, 1, 8);
  Request* const send[] = {&pair.send};
  ASSERT_TRUE(works(other->start(send)));
  refused_wait(Code::kInvalidState, "another queue", {&pair.send});
  EXPECT_EQ(other->unwaited(), 1u);
  ASSERT_TRUE(works(other->wait(send)));
  pair.start_receive();
  job->run();
  while (!other_stream.poll())
    job->run();
  EXPECT_TRUE(other->settled());
  // After the wait, any queue may start it.
  ASSERT_TRUE(works(rank(0).start({&pair.send})));
  ASSERT_TRUE(works(rank(0).wait({&pair.send})));
}

// Thresholds have 48 bits. Both sides refuse the same iteration, and both may be freed.
TEST_F(QueueState, StartsBeyondTheCountersRangeAreRefused) {
  build();
  Pair pair(*job, 0, 1, 8);
  Pair ready(*job, 0, 1, 8, true, 8);
  EXPECT_EQ(pair.send.most_starts, nic::kMaxSuccess / 2);
  EXPECT_EQ(ready.send.most_starts, nic::kMaxSuccess);
  const auto advance_to_last_start = [](ManualJob::Rank& rank, Request& request) {
    request.starts = request.waits = request.most_starts - 1;
    *request.done.address += request.starts;
    EXPECT_TRUE(works(rank.nic().add(request.completion, request.starts)));
    if (!request.trigger.valid())
      return;
    EXPECT_TRUE(works(rank.nic().add(request.trigger, 2 * request.starts)));
    *request.clear_to_send_word.address += request.starts;
  };
  for (const Pair& each : {pair, ready}) {
    advance_to_last_start(each.sender, each.send);
    advance_to_last_start(each.receiver, each.receive);
  }
  ASSERT_TRUE(works(rank(1).start({&pair.receive, &ready.receive})));
  ASSERT_TRUE(works(rank(0).start({&pair.send, &ready.send})));
  ASSERT_TRUE(works(rank(0).wait({&pair.send, &ready.send})));
  ASSERT_TRUE(works(rank(1).wait({&pair.receive, &ready.receive})));
  job->run();
  ASSERT_TRUE(job->over());
  for (const Pair& each : {pair, ready}) {
    refused_start(Code::kInvalidState, "cannot count", {&each.send});
    EXPECT_EQ(each.receiver.start({&each.receive}).code(), Code::kInvalidState);
    EXPECT_TRUE(works(each.sender.endpoint.free_request(&each.send)));
    EXPECT_TRUE(works(each.receiver.endpoint.free_request(&each.receive)));
  }
}

TEST_F(QueueState, AFullStreamRefusesAllOrNothing) {
  build();
  Pair a(*job, 0, 1, 8, false, 1);
  Pair b(*job, 1, 0, 8, false, 2);
  rank(0).stream.full = true;
  refused_start(Code::kAgain, "full", {&a.send, &b.receive});
  job->run();
  EXPECT_EQ(rank(0).nic().free_entries(), rank(0).nic().caps().deferred_depth);
  rank(0).stream.full = false;
  ASSERT_TRUE(works(rank(0).start({&a.send, &b.receive})));
  rank(0).stream.full = true;
  refused_wait(Code::kAgain, "full", {&a.send, &b.receive});
  rank(0).stream.full = false;
  ASSERT_TRUE(works(rank(0).wait({&a.send, &b.receive})));
  fill(a.send, 1), fill(b.send, 2);
  ASSERT_TRUE(works(rank(1).start({&a.receive, &b.send})));
  ASSERT_TRUE(works(rank(1).wait({&a.receive, &b.send})));
  job->run();
  EXPECT_TRUE(holds(a.receive, 1));
  EXPECT_TRUE(holds(b.receive, 2));
  EXPECT_TRUE(job->over());
}

// ---- Entries

TEST_F(QueueState, EntriesPerStart) {
  build({.limits = {.max_message_bytes = 100}});
  struct Case {
    uint64_t bytes;
    bool ready;
    uint32_t send, receive;
  };
  for (const Case& c : {Case{100, false, 2, 2}, Case{0, false, 2, 2}, Case{100, true, 2, 1}, Case{101, false, 3, 2},
                        Case{450, false, 6, 2}, Case{450, true, 6, 1}}) {
    SCOPED_TRACE(std::to_string(c.bytes) + (c.ready ? " B, ready" : " B"));
    Pair pair(*job, 0, 1, c.bytes, c.ready);
    const uint32_t depth = rank(0).nic().caps().deferred_depth;
    for (int i = 0; i < 3; ++i) {
      pair.start_receive();
      EXPECT_EQ(rank(1).nic().free_entries(), depth - c.receive);
      EXPECT_EQ(rank(1).queue->epoch_entries(), c.receive);
      pair.start_send();
      EXPECT_EQ(rank(0).nic().free_entries(), depth - c.send);
      EXPECT_EQ(rank(0).queue->epoch_entries(), c.send);
      pair.wait_send();
      pair.wait_receive();
      EXPECT_EQ(rank(0).queue->epoch_entries(), 0u) << "the wait must end the epoch";
      job->run();
      ASSERT_TRUE(job->over());
    }
  }
  EXPECT_EQ(rank(0).endpoint.entries_posted(), 3u * (2 + 2 + 2 + 3 + 6 + 6));
  EXPECT_EQ(rank(1).endpoint.entries_posted(), 3u * (2 + 2 + 1 + 2 + 2 + 1));
  EXPECT_EQ(rank(0).endpoint.overflow().overflowed(), 0u);
  const core::Queue::Figures& figures = rank(0).queue->figures();
  EXPECT_EQ(figures.starts, 3 * 6u);
  EXPECT_EQ(figures.waits, 3 * 6u);
  EXPECT_EQ(figures.bytes, 3u * (100 + 0 + 100 + 101 + 450 + 450));
}

TEST_F(QueueState, OneRingForAllThatShareATrigger) {
  build();
  Pair in1(*job, 1, 0, 8, false, 1);
  Pair in2(*job, 1, 0, 8, false, 2);
  Pair out_ready(*job, 0, 1, 8, true, 3);
  Pair out(*job, 0, 1, 8, false, 4);
  Pair in_ready(*job, 1, 0, 8, true, 5);
  ASSERT_TRUE(works(rank(0).start({&in1.receive, &in2.receive, &out_ready.send})));
  EXPECT_EQ(rank(0).stream.size(), 1u);
  ASSERT_TRUE(works(rank(0).start({&in_ready.receive})));
  EXPECT_EQ(rank(0).stream.size(), 1u) << "a receive from a ready send must not ring";
  ASSERT_TRUE(works(rank(0).start({&out.send})));
  EXPECT_EQ(rank(0).stream.size(), 2u);
  EXPECT_EQ(rank(0).queue->figures().triggers, 2u);
}

// Without overflow, an epoch that can never fit is refused with the numbers that the user needs.
TEST_F(QueueState, WithoutOverflowAnEpochMustFit) {
  build({.limits = {.deferred_depth = 5}, .overflow = false});
  Pair a(*job, 0, 1, 8, false, 1);
  Pair b(*job, 0, 1, 8, false, 2);
  Pair c(*job, 1, 0, 8, false, 3);
  refused_start(Code::kExhausted, "6 deferred-work entries, the NIC has 5", {&a.send, &b.send, &c.receive});
  ASSERT_TRUE(works(rank(0).start({&a.send, &b.send})));
  refused_start(Code::kExhausted, "6 deferred-work entries, the NIC has 5", {&c.receive});
  // The waits begin a new epoch, which fits once entries become free.
  ASSERT_TRUE(works(rank(0).wait({&a.send, &b.send})));
  refused_start(Code::kAgain, "entries", {&c.receive});
  ASSERT_TRUE(works(rank(1).start({&a.receive, &b.receive})));
  job->run();
  ASSERT_TRUE(works(rank(0).start({&c.receive})));
  EXPECT_EQ(rank(0).endpoint.overflow().overflowed(), 0u);
}

TEST_F(QueueState, AQueueThatCannotBeMadeLeaksNothing) {
  build({.limits = {.max_counters = 2}});
  core::Endpoint& endpoint = rank(0).endpoint;
  ManualStream stream;
  {
    const auto second = core::Queue::create(endpoint, stream);
    ASSERT_TRUE(works(second.status()));
    EXPECT_EQ(core::Queue::create(endpoint, stream).status().code(), Code::kExhausted);
    EXPECT_EQ(rank(0).nic().usage().counters, 2u);
  }
  EXPECT_EQ(rank(0).nic().usage().counters, 1u);
  stream.calls = false;
  job->fabric.nic(0).mutable_caps().doorbell_atomic_add = false;
  const Status status = core::Queue::create(endpoint, stream).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_TRUE(has(status, "manual"));
  EXPECT_EQ(rank(0).nic().usage().counters, 1u);
}

// A doorbell has the kind of its stream, also if a later queue gets an earlier queue's address.
TEST_F(QueueState, ARequestMovesToAnotherStream) {
  build();
  Pair pair(*job, 0, 1, 8);
  Request* const send[] = {&pair.send};
  // Kinds 0, 1 and 2: the stream calls the host, adds to a word, stores a total. In every order.
  for (const int kind : {0, 1, 2, 0, 2, 1, 0, 0, 1, 1, 2, 2}) {
    ManualStream stream;
    stream.calls = kind == 0;
    job->fabric.nic(0).mutable_caps().doorbell_totals = kind == 2;
    const auto queue = std::move(core::Queue::create(rank(0).endpoint, stream).value());
    for (int i = 0; i < 3; ++i) {
      pair.start_receive();
      pair.wait_receive();
      stream.full = true;
      EXPECT_EQ(queue->start(send).code(), Code::kAgain) << "a refused start must not count as a ring";
      stream.full = false;
      ASSERT_TRUE(works(queue->start(send))) << "kind " << kind;
      ASSERT_TRUE(works(queue->wait(send)));
    }
    const auto enqueued = [&](gpu::StreamOp::Kind each) {
      return std::count_if(stream.enqueued.begin(), stream.enqueued.end(),
                           [&](const auto& op) { return op.kind == each; });
    };
    EXPECT_EQ(enqueued(gpu::StreamOp::Kind::kWrite64), kind == 2 ? 3 : 0);
    EXPECT_EQ(enqueued(gpu::StreamOp::Kind::kAdd64), kind == 1 ? 3 : 0);
    do
      job->run();
    while (!stream.poll());
    ASSERT_TRUE(queue->settled());
    // Exactly one ring and one clear-to-send per start.
    EXPECT_EQ(rank(0).nic().read(pair.send.trigger).value().success, 2 * pair.send.starts) << "kind " << kind;
  }
}

}  // namespace
}  // namespace lanyard
