// Plans: the operations that a matched request posts to the NIC, with their thresholds
// (api/doc/protocol.md, P1 to P3). A request prepares them once, at its first start.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/contract/model_fabric.h"
#include "tests/core/core_process.h"
#include "tests/core/core_manual_job.h"
#include "transport/core/plan.h"
#include "transport/core/queue.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using core::Direction;
using core::PeerKeys;
using core::PlanContext;
using core::Post;
using nic::AtomicKind;
using nic::OpKind;

constexpr uint32_t kSelf = 3;
constexpr uint32_t kPeer = 5;

PlanContext context(uint64_t max_message_bytes) {
  PlanContext made;
  made.self = kSelf;
  made.max_message_bytes = max_message_bytes;
  made.one = {.address = nullptr, .region = {70}, .key = {700}, .offset = 16};
  made.context = 42;
  return made;
}

Request request(Direction direction, uint64_t bytes, bool ready) {
  Request made;
  made.transfer.direction = direction;
  made.transfer.ready = ready;
  made.transfer.bytes = bytes;
  made.matched_nic = kPeer;
  made.matched_bytes = bytes;
  made.buffer = {71};
  made.completion = {72};
  if (direction == Direction::kSend && !ready)
    made.trigger = {73};
  made.done = {.address = nullptr, .region = {70}, .key = {700}, .offset = 24};
  return made;
}

// Expects an atomic that increments the word at this peer, key and offset.
void expect_increment(const Post& post, uint32_t peer, uint64_t key, uint64_t offset) {
  const nic::Op& op = post.op;
  EXPECT_EQ(op.kind, OpKind::kAtomic);
  EXPECT_EQ(op.atomic, AtomicKind::kSum);
  EXPECT_EQ(op.local.region, nic::RegionId{70});
  EXPECT_EQ(op.local.offset, 16u);
  EXPECT_EQ(op.remote.peer, peer);
  EXPECT_EQ(op.remote.key.value, key);
  EXPECT_EQ(op.remote.offset, offset);
  EXPECT_FALSE(op.completion.valid());
  EXPECT_EQ(op.context, 42u);
}

void expect_send(uint64_t bytes, uint64_t longest, const std::vector<uint64_t>& pieces) {
  SCOPED_TRACE(std::to_string(bytes) + " bytes by " + std::to_string(longest));
  for (const bool ready : {false, true}) {
    const Request send = request(Direction::kSend, bytes, ready);
    const auto plan = make_plan(send, {.buffer = {900}, .clear_to_send = {}, .ready = ready}, context(longest));
    ASSERT_EQ(plan.size(), pieces.size() + 1);
    uint64_t offset = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const nic::Op& op = plan[i].op;
      EXPECT_EQ(op.kind, OpKind::kWrite);
      EXPECT_EQ(op.bytes, pieces[i]);
      EXPECT_EQ(op.local.region, nic::RegionId{71});
      EXPECT_EQ(op.local.offset, offset);
      EXPECT_EQ(op.remote.peer, kPeer);
      EXPECT_EQ(op.remote.key.value, 900u);
      EXPECT_EQ(op.remote.offset, offset);
      EXPECT_EQ(op.completion, nic::CounterId{72});
      EXPECT_EQ(op.context, 42u);
      EXPECT_EQ(!plan[i].trigger.valid(), ready) << "a ready send must use the queue's trigger";
      if (!ready) {
        EXPECT_EQ(plan[i].trigger, nic::CounterId{73});
        EXPECT_EQ(plan[i].step, 2u) << "an iteration counts a start and a clear-to-send";
      }
      offset += pieces[i];
    }
    expect_increment(plan.back(), kSelf, 700, 24);
    EXPECT_EQ(plan.back().trigger, nic::CounterId{72});
    EXPECT_EQ(plan.back().step, pieces.size());
  }
}

TEST(Plan, SendInPieces) {
  expect_send(0, 100, {0});
  expect_send(100, 100, {100});
  expect_send(101, 100, {100, 1});
  expect_send(250, 100, {100, 100, 50});
}

