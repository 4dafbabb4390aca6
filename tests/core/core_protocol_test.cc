// The protocol in single steps: what must have happened before what, in every iteration.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/core_manual_job.h"

namespace lanyard {
namespace {

using nic::CounterValue;
using nicsim::PacketKind;

constexpr uint64_t kBytes = 200;

// The same rules whether streams call the NIC or add to words, and whether every operation has an
// entry or nearly all of them go through the overflow.
struct Kind {
  const char* name;
  ManualJobOptions options;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class Protocol : public ::testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<ManualJob> make_job(uint32_t ranks) { return std::make_unique<ManualJob>(ranks, GetParam().options); }
  static CounterValue read(ManualJob::Rank& rank, nic::CounterId counter) { return rank.nic().read(counter).value(); }
};

INSTANTIATE_TEST_SUITE_P(
    Core, Protocol,
    ::testing::Values(Kind{"Calls", {}}, Kind{"Words", {.limits = {}, .overflow = true, .stream_calls = false}},
                      Kind{"Pieces", {.limits = {.max_message_bytes = 64}}},
                      Kind{"OneEntry", {.limits = {.deferred_depth = 1}}},
                      Kind{"OneEntryWords", {.limits = {.deferred_depth = 1}, .overflow = true, .stream_calls = false}},
                      Kind{"OneEntryPieces", {.limits = {.deferred_depth = 1, .max_message_bytes = 64}}}),
    [](const auto& info) { return std::string(info.param.name); });

// A word that a test sets, and that holds a stream up until then.
struct Gate {
  void close(ManualStream& stream) {
    const gpu::StreamOp op{.kind = gpu::StreamOp::Kind::kWait64, .word = &word, .value = ++closed};
    ASSERT_TRUE(works(stream.enqueue({&op, 1})));
  }
  void open() { word = closed; }
  uint64_t word = 0;
  uint64_t closed = 0;
};

// Start i of the sender and clear-to-send i, in either order: one of the two moves nothing.
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
    ASSERT_EQ(pair.send.done.read() - pair.send.done_base, i - 1);
    ASSERT_EQ(pair.receive.done.read() - pair.receive.done_base, i - 1);
    i % 2 ? pair.start_receive() : pair.start_send();
    pair.wait_send();
    pair.wait_receive();
    job->run();
    ASSERT_TRUE(holds(pair.receive, i));
    ASSERT_TRUE(job->over());
  }
}

// The clear-to-send is the stream's, not the call's: it comes after what the stream still does with
// the previous message.
TEST_P(Protocol, ClearToSendComesWhenTheStreamGetsThere) {
  const auto job = make_job(2);
  Pair pair(*job, 0, 1, kBytes);
  Gate unpacked;
  for (uint64_t i = 1; i <= 4; ++i) {
    SCOPED_TRACE("iteration " + std::to_string(i));
    fill(pair.send, i);
    pair.start_send();
    unpacked.close(pair.receiver.stream);
    pair.start_receive();
    pair.wait_receive();
    job->run();
    if (i > 1) {
      ASSERT_TRUE(holds(pair.receive, i - 1)) << "overwritten before it was unpacked";
    } else {
      ASSERT_TRUE(is_clear(pair.receive));
    }
    ASSERT_EQ(pair.send.clear_to_send_word.read() - pair.send.clear_to_send_base, i - 1);
    unpacked.open();
    pair.wait_send();
    job->run();
    ASSERT_TRUE(holds(pair.receive, i));
    ASSERT_TRUE(job->over());
  }
}

// And the write is the sender's stream's: what was packed before the start is what is sent.
TEST_P(Protocol, TheWriteComesAfterThePack) {
  for (const bool ready : {false, true}) {
    const auto job = make_job(2);
    Pair pair(*job, 0, 1, kBytes, ready);
    Gate packed;
    for (uint64_t i = 1; i <= 4; ++i) {
      SCOPED_TRACE("iteration " + std::to_string(i));
      clear(pair.receive);
      pair.start_receive();
      job->run();
      packed.close(pair.sender.stream);
      pair.sender.stream.launch([&] { fill(pair.send, i); });
      pair.start_send();
      pair.wait_send();
      pair.wait_receive();
      job->run();
      ASSERT_TRUE(is_clear(pair.receive)) << "sent before it was packed";
      packed.open();
      job->run();
      ASSERT_TRUE(holds(pair.receive, i));
      ASSERT_TRUE(job->over());
    }
  }
}

TEST_P(Protocol, AClearToSendIsOfOnePairAlone) {
  const auto job = make_job(3);
  Pair first(*job, 0, 1, kBytes, false, 1);
  Pair second(*job, 0, 1, kBytes, false, 2);
  Pair other(*job, 2, 1, kBytes, false, 1);
  const std::vector<Pair*> pairs = {&first, &second, &other};
  for (uint64_t i = 1; i <= 6; ++i) {
    SCOPED_TRACE("iteration " + std::to_string(i));
    for (uint64_t p = 0; p < 3; ++p) {
      fill(pairs[p]->send, 10 * i + p);
      clear(pairs[p]->receive);
    }
    ASSERT_TRUE(works((*job)[0].start({&first.send, &second.send})));
    other.start_send();
    // One after the other is cleared, a different one first each time.
    for (uint64_t k = 0; k < 3; ++k) {
      pairs[(i + k) % 3]->start_receive();
      job->run();
      for (uint64_t p = 0; p < 3; ++p) {
        const bool cleared = (p + 3 - i % 3) % 3 <= k;
        ASSERT_TRUE(cleared ? holds(pairs[p]->receive, 10 * i + p) : is_clear(pairs[p]->receive))
            << "pair " << p << " after " << k + 1 << " clear-to-sends";
      }
    }
    for (Pair* pair : pairs)
      pair->wait_send(), pair->wait_receive();
    job->run();
    ASSERT_TRUE(job->over());
  }
}

