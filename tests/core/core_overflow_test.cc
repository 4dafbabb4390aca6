// Overflow: more operations than the NIC has entries, run step by step.
#include "transport/core/overflow.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/core/core_manual_job.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using core::Overflow;
using nic::CounterId;
using nic::DeferredOp;

// Records what the overflow posts and issues, and counts its reads of counters.
struct WatchedNic final : nic::ForwardingNic {
  using ForwardingNic::ForwardingNic;
  Result<nic::CounterValue> read(CounterId counter) override {
    ++reads;
    return inner().read(counter);
  }
  Status post(std::span<const DeferredOp> ops) override {
    Status status = inner().post(ops);
    if (status.ok())
      for (const DeferredOp& op : ops)
        posted.push_back(op.op.context);
    return status;
  }
  Result<nic::PreparedId> prepare(const nic::Op& op) override {
    Result<nic::PreparedId> id = inner().prepare(op);
    if (id.ok())
      contexts[{id.value().index, id.value().generation}] = op.context;
    return id;
  }
  Status post_prepared(std::span<const nic::Posting> postings) override {
    Status status = inner().post_prepared(postings);
    if (status.ok())
      for (const nic::Posting& posting : postings)
        posted.push_back(contexts.at({posting.prepared.index, posting.prepared.generation}));
    return status;
  }
  Status issue(const nic::Op& op) override {
    Status status = inner().issue(op);
    if (status.ok())
      issued.push_back(op.context);
    return status;
  }
  uint64_t reads = 0;
  std::vector<uint64_t> posted, issued;  // operations, by context
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> contexts;
};

class OverflowTest : public ::testing::Test {
 protected:
  void build(uint32_t depth) {
    fabric = std::make_unique<ModelFabric>(1, nicsim::ModelLimits{.deferred_depth = depth});
    nic = std::make_unique<WatchedNic>(fabric->nic(0));
    overflow = std::make_unique<Overflow>(*nic, false);
    log = nic->open_counter().value();
    region = nic->register_region(nullptr, 0).value();
  }
  CounterId counter() { return nic->open_counter().value(); }
  // An operation that adds 1 to `log` when it runs.
  DeferredOp when(CounterId trigger, uint64_t threshold, uint64_t name) {
    DeferredOp op{.op = {}, .trigger = trigger, .threshold = threshold};
    op.op.local = {region};
    op.op.remote = {.peer = 0, .key = nic->key(region).value()};
    op.op.completion = log;
    op.op.context = name;
    return op;
  }
  void ring(CounterId trigger, uint64_t value) { ASSERT_TRUE(works(nic->add(trigger, value))); }
  uint64_t ran() { return fabric->nic(0).read(log).value().success; }
  // Drains until nothing more moves.
  void drain() {
    for (int fruitless = 0; fruitless < 64;) {
      const size_t moved = overflow->drain() + fabric->quiesce();
      fruitless = moved > 0 || overflow->empty() ? (overflow->empty() ? 64 : 0) : fruitless + 1;
    }
  }

  std::unique_ptr<ModelFabric> fabric;
  std::unique_ptr<WatchedNic> nic;
  std::unique_ptr<Overflow> overflow;
  CounterId log;
  nic::RegionId region;  // of no bytes
};

