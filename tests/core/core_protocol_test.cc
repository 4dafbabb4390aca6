// The protocol step by step: the order of events in every iteration (api/doc/protocol.md, P1). At
// every stage Queue::explain_stall names the first event that is missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/core/core_manual_job.h"

namespace lanyard {
namespace {

using nic::CounterValue;
using nicsim::PacketKind;

constexpr uint64_t kBytes = 200;

// false: defaults. true: streams that add to words, messages in pieces, one entry and the overflow.
class Protocol : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<ManualJob> make_job(uint32_t ranks) {
    return std::make_unique<ManualJob>(
        ranks, GetParam() ? ManualJobOptions{.limits = {.deferred_depth = 1, .max_message_bytes = 64},
                                             .overflow = true,
                                             .stream_calls = false}
                          : ManualJobOptions{});
  }
  static CounterValue read(ManualJob::Rank& rank, nic::CounterId counter) { return rank.nic().read(counter).value(); }
};
INSTANTIATE_TEST_SUITE_P(Core, Protocol, ::testing::Bool());

// Start i of the sender and clear-to-send i come in either order. One of them alone moves nothing.
TEST_P(Protocol, AWriteNeedsItsStartAndItsClearToSend) {
  const auto job = make_job(2);
  Pair pair(*job, 0, 1, kBytes);
  for (uint64_t i = 1; i <= 6; ++i) {
    SCOPED_TRACE("iteration " + std::to_string(i));
    fill(pair.send, i);
    clear(pair.receive);
    i % 2 ? pair.start_send() : pair.start_receive();
    job->run();
    ASSERT_TRUE(is_clear(pair.receive)) << (i % 2 ? "not cleared to send" : "not started");
    ASSERT_EQ(pair.send.done.count(), i - 1);
    ASSERT_EQ(pair.receive.done.count(), i - 1);
    i % 2 ? pair.start_receive() : pair.start_send();
    pair.wait_send();
    pair.wait_receive();
    job->run();
    ASSERT_TRUE(holds(pair.receive, i));
    ASSERT_TRUE(job->over());
  }
}

// A send's wait ends when the write is acknowledged, not when it is triggered.
TEST_P(Protocol, TheSenderWaitsForItsWrite) {
  for (const bool ready : {false, true}) {
    for (const PacketKind what : {PacketKind::kWrite, PacketKind::kAck}) {
      const auto job = make_job(2);
      Pair pair(*job, 0, 1, kBytes, ready);
      for (uint64_t i = 1; i <= 3; ++i) {
        fill(pair.send, i);
        pair.start_receive();
        pair.wait_receive();
        job->run();
        pair.start_send();
        pair.wait_send();
        // The stream reuses the buffer. A held write reads its data when it is delivered.
        pair.sender.stream.launch([&] { fill(pair.send, 1000); });
        job->fabric.held = [&](const ModelFabric::Transit& transit) {
          return transit.packet.kind == what && transit.from != transit.to;
        };
        job->run();
        ASSERT_FALSE(pair.sender.stream.empty());
        ASSERT_TRUE(holds(pair.send, i));
        job->fabric.held = nullptr;
        job->run();
        ASSERT_TRUE(holds(pair.receive, i));
        ASSERT_TRUE(job->over());
      }
    }
  }
}

// At rest, each counter and word is a function of the number of iterations.
TEST_P(Protocol, ClosedFormsAtRest) {
  constexpr uint64_t kIterations = 7;
  for (const bool ready : {false, true}) {
    const auto job = make_job(2);
    Pair pair(*job, 0, 1, kBytes, ready);
    const uint64_t longest = pair.sender.nic().caps().max_message_bytes;
    const uint64_t pieces = (kBytes + longest - 1) / longest;
    for (uint64_t i = 1; i <= kIterations; ++i) {
      pair.start_receive();
      job->run();
      pair.start_send();
      pair.wait_send();
      pair.wait_receive();
      job->run();
      ASSERT_TRUE(job->over());
      EXPECT_EQ(read(pair.sender, pair.send.completion), (CounterValue{pieces * i, 0}));
      EXPECT_EQ(read(pair.receiver, pair.receive.completion), (CounterValue{pieces * i, 0}));
      EXPECT_EQ(pair.send.done.count(), i);
      EXPECT_EQ(pair.receive.done.count(), i);
      ASSERT_EQ(pair.send.trigger.valid(), !ready);
      if (ready)
        continue;
      EXPECT_EQ(read(pair.sender, pair.send.trigger), (CounterValue{2 * i, 0}));
      EXPECT_EQ(pair.send.clear_to_send_word.count(), i);
    }
    EXPECT_EQ(pair.sender.queue->figures().bytes, kIterations * kBytes);
    EXPECT_EQ(pair.sender.queue->figures().triggers, kIterations);
    EXPECT_EQ(pair.receiver.queue->figures().triggers, ready ? 0 : kIterations);
    for (ManualJob::Rank* rank : {&pair.sender, &pair.receiver}) {
      EXPECT_EQ(rank->queue->figures().starts, kIterations);
      EXPECT_EQ(rank->queue->figures().waits, kIterations);
      EXPECT_EQ(rank->nic().free_entries(), rank->nic().caps().deferred_depth);
      EXPECT_EQ(rank->queue->epoch_entries(), 0u);
      EXPECT_EQ(rank->nic().failures(), 0u);
    }
  }
}

// Message lengths around the piece length, zero, and receives longer than their message.
TEST_P(Protocol, Lengths) {
  for (const bool ready : {false, true}) {
    for (const uint64_t bytes : {0u, 1u, 63u, 64u, 65u, 127u, 128u, 129u, 1000u}) {
      for (const uint64_t room : {uint64_t{0}, uint64_t{1}, uint64_t{64}}) {
        SCOPED_TRACE(std::to_string(bytes) + " bytes, " + std::to_string(room) + " more of room");
        const auto job = make_job(2);
        Request& send = (*job)[0].send(1, 3, bytes, ready);
        Request& receive = (*job)[1].receive(0, 3, bytes + room);
        job->match();
        ASSERT_EQ(receive.matched_bytes, bytes);
        for (uint64_t i = 1; i <= 3; ++i) {
          fill(send, i);
          clear(receive);
          ASSERT_TRUE(works((*job)[1].start({&receive})));
          ASSERT_TRUE(works((*job)[1].wait({&receive})));
          job->run();
          ASSERT_FALSE((*job)[1].stream.empty()) << "a wait for a message of no bytes passes too early";
          ASSERT_TRUE(works((*job)[0].start({&send})));
          ASSERT_TRUE(works((*job)[0].wait({&send})));
          job->run();
          ASSERT_TRUE(holds(receive, i));
          ASSERT_TRUE(job->over());
        }
      }
    }
  }
}

// MPI_PROC_NULL: matches at once, starts and waits like any request, and does nothing.
TEST_P(Protocol, ProcNullDoesNothing) {
  const auto job = make_job(1);
  ManualJob::Rank& rank = (*job)[0];
  Request& send = rank.send(core::kNobody, 1, kBytes);
  Request& receive = rank.receive(core::kNobody, 1, kBytes);
  EXPECT_TRUE(send.matched() && receive.matched());
  EXPECT_EQ(receive.matched_bytes, 0u);
  EXPECT_EQ(receive.matched_tag, core::kAnyTag);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(works(rank.start({&send, &receive})));
    EXPECT_EQ(rank.start({&send}).code(), Code::kInvalidState) << "a second start before the wait";
    ASSERT_TRUE(works(rank.wait({&receive, &send})));
    EXPECT_EQ(rank.wait({&send}).code(), Code::kInvalidState);
  }
  EXPECT_TRUE(rank.stream.enqueued.empty());
  EXPECT_TRUE(rank.queue->settled());
  EXPECT_TRUE(is_clear(receive));
  EXPECT_EQ(rank.queue->figures().bytes, 0u);
  EXPECT_TRUE(works(rank.endpoint.free_request(&send)));
  EXPECT_TRUE(works(rank.endpoint.free_request(&receive)));
}

