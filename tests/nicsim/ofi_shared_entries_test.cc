// One pool of deferred-work entries for several processes: the driver while another process holds
// all entries. That process runs this program again with kHolder set. fi_shared_pool_test.cc
// tests the pool.
#include <memory>
#include <string>
#include <utility>

#include "tests/support/child_process.h"
#include "tests/nicsim/fi_harness.h"
#include "transport/cxi/ofi_nic.h"

namespace lanyard {
namespace {

constexpr const char* kHolder = "LANYARD_TEST_HOLDS";
constexpr int kDepth = 12;
constexpr uint64_t kNever = 1000;

// Takes `entries` entries, reports how many it has got, and releases them when its input ends.
int hold(int entries) {
  Loner node;
  uint64_t word = 0, target = 0;
  const auto trigger = node.counter();
  const auto region = node.region(&target, sizeof target);
  unsigned char got = 0;
  for (int i = 0; i < entries; ++i)
    got += defer_write(node, &word, 8, {0, fi_mr_key(region.get())}, {trigger.get(), kNever}) == 0;
  if (!write_all(STDOUT_FILENO, &got, 1))
    return 1;
  wait_for_end_of_input();
  return node.flush() == 0 ? 0 : 1;
}

class Holder : public ChildProcess {
 public:
  explicit Holder(int entries) : ChildProcess(kHolder, std::to_string(entries)) {
    unsigned char got = 0;
    EXPECT_TRUE(hear(&got, 1));
    EXPECT_EQ(got, entries);
  }
};

// Sets the environment of both processes.
class OfiSharedEntries : public ::testing::TestWithParam<const char*> {
 protected:
  OfiSharedEntries()
      : depth_("LANYARD_FI_SHARED_DEPTH", std::to_string(kDepth)),
        job_("LANYARD_FI_JOB", "test-" + std::to_string(::getpid())),
        pool_("LANYARD_FI_POOL", GetParam()) {
    use_provider();
  }
  bool stalls() const { return std::string(GetParam()) == "stall"; }

 private:
  const Variable depth_, job_, pool_;
};

// A driver that sends to itself.
struct DriverAlone {
  DriverAlone() {
    Result<std::unique_ptr<ofi::OfiNic>> opened = ofi::OfiNic::open({});
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    nic = std::move(opened.value());
    const nic::Address self = nic->address();
    EXPECT_TRUE(nic->set_peers({&self, 1}, 0).ok());
    trigger = nic->open_counter().value();
    done = nic->open_counter().value();
    one_region = nic->register_region(&one, sizeof one, {}).value();
    target_key = nic->key(nic->register_region(&target, sizeof target, {}).value()).value();
  }
  Status post(uint64_t threshold) {
    nic::DeferredOp op;
    op.op.kind = nic::OpKind::kAtomic;
    op.op.local = {one_region, 0};
    op.op.remote = {0, target_key, 0};
    op.op.completion = done;
    op.trigger = trigger;
    op.threshold = threshold;
    return nic->post({&op, 1});
  }
  bool counts(uint64_t wanted) {
    return eventually([&] {
      nic->progress();
      return nic->read(done).value() == nic::CounterValue{wanted, 0};
    });
  }

  uint64_t one = 1, target = 0;
  std::unique_ptr<ofi::OfiNic> nic;
  nic::CounterId trigger, done;
  nic::RegionId one_region;
  nic::RemoteKey target_key;
};

// While another process holds all entries, no work is lost. If the provider refuses work that is
// due, the driver runs it without an entry.
TEST_P(OfiSharedEntries, TheDriverWorksWithoutEntries) {
  DriverAlone mine;
  EXPECT_EQ(mine.nic->caps().deferred_depth, static_cast<uint32_t>(kDepth));
  Holder other(kDepth);
  for (uint64_t i = 1; i <= 4; ++i)
    ASSERT_TRUE(mine.post(i).ok());
  ASSERT_TRUE(mine.nic->add(mine.trigger, 2).ok());
  if (stalls()) {
    breathe();
    EXPECT_EQ(mine.nic->read(mine.done).value().reached(), 0u);
  } else {
    EXPECT_TRUE(mine.counts(2));
  }
  other.die();
  EXPECT_TRUE(mine.counts(2));
  ASSERT_TRUE(mine.nic->add(mine.trigger, 2).ok());
  EXPECT_TRUE(mine.counts(4));
  EXPECT_EQ(mine.nic->free_entries(), static_cast<uint32_t>(kDepth));
  EXPECT_EQ(mine.nic->failures(), 0u);
}

// The driver uses all entries; another process gets them afterwards.
TEST_P(OfiSharedEntries, TheDriverReturnsItsEntries) {
  DriverAlone mine;
  for (int i = 0; i < kDepth; ++i)
    ASSERT_TRUE(mine.post(1).ok());
  EXPECT_EQ(mine.post(1).code(), Code::kAgain);
  ASSERT_TRUE(mine.nic->add(mine.trigger, 1).ok());
  EXPECT_TRUE(mine.counts(kDepth));
  Holder other(kDepth);
}

INSTANTIATE_TEST_SUITE_P(Pool, OfiSharedEntries, ::testing::Values("stall", "enospc"),
                         [](const auto& info) { return std::string(info.param); });

const ChildRole kHolderRole(kHolder, [](const char* entries) { return hold(std::atoi(entries)); });

}  // namespace
}  // namespace lanyard