TEST_F(OverflowTest, EntriesAreFilledInOrder) {
  build(2);
  const CounterId trigger = counter();
  std::vector<DeferredOp> ops;
  for (uint64_t i = 1; i <= 6; ++i)
    ops.push_back(when(trigger, i, i));
  EXPECT_TRUE(overflow->empty());
  EXPECT_EQ(overflow->drain(), 0u);
  overflow->add(std::span(ops).first(4));
  overflow->add(std::span(ops).subspan(4));
  EXPECT_FALSE(overflow->empty());
  EXPECT_EQ(overflow->overflowed(), 6u);
  EXPECT_EQ(overflow->drain(), 2u);
  drain();
  EXPECT_EQ(nic->posted, (std::vector<uint64_t>{1, 2})) << "the NIC has two entries";
  EXPECT_EQ(ran(), 0u);
  for (uint64_t i = 1; i <= 6; ++i) {
    ring(trigger, 1);
    drain();
    EXPECT_EQ(ran(), i);
  }
  EXPECT_EQ(nic->posted, (std::vector<uint64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(overflow->by_software(), 0u);
  EXPECT_EQ(overflow->overflowed(), 6u);
  EXPECT_TRUE(overflow->empty());
}

// Entries that never fire block nothing: operations that are due run without an entry,
// others do not.
TEST_F(OverflowTest, DueOperationsRunWithoutAnEntry) {
  build(1);
  const CounterId stuck = counter();
  const CounterId a = counter();
  const CounterId b = counter();
  const DeferredOp ops[] = {when(stuck, 1, 1), when(a, 1, 2), when(b, 2, 3),
                            when(a, 2, 4),     when(b, 1, 5), when(stuck, 2, 6)};
  overflow->add(ops);
  ring(a, 1);
  drain();
  EXPECT_EQ(nic->issued, (std::vector<uint64_t>{2}));
  ring(b, 1);
  drain();
  EXPECT_EQ(nic->issued, (std::vector<uint64_t>{2, 5}));
  // A failure counts like a success (N1), and a counter may exceed the threshold.
  ASSERT_TRUE(works(nic->add_error(b, 1)));
  ring(a, 5);
  drain();
  EXPECT_EQ(overflow->by_software(), 4u);
  EXPECT_EQ(ran(), 4u);
  EXPECT_EQ(nic->posted, (std::vector<uint64_t>{1}));
  EXPECT_FALSE(overflow->empty());
  ring(stuck, 2);
  drain();
  EXPECT_TRUE(overflow->empty());
  EXPECT_EQ(ran(), 6u);
  EXPECT_EQ(nic->posted.size() + nic->issued.size(), 6u) << "each operation must run once";
}

TEST_F(OverflowTest, AFullNicIsTriedAgain) {
  fabric = std::make_unique<ModelFabric>(1, nicsim::ModelLimits{.deferred_depth = 1, .max_in_flight = 1});
  nic = std::make_unique<WatchedNic>(fabric->nic(0));
  overflow = std::make_unique<Overflow>(*nic, false);
  uint64_t words[2] = {1, 0};
  const nic::RegionId region = nic->register_region(words, sizeof words).value();
  const CounterId stuck = counter();
  const CounterId trigger = counter();
  nic::Op sum;
  sum.kind = nic::OpKind::kAtomic;
  sum.local = {region, 0};
  sum.remote = {0, nic->key(region).value(), 8};
  std::vector<DeferredOp> ops = {{.op = sum, .trigger = stuck, .threshold = 1}};
  ops.resize(10, {.op = sum, .trigger = trigger, .threshold = 1});
  overflow->add(ops);
  ring(trigger, 1);
  drain();
  EXPECT_EQ(words[1], 9u) << "not all operations ran";
  EXPECT_EQ(overflow->by_software(), 9u);
}

// Like the NIC's entries (N2), in whatever order they were added.
TEST_F(OverflowTest, OfOneTriggerLowerThresholdsRunFirst) {
  build(1);
  const CounterId trigger = counter();
  ASSERT_TRUE(works(nic->post(std::vector{when(counter(), 1, 9)})));  // takes the entry
  overflow->add(std::vector{when(trigger, 3, 5), when(trigger, 2, 3), when(trigger, 1, 1)});
  overflow->add(std::vector{when(trigger, 1, 2), when(trigger, 2, 4), when(trigger, 4, 6)});
  ring(trigger, 3);
  drain();
  EXPECT_EQ(nic->issued, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
}

TEST_F(OverflowTest, RunAndCancelledOperationsLeaveTheOthersInOrder) {
  build(1);
  const CounterId stuck = counter(), a = counter(), b = counter();
  overflow->add(std::vector{when(stuck, 1, 1), when(stuck, 2, 2), when(a, 1, 3), when(b, 1, 4), when(a, 2, 5),
                            when(stuck, 2, 6), when(b, 1, 7), when(a, 1, 8), when(a, 2, 4)});
  drain();
  EXPECT_EQ(nic->posted, (std::vector<uint64_t>{1}));
  ring(a, 1);
  drain();
  EXPECT_EQ(nic->issued, (std::vector<uint64_t>{3, 8}));
  overflow->cancel(4);
  ring(stuck, 2);
  fabric->quiesce();
  drain();
  EXPECT_EQ(nic->posted, (std::vector<uint64_t>{1, 2, 5})) << "the entry goes to the next operations in turn";
  EXPECT_EQ(nic->issued, (std::vector<uint64_t>{3, 8, 6}));
  ring(a, 1);
  fabric->quiesce();
  drain();
  EXPECT_EQ(nic->posted, (std::vector<uint64_t>{1, 2, 5, 7}));
  ring(b, 1);
  fabric->quiesce();
  EXPECT_TRUE(overflow->empty());
  EXPECT_EQ(ran(), 7u) << "all but the two cancelled operations must run";
}

// One queue holds the entry and half of the waiting operations. Those of the other queue fire
// one at a time.
TEST_F(OverflowTest, OnlyTheFirstOfEachTriggerIsChecked) {
  constexpr uint64_t kOps = 4'000;
  build(1);
  const CounterId one = counter(), other = counter();
  std::vector<DeferredOp> ops;
  for (const CounterId trigger : {one, other})
    for (uint64_t i = 1; i <= kOps; ++i)
      ops.push_back(when(trigger, i, i));
  overflow->add(ops);
  (void)overflow->drain();
  constexpr int kPatience = 16;
  for (uint64_t i = 1; i <= kOps; ++i) {
    ring(other, 1);
    for (int call = 0; call < kPatience; ++call)
      (void)overflow->drain();
    ASSERT_EQ(nic->issued.size(), i) << "a due operation must run within " << kPatience << " calls";
    fabric->quiesce();
  }
  EXPECT_LE(nic->reads, 2 * kOps + 2) << "more than the two triggers were read";
  EXPECT_EQ(nic->posted, (std::vector<uint64_t>{1}));
  EXPECT_EQ(ran(), kOps);
}

struct OverflowOrder : ::testing::Test, Alone<WatchedNic> {
  OverflowOrder() : Alone({.deferred_depth = 3}) {}
};

// A start queues behind the overflow even if entries have become free.
TEST_F(OverflowOrder, NothingOvertakesTheOverflow) {
  std::vector<Request*> requests;
  for (int tag = 0; tag < 3; ++tag) {
    requests.push_back(&process.receive(0, tag, 8));
    requests.push_back(&process.send(0, tag, 8));
  }
  match();
  const auto start = [&](size_t i) { ASSERT_TRUE(works(queue->start(std::span(requests).subspan(i, 1)))); };
  start(0);
  start(1);  // one of its two operations does not fit
  EXPECT_EQ(process.endpoint.overflow().overflowed(), 1u);
  stream.poll();
  fabric.quiesce();
  EXPECT_GT(nic.free_entries(), 0u);
  start(2);
  EXPECT_EQ(process.endpoint.overflow().overflowed(), 3u);
  while (!process.endpoint.overflow().empty() || fabric.under_way() > 0) {
    process.endpoint.overflow().drain();
    stream.poll();
    fabric.quiesce();
    if (nic.posted.size() + nic.issued.size() == 6)
      break;
  }
  const uint64_t a = requests[0]->number, b = requests[1]->number, c = requests[2]->number;
  EXPECT_EQ(nic.posted, (std::vector<uint64_t>{a, a, b, b, c, c}));
  start(3);
  stream.poll();
  while (!process.endpoint.overflow().empty()) {
    process.endpoint.overflow().drain();
    fabric.quiesce();
  }
  fabric.quiesce();
  EXPECT_TRUE(queue->settled());
}

}  // namespace
}  // namespace lanyard