// ---- Queue::explain_stall

::testing::AssertionResult ends(const std::string& text, const std::string& end) {
  if (text.ends_with(end))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "expected at the end: \"" << end << "\" of\n" << text;
}

class Stall : public ::testing::Test {
 protected:
  std::string at(uint32_t rank) { return job[rank].queue->explain_stall(); }
  // Stops that rank's stream before the next enqueued operation.
  void block(uint32_t rank) {
    const gpu::StreamOp op{.kind = gpu::StreamOp::Kind::kWait64, .word = &gate, .value = 1};
    ASSERT_TRUE(works(job[rank].stream.enqueue({&op, 1})));
  }
  void hold(PacketKind kind, bool to_self) {
    job.fabric.held = [kind, to_self](const ModelFabric::Transit& transit) {
      return transit.packet.kind == kind && (transit.from == transit.to) == to_self;
    };
  }

  ManualJob job{2, {.limits = {.max_message_bytes = 64}}};
  uint64_t gate = 0;
};

// The report must not say that a stream waits while it runs a kernel.
TEST_F(Stall, TheStreamsStateWhileNothingIsInFlight) {
  std::string while_it_ran;
  job[0].stream.launch([&] { while_it_ran = at(0); });
  job.run();
  EXPECT_TRUE(has(while_it_ran, "nothing is under way: the stream runs a kernel"));
  EXPECT_FALSE(has(while_it_ran, "waits"));
  block(0);
  EXPECT_TRUE(has(at(0), "nothing is under way: the stream waits for something else"));
  gate = 1;
  EXPECT_TRUE(has(at(0), "the stream runs or waits for something else")) << "this stream cannot tell which";
}

