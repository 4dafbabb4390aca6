// The protocol step by step: the order of events in every iteration (api/doc/protocol.md, P1).
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

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

}  // namespace
}  // namespace lanyard