// A receiver's wait ends with its own message's arrival: not with the previous one's, and not with
// whatever else may arrive before the data.
TEST_P(Protocol, TheReceiverWaitsForTheData) {
  for (const bool ready : {false, true}) {
    const auto job = make_job(2);
    Pair pair(*job, 0, 1, kBytes, ready);
    for (uint64_t i = 1; i <= 4; ++i) {
      SCOPED_TRACE("iteration " + std::to_string(i));
      fill(pair.send, i);
      bool unpacked = false;
      pair.start_receive();
      pair.wait_receive();
      pair.receiver.stream.launch([&] { unpacked = true; });
      job->run();
      pair.start_send();
      // The last piece of the message stays away.
      const uint64_t last =
          (kBytes - 1) / pair.sender.nic().caps().max_message_bytes * pair.sender.nic().caps().max_message_bytes;
      job->fabric.held = [&](const ModelFabric::Transit& transit) {
        return transit.packet.kind == PacketKind::kWrite && transit.packet.offset == last;
      };
      job->run();
      ASSERT_FALSE(unpacked);
      ASSERT_EQ(job->fabric.under_way(), 1u);
      job->fabric.held = nullptr;
      job->run();
      ASSERT_TRUE(unpacked);
      ASSERT_TRUE(holds(pair.receive, i));
      pair.wait_send();
      job->run();
      ASSERT_TRUE(job->over());
    }
  }
}

// A sender's wait ends when the buffer has been read: after the write is acknowledged, not with its
// trigger.
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
        // The stream uses the buffer again; what is held up is read when it is delivered.
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

// One side enqueues everything at once, the other one thing at a time: neither gets ahead.
TEST_P(Protocol, AnIterationNeverOvertakes) {
  constexpr uint64_t kIterations = 5;
  for (const bool sender_ahead : {true, false}) {
    const auto job = make_job(2);
    Pair pair(*job, 0, 1, kBytes);
    std::vector<uint64_t> unpacked;
    const auto enqueue_send = [&](uint64_t i) {
      pair.sender.stream.launch([&pair, i] { fill(pair.send, i); });
      pair.start_send();
      pair.wait_send();
      pair.sender.stream.launch([&pair] { clear(pair.send); });
    };
    const auto enqueue_receive = [&](uint64_t i) {
      pair.start_receive();
      pair.wait_receive();
      pair.receiver.stream.launch([&pair, &unpacked, i] {
        if (holds(pair.receive, i))
          unpacked.push_back(i);
        clear(pair.receive);
      });
    };
    for (uint64_t i = 1; i <= kIterations; ++i)
      sender_ahead ? enqueue_send(i) : enqueue_receive(i);
    for (uint64_t i = 1; i <= kIterations; ++i) {
      job->run();
      ASSERT_EQ(unpacked.size(), i - 1);
      ASSERT_TRUE(is_clear(pair.receive)) << "message " << i << " came too soon";
      sender_ahead ? enqueue_receive(i) : enqueue_send(i);
    }
    job->run();
    EXPECT_EQ(unpacked, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
    EXPECT_TRUE(job->over());
  }
}

// At rest every counter and word has exactly the value that the number of iterations says.
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
      EXPECT_EQ(pair.send.done.read() - pair.send.done_base, i);
      EXPECT_EQ(pair.receive.done.read() - pair.receive.done_base, i);
      ASSERT_EQ(pair.send.trigger.valid(), !ready);
      if (ready)
        continue;
      EXPECT_EQ(read(pair.sender, pair.send.trigger), (CounterValue{2 * i, 0}));
      EXPECT_EQ(pair.send.clear_to_send_word.read() - pair.send.clear_to_send_base, i);
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

TEST_P(Protocol, MessagesToItself) {
  for (const bool ready : {false, true}) {
    const auto job = make_job(1);
    Pair pair(*job, 0, 0, kBytes, ready);
    for (uint64_t i = 1; i <= 5; ++i) {
      fill(pair.send, i);
      clear(pair.receive);
      ASSERT_TRUE(works((*job)[0].start({&pair.receive, &pair.send})));
      ASSERT_TRUE(works((*job)[0].wait({&pair.send, &pair.receive})));
      job->run();
      ASSERT_TRUE(holds(pair.receive, i));
      ASSERT_TRUE(job->over());
    }
  }
}

// Lengths around those of a piece, none at all, and receives that are longer than their message.
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
          ASSERT_FALSE((*job)[1].stream.empty()) << "a message of no bytes is one too";
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

// MPI_PROC_NULL: matched at once, started and waited for like any other, and nothing happens.
TEST_P(Protocol, NobodyIsPartnerOfANoop) {
  const auto job = make_job(1);
  ManualJob::Rank& rank = (*job)[0];
  Request& send = rank.send(core::kNobody, 1, kBytes);
  Request& receive = rank.receive(core::kNobody, 1, kBytes);
  EXPECT_TRUE(send.matched() && receive.matched());
  EXPECT_EQ(receive.matched_bytes, 0u);
  EXPECT_EQ(receive.matched_tag, core::kAnyTag);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(works(rank.start({&send, &receive})));
    EXPECT_EQ(rank.start({&send}).code(), Code::kInvalidState) << "the same rules of state";
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