// A send: its own stream, the clear-to-send, the write's acknowledgement, the word that the
// stream waits for.
TEST_F(Stall, Send) {
  Pair pair(job, 0, 1, kBytes);
  block(0);
  pair.start_send();
  job.run();
  const std::string line =
      "request (send, peer 1, tag 7, 200 B) waits for iteration 1: done word 0 of 1"
      " <- write completion 0 of 4";
  EXPECT_TRUE(has(at(0), line + " <- trigger counter 0 of 2")) << "expected four pieces of 64 bytes";
  EXPECT_TRUE(ends(at(0), "clear-to-send 1 from rank 1 has not arrived <- this stream has not reached start 1"));
  pair.start_receive();
  job.run();
  EXPECT_TRUE(ends(at(0), "<- trigger counter 1 of 2 <- this stream has not reached start 1"));
  hold(PacketKind::kWrite, false);
  gate = 1;
  job.run();
  EXPECT_TRUE(ends(at(0), "<- trigger counter 2 of 2 <- rank 1 has not acknowledged the write"));
  hold(PacketKind::kAtomic, true);
  job.run();
  EXPECT_TRUE(ends(at(0), "done word 0 of 1 <- the NIC's local atomic has not run"));
  job.fabric.held = nullptr;
  job.run();
  EXPECT_TRUE(has(at(0), "nothing is under way"));
  EXPECT_TRUE(ends(job[0].queue->explain(pair.send, 1).text, "done word 1 of 1 <- it has completed meanwhile"));
}

TEST_F(Stall, Receive) {
  Pair pair(job, 0, 1, kBytes);
  block(1);
  pair.start_receive();
  job.run();
  EXPECT_TRUE(has(at(1),
                  "request (recv, peer 0, tag 7, 200 B) waits for iteration 1: done word 0 of 1 <- "
                  "remote-write counter 0 of 4"));
  EXPECT_TRUE(has(at(1), "<- this stream has not reached"));
  gate = 1;
  job.run();
  EXPECT_TRUE(ends(at(1), "<- the message from rank 0 has not landed"));
  // Some of the pieces land.
  job.fabric.held = [](const ModelFabric::Transit& transit) {
    return transit.packet.kind == PacketKind::kWrite && transit.packet.offset > 0;
  };
  pair.start_send();
  job.run();
  EXPECT_TRUE(has(at(1), "remote-write counter 1 of 4 <- the message from rank 0"));
  hold(PacketKind::kAtomic, true);
  job.run();
  EXPECT_TRUE(ends(at(1), "<- the NIC's local atomic has not run"));
  job.fabric.held = nullptr;
  job.run();
  EXPECT_TRUE(has(at(1), "nothing is under way"));
}

