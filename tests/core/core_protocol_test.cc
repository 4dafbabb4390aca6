// Stall reports: at every stage of an iteration (api/doc/protocol.md, P1) Queue::explain_stall
// names the first event that is missing. Requests with MPI_PROC_NULL. Orders of events:
// world_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/core/core_manual_job.h"

namespace lanyard {
namespace {

using nicsim::PacketKind;

constexpr uint64_t kBytes = 200;

// MPI_PROC_NULL: matches at once, starts and waits like any request, and does nothing.
TEST(Protocol, ProcNullDoesNothing) {
  ManualJob job(1);
  ManualJob::Rank& rank = job[0];
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