TEST(Plan, Receive) {
  for (const uint64_t bytes : {0u, 100u, 101u, 250u}) {
    for (const bool ready : {false, true}) {
      Request receive = request(Direction::kReceive, 1000, false);
      receive.matched_bytes = bytes;  // the message's length, not the buffer's
      const auto plan = make_plan(receive, {.buffer = {}, .clear_to_send = {901}, .ready = ready}, context(100));
      ASSERT_EQ(plan.size(), ready ? 1u : 2u);
      expect_increment(plan[0], kSelf, 700, 24);
      EXPECT_EQ(plan[0].trigger, nic::CounterId{72});
      EXPECT_EQ(plan[0].step, std::max<uint64_t>(1, (bytes + 99) / 100));
      if (ready)
        continue;
      expect_increment(plan[1], kPeer, 901, 0);
      EXPECT_FALSE(plan[1].trigger.valid()) << "a clear-to-send must use the queue's trigger";
    }
  }
}

// ---- Entries that a queue posts

// Counts calls, records what is posted, and allows only `left` more prepare() calls.
struct CountingNic final : nic::ForwardingNic {
  using ForwardingNic::ForwardingNic;
  Result<nic::PreparedId> prepare(const nic::Op& op) override {
    if (left == 0)
      return Status(Code::kExhausted, "no prepared operation is left");
    --left;
    ++prepared;
    return inner().prepare(op);
  }
  Status post(std::span<const nic::DeferredOp> ops) override {
    whole += ops.size();
    return inner().post(ops);
  }
  Status post_prepared(std::span<const nic::Posting> postings) override {
    Status status = inner().post_prepared(postings);
    if (status.ok())
      posted.insert(posted.end(), postings.begin(), postings.end());
    return status;
  }
  Status release(nic::PreparedId id) override {
    ++released;
    return inner().release(id);
  }
  uint64_t left = UINT64_MAX;
  uint64_t prepared = 0, released = 0, whole = 0;
  std::vector<nic::Posting> posted;
};

TEST(Thresholds, GrowWithTheIterationsAndTheRings) {
  using Condition = std::pair<uint32_t, uint64_t>;
  Alone<CountingNic> alone({.max_message_bytes = 10});
  const auto& posted = alone.nic.posted;
  Request& receive = alone.process.receive(0, 1, 25);
  Request& send = alone.process.send(0, 1, 25);
  Request& ready_receive = alone.process.receive(0, 2, 5);
  Request& ready_send = alone.process.send(0, 2, 5, true);
  alone.match();

  Request* const all[] = {&receive, &ready_receive, &ready_send, &send};
  for (uint64_t i = 1; i <= 4; ++i) {
    SCOPED_TRACE("iteration " + std::to_string(i));
    alone.nic.posted.clear();
    ASSERT_TRUE(works(alone.queue->start(all)));
    ASSERT_EQ(posted.size(), 9u);
    const uint32_t in = receive.completion.value, out = send.completion.value, go = send.trigger.value;
    const uint32_t ready_in = ready_receive.completion.value, ready_out = ready_send.completion.value;
    // The queue's trigger: one ring for the clear-to-send and the ready send.
    const uint32_t shared = posted[1].trigger.value;
    std::vector<Condition> conditions;
    for (const nic::Posting& posting : posted)
      conditions.emplace_back(posting.trigger.value, posting.threshold);
    EXPECT_EQ(conditions, (std::vector<Condition>{{in, 3 * i},
                                                  {shared, i},
                                                  {ready_in, i},
                                                  {shared, i},
                                                  {ready_out, i},
                                                  {go, 2 * i},
                                                  {go, 2 * i},
                                                  {go, 2 * i},
                                                  {out, 3 * i}}));
    ASSERT_TRUE(works(alone.queue->wait(all)));
    alone.run();
  }
  EXPECT_EQ(alone.nic.failures(), 0u);
}

TEST(Strategy, FollowsTheNicsCapabilities) {
  nic::Caps caps;
  caps.target_count_means_visible = true;
  EXPECT_EQ(core::strategy_for(caps), core::Strategy::kTargetCounter);
  caps.target_count_means_visible = false;
  EXPECT_EQ(core::strategy_for(caps), core::Strategy::kSenderFlag);
}

