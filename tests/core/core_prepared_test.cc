// Prepared plans: a request prepares its operations at the NIC once, at its first start, and
// releases them when freed.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/contract/model_fabric.h"
#include "tests/core/core_mail.h"
#include "tests/core/core_process.h"
#include "tests/core/manual_stream.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

// Counts calls, and allows only `left` more prepare() calls.
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

// A process that sends to itself in pieces.
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
    EXPECT_EQ(process.endpoint.unclosed(), 0u) << "a resource of the plan is still open";
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
