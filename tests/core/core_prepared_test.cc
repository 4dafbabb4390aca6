// Prepared plans: what a request posts is handed to the NIC once, before its first start, and given back with it.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/core/core_mail.h"
#include "tests/core/core_process.h"
#include "tests/core/manual_stream.h"
#include "tests/contract/model_fabric.h"
#include "transport/nic/forwarding_nic.h"

namespace lanyard {
namespace {

// Counts, and refuses to prepare where it is told to.
struct CountingNic final : nic::ForwardingNic {
  using ForwardingNic::ForwardingNic;
  Result<nic::PreparedId> prepare(const nic::Op& op) override {
    if (left == 0)
      return Status(Code::kExhausted, "no more of them");
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

// A process that sends to itself.
class PreparedPlan : public ::testing::Test {
 protected:
  void build(uint32_t depth = 64) {
    fabric = std::make_unique<ModelFabric>(1, nicsim::ModelLimits{.deferred_depth = depth, .max_message_bytes = 16});
    nic = std::make_unique<CountingNic>(fabric->nic(0));
    process = std::make_unique<Process>(*nic, 0, mail, core::Endpoint::Options{.overflow_thread = false});
    queue = std::move(core::Queue::create(process->endpoint, stream).value());
  }
  void match(bool ready = false) {
    receive = &process->receive(0, 7, 40);
    send = &process->send(0, 7, 40, ready);
    while (mail.under_way() > 0)
      process->matcher.progress();
    plans = send->plan.size() + receive->plan.size();
  }
  void iterate(core::Queue& on, uint64_t seed) {
    Request* const both[] = {receive, send};
    fill(*send, seed);
    clear(*receive);
    ASSERT_TRUE(works(on.start(both)));
    ASSERT_TRUE(works(on.wait(both)));
    run();
    EXPECT_TRUE(holds(*receive, seed));
  }
  void run() {
    do {
      fabric->quiesce();
      for (int call = 0; call < 64; ++call)
        process->endpoint.overflow().drain();
    } while (fabric->quiesce() > 0 || !stream.poll());
  }
  void free_both() {
    ASSERT_TRUE(works(process->endpoint.free_request(send)));
    ASSERT_TRUE(works(process->endpoint.free_request(receive)));
    while (mail.under_way() > 0)
      process->matcher.progress();
  }

  std::unique_ptr<ModelFabric> fabric;
  std::unique_ptr<CountingNic> nic;
  Mail mail{1};
  std::unique_ptr<Process> process;
  ManualStream stream;
  std::unique_ptr<core::Queue> queue;
  Request* send = nullptr;
  Request* receive = nullptr;
  uint64_t plans = 0;
};

TEST_F(PreparedPlan, IsHandedOverAtTheFirstStart) {
  build();
  match();
  ASSERT_GT(plans, 4u);
  EXPECT_EQ(nic->prepared, 0u);
  for (uint64_t i = 1; i <= 5; ++i) {
    iterate(*queue, i);
    EXPECT_EQ(nic->prepared, plans);
    ASSERT_EQ(nic->posted.size(), i * plans);
    EXPECT_EQ(nic->posted.back().start, i);
  }
  EXPECT_EQ(nic->whole, 0u) << "nothing is handed over whole where there is room";
  EXPECT_EQ(nic->released, 0u);
  free_both();
  EXPECT_EQ(nic->released, plans);
  EXPECT_EQ(process->endpoint.unclosed(), 0u) << "what it named could be closed";
}

TEST_F(PreparedPlan, OfARequestThatIsNeverStartedThereIsNone) {
  build();
  match();
  free_both();
  EXPECT_EQ(nic->prepared, 0u);
  EXPECT_EQ(nic->released, 0u);
  EXPECT_EQ(process->endpoint.unclosed(), 0u);
}

// Each request has operations of its own, whatever place the NIC keeps them in.
TEST_F(PreparedPlan, TheNextRequestHasItsOwn) {
  build();
  for (uint64_t life = 1; life <= 4; ++life) {
    match();
    iterate(*queue, 10 * life);
    iterate(*queue, 10 * life + 1);
    EXPECT_EQ(nic->prepared, life * plans);
    free_both();
    EXPECT_EQ(nic->released, life * plans);
  }
}

// A start that cannot be prepared is none, and may be repeated; what has been handed over by then has been.
TEST_F(PreparedPlan, WhatTheNicDoesNotTakeIsNotStarted) {
  build();
  match();
  for (uint64_t taken = 0; taken < plans; ++taken) {
    nic->left = taken == 0 ? 0 : 1;
    Request* const both[] = {receive, send};
    EXPECT_EQ(queue->start(both).code(), Code::kExhausted);
    EXPECT_EQ(nic->prepared, taken);
    EXPECT_EQ(send->starts, 0u);
    EXPECT_EQ(receive->starts, 0u);
    EXPECT_EQ(queue->figures().starts, 0u);
    EXPECT_TRUE(stream.empty());
    EXPECT_TRUE(nic->posted.empty());
  }
  nic->left = 1;
  iterate(*queue, 3);
  EXPECT_EQ(nic->prepared, plans);
  free_both();
  EXPECT_EQ(nic->released, plans);
}

// What hangs on a queue's trigger hangs on that of the queue of its start.
TEST_F(PreparedPlan, OnEachQueueItsTrigger) {
  build();
  match(true);
  const auto other = std::move(core::Queue::create(process->endpoint, stream).value());
  iterate(*queue, 1);
  const std::vector<nic::Posting> first = nic->posted;
  iterate(*other, 2);
  ASSERT_EQ(nic->posted.size(), 2 * first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    const nic::Posting& second = nic->posted[first.size() + i];
    EXPECT_EQ(second.prepared, first[i].prepared);
    const bool own = first[i].trigger == send->completion || first[i].trigger == receive->completion;
    EXPECT_EQ(second.trigger == first[i].trigger, own);
  }
  iterate(*queue, 3);
  EXPECT_EQ(nic->prepared, plans);
}

// Without room whole operations wait for it, with the thresholds and starts of the postings.
TEST_F(PreparedPlan, Overflows) {
  build(2);
  match();
  for (uint64_t i = 1; i <= 5; ++i)
    iterate(*queue, i);
  EXPECT_GT(process->endpoint.overflow().overflowed(), 0u);
  EXPECT_GT(nic->whole, 0u);
  free_both();
  EXPECT_EQ(process->endpoint.unclosed(), 0u);
}

}  // namespace
}  // namespace lanyard