// Strategy B: the sender's NIC raises the receive's done word after all writes are delivered. The
// receive has no counter.
TEST(Plan, TheSendersFlagComesAfterDelivery) {
  PlanContext with = context(4);
  with.strategy = core::Strategy::kSenderFlag;
  const PeerKeys keys{.buffer = {900}, .clear_to_send = {901}, .flag = {902}};
  const std::vector<Post> plan = core::make_plan(request(Direction::kSend, 10, false), keys, with);
  ASSERT_EQ(plan.size(), 5u) << "expected three pieces, the flag and the sender's own word";
  for (size_t piece = 0; piece < 3; ++piece) {
    EXPECT_EQ(plan[piece].op.kind, OpKind::kWrite);
    EXPECT_EQ(plan[piece].op.level, nic::CompletionLevel::kDelivery);
  }
  const Post& flag = plan[3];
  EXPECT_EQ(flag.op.kind, OpKind::kAtomic);
  EXPECT_EQ(flag.op.remote.peer, kPeer);
  EXPECT_EQ(flag.op.remote.key, nic::RemoteKey{902});
  EXPECT_EQ(flag.op.remote.offset, 0u) << "the flag has a region of its own";
  EXPECT_EQ(flag.trigger, nic::CounterId{72});
  EXPECT_EQ(flag.step, 4u) << "an iteration counts three pieces and the flag";
  EXPECT_EQ(flag.base, UINT64_MAX) << "the threshold is 4i - 1";
  EXPECT_EQ(flag.op.completion, nic::CounterId{72}) << "the flag must count, so that the sender's word comes last";
  EXPECT_EQ(plan[4].step, 4u);
  EXPECT_EQ(plan[4].base, 0u);
  EXPECT_EQ(plan[4].op.remote.peer, kSelf);

  const auto receive = core::make_plan(request(Direction::kReceive, 10, false), keys, with);
  ASSERT_EQ(receive.size(), 1u) << "expected only the clear-to-send";
  EXPECT_FALSE(receive[0].trigger.valid());
  PeerKeys ready = keys;
  ready.ready = true;
  EXPECT_EQ(core::make_plan(request(Direction::kSend, 10, true), ready, with).size(), 5u);
  EXPECT_TRUE(core::make_plan(request(Direction::kReceive, 10, false), ready, with).empty());
}

// ---- Prepared once, at the first start

// A process that sends to itself in pieces.
struct PreparedPlan : ::testing::Test, Alone<CountingNic> {
  PreparedPlan() : Alone({.max_message_bytes = 16}) { match(); }
  void iterate(uint64_t seed) {
    fill(*send, seed);
    clear(*receive);
    ASSERT_TRUE(works(queue->start(both)));
    ASSERT_TRUE(works(queue->wait(both)));
    run();
    EXPECT_TRUE(holds(*receive, seed));
  }
  void free_both() {
    ASSERT_TRUE(works(process.endpoint.free_request(send)));
    ASSERT_TRUE(works(process.endpoint.free_request(receive)));
    EXPECT_EQ(nic.released, plans);
    EXPECT_EQ(process.endpoint.unclosed(), 0u) << "a resource of the plan is still open";
  }

  Request* receive = &process.receive(0, 7, 40);
  Request* send = &process.send(0, 7, 40);
  Request* const both[2] = {receive, send};
  const uint64_t plans = 3 + 1 + 2;  // send: three writes and a done word; receive: a done word and a clear-to-send
};

TEST_F(PreparedPlan, IsPreparedAtTheFirstStart) {
  EXPECT_EQ(nic.prepared, 0u);
  for (uint64_t i = 1; i <= 5; ++i) {
    iterate(i);
    EXPECT_EQ(nic.prepared, plans);
    ASSERT_EQ(nic.posted.size(), i * plans);
    EXPECT_EQ(nic.posted.back().start, i);
  }
  EXPECT_EQ(nic.whole, 0u) << "post() is called although every operation is prepared";
  EXPECT_EQ(nic.released, 0u);
  free_both();
}

// A start whose operations cannot be prepared fails. It may be repeated and keeps what
// it has prepared.
TEST_F(PreparedPlan, AStartFailsWhenItsPlanCannotBePrepared) {
  for (uint64_t taken = 0; taken < plans; ++taken) {
    nic.left = taken == 0 ? 0 : 1;
    EXPECT_EQ(queue->start(both).code(), Code::kExhausted);
    EXPECT_EQ(nic.prepared, taken);
    EXPECT_EQ(send->starts + receive->starts, 0u);
    EXPECT_EQ(queue->figures().starts, 0u);
    EXPECT_TRUE(stream.empty());
    EXPECT_TRUE(nic.posted.empty());
  }
  nic.left = 1;
  iterate(3);
  EXPECT_EQ(nic.prepared, plans);
  free_both();
}

}  // namespace
}  // namespace lanyard
