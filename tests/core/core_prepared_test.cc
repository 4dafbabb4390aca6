// Prepared plans: what a request posts is handed to the NIC once, before its first start, and given back with it.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/core/core_mail.h"
#include "tests/core/core_process.h"
#include "tests/core/manual_stream.h"
#include "tests/contract/model_fabric.h"
#include "transport/nic/forwarding_nic.h"

namespace lanyard {
namespace {

// Counts, and prepares no more than `left`.
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

// A process that sends to itself, in pieces.
class PreparedPlan : public ::testing::Test {
 protected:
  PreparedPlan() {
    while (mail.under_way() > 0)
      process.matcher.progress();
  }
  void iterate(uint64_t seed) {
    fill(*send, seed);
    clear(*receive);
    ASSERT_TRUE(works(queue->start(both)));
    ASSERT_TRUE(works(queue->wait(both)));
    do
      fabric.quiesce();
    while (!stream.poll());
    EXPECT_TRUE(holds(*receive, seed));
  }
  void free_both() {
    ASSERT_TRUE(works(process.endpoint.free_request(send)));
    ASSERT_TRUE(works(process.endpoint.free_request(receive)));
    EXPECT_EQ(nic.released, plans);
    EXPECT_EQ(process.endpoint.unclosed(), 0u) << "what it named could be closed";
  }

  ModelFabric fabric{1, {.max_message_bytes = 16}};
  CountingNic nic{fabric.nic(0)};
  Mail mail{1};
  Process process{nic, 0, mail, {.overflow_thread = false}};
  ManualStream stream;
  std::unique_ptr<core::Queue> queue = std::move(core::Queue::create(process.endpoint, stream).value());
  Request* receive = &process.receive(0, 7, 40);
  Request* send = &process.send(0, 7, 40);
  Request* const both[2] = {receive, send};
  const uint64_t plans = 3 + 1 + 2;  // three writes, the send's done word; the receive's, and its clear-to-send
};

TEST_F(PreparedPlan, IsHandedOverAtTheFirstStart) {
  EXPECT_EQ(nic.prepared, 0u);
  for (uint64_t i = 1; i <= 5; ++i) {
    iterate(i);
    EXPECT_EQ(nic.prepared, plans);
    ASSERT_EQ(nic.posted.size(), i * plans);
    EXPECT_EQ(nic.posted.back().start, i);
  }
  EXPECT_EQ(nic.whole, 0u) << "nothing is handed over whole where there is room";
  EXPECT_EQ(nic.released, 0u);
  free_both();
}

// A start that cannot be prepared is none, and may be repeated; what has been handed over by then has been.
TEST_F(PreparedPlan, WhatTheNicDoesNotTakeIsNotStarted) {
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