TEST_F(Stall, ReadySendAndItsReceive) {
  Pair pair(job, 0, 1, kBytes, true);
  pair.start_receive();
  job.run();
  EXPECT_TRUE(ends(at(1), "<- the message from rank 0 has not landed"));
  block(0);
  pair.start_send();
  job.run();
  EXPECT_TRUE(has(at(0), "rsend, peer 1"));
  EXPECT_TRUE(ends(at(0), "<- trigger counter 0 of 1 (the queue's) <- this stream has not reached start 1"));
  gate = 1;
  job.run();
  EXPECT_TRUE(job.over() || has(at(0), "nothing is under way"));
}

// One line for each request that has not completed, none for the others.
TEST_F(Stall, OneLinePerRequest) {
  Pair a(job, 0, 1, 8, false, 1);
  Pair b(job, 0, 1, 8, false, 2);
  Pair c(job, 1, 0, 8, false, 3);
  ASSERT_TRUE(works(job[0].start({&a.send, &b.send, &c.receive})));
  job.run();
  std::string text = at(0);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  b.start_receive();
  job.run();
  text = at(0);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_TRUE(has(text, "send, peer 1, tag 1, 8 B"));
  EXPECT_TRUE(has(text, "recv, peer 1, tag 3, 8 B"));
  EXPECT_FALSE(has(text, "tag 2"));
}

// An operation without an entry is not at the NIC: the report must not blame the NIC or the peer.
TEST(StallOfOverflow, NamesADueOperationWithoutAnEntry) {
  ManualJob small(2, {.limits = {.deferred_depth = 1}});
  Pair pair(small, 0, 1, 8);
  Pair more(small, 0, 1, 8, false, 8);
  const auto at = [&](uint32_t rank) { return small[rank].queue->explain_stall(); };
  const auto go = [&](uint32_t rank) {
    while (small[rank].stream.step()) {
    }
    small.fabric.quiesce();
  };
  const std::string due =
      "done word 0 of 1 <- the NIC had no free entry for an operation that is due:"
      " this process has yet to run it";
  pair.start_receive();  // its clear-to-send finds no entry
  EXPECT_TRUE(has(at(1), "<- this stream has not reached start 1"));
  go(1);
  EXPECT_TRUE(ends(at(1), due)) << "for a clear-to-send";
  ManualJob::drain(small[1]);
  EXPECT_TRUE(ends(at(1), "<- the message from rank 0 has not landed"));
  small.fabric.quiesce();
  pair.start_send();  // its write takes the entry
  more.start_send();
  go(0);
  std::string text = at(0);
  EXPECT_TRUE(has(text, "tag 7, 8 B) waits for iteration 1: " + due)) << "for a local atomic";
  EXPECT_TRUE(ends(text, "clear-to-send 1 from rank 1 has not arrived"));
  ASSERT_TRUE(works(small[0].nic().add(more.send.trigger, 1)));  // replaces the clear-to-send
  EXPECT_TRUE(ends(text = at(0), due)) << "for a write";
  EXPECT_FALSE(has(text, "atomic"));
  EXPECT_FALSE(has(text, "acknowledged"));
}

TEST_F(Stall, FailuresAreReported) {
  Pair pair(job, 0, 1, kBytes);
  pair.start_send();
  job.run();
  ASSERT_TRUE(works(job[0].nic().add_error(pair.send.completion, 2)));
  EXPECT_TRUE(has(at(0), "write completion 0 of 4, 2 failed"));
}

TEST_F(Stall, TheMissingIterationAmongManyEnqueued) {
  Pair pair(job, 0, 1, 8);
  for (int i = 0; i < 5; ++i) {
    pair.start_send();
    pair.wait_send();
  }
  pair.start_receive();
  pair.wait_receive();
  job.run();
  EXPECT_TRUE(has(at(0), "waits for iteration 2"));
  EXPECT_TRUE(has(at(0), "clear-to-send 2 from rank 1 has not arrived"));
}

}  // namespace
}  // namespace lanyard
