// The simulated libfabric provider through public libfabric only: the rules of fi_trigger(3), and
// regions, addresses, settings and late data under CXI's rules (nicsim/fi/README.md).
// tests/contract runs the NIC contract over the driver on it.
#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tests/nicsim/fi_harness.h"
#include "tests/support/sanitizers.h"

namespace lanyard {
namespace {

TEST(FiProvider, IsListed) {
  const Info info = get_info({});
  ASSERT_NE(info, nullptr);
  EXPECT_STREQ(info->fabric_attr->prov_name, "cxi");
  EXPECT_STREQ(info->domain_attr->name, "cxi0");
  EXPECT_EQ(info->ep_attr->type, FI_EP_RDM);
  EXPECT_EQ(info->ep_attr->max_msg_size, size_t{1} << 30);
  EXPECT_EQ(info->tx_attr->size, 1024u);
  EXPECT_EQ(info->domain_attr->mr_mode, FI_MR_ENDPOINT);
  EXPECT_EQ(info->caps & FI_RMA_EVENT, FI_RMA_EVENT);
}

TEST(FiProvider, OffersOnlySupportedFeatures) {
  EXPECT_EQ(get_info({.caps = FI_MSG}), nullptr);
  EXPECT_EQ(get_info({.caps = FI_RMA | FI_HMEM}), nullptr);
  EXPECT_EQ(get_info({.mr_mode = FI_MR_ALLOCATED}), nullptr);  // not bound to endpoints
  EXPECT_EQ(get_info({.tx_size = 4096}), nullptr);
  const Info ordered = hints_of({});
  ordered->tx_attr->msg_order = FI_ORDER_WAW;
  fi_info* info = nullptr;
  EXPECT_EQ(fi_getinfo(FI_VERSION(1, 15), nullptr, nullptr, 0, ordered.get(), &info), -FI_ENODATA);
}

// On each wire.
class FiTransfer : public testing::TestWithParam<const char*> {
 protected:
  FiTransfer() : wire_("LANYARD_SIM_WIRE", GetParam()), a_(std::make_unique<Node>()), b_(std::make_unique<Node>()) {
    introduce({a_.get(), b_.get()});
  }

  static constexpr fi_addr_t kA = 0, kB = 1;
  const Variable wire_;
  std::unique_ptr<Node> a_, b_;
};

INSTANTIATE_TEST_SUITE_P(Wires, FiTransfer, testing::Values("shm", "tcp"));

TEST_P(FiTransfer, ImmediateOperationsMakeEntries) {
  uint64_t from = 4, to = 0, operand = 6;
  int context = 0;
  const auto landed = b_->counter();
  const auto region = b_->region(&to, sizeof to, landed.get());
  const Remote there{kB, fi_mr_key(region.get())};
  const auto reported = [&](uint64_t flags) {
    fi_cq_msg_entry entry = {};
    EXPECT_TRUE(eventually([&] { return fi_cq_read(a_->cq.get(), &entry, 1) == 1; }));
    EXPECT_EQ(entry.op_context, &context);
    EXPECT_EQ(entry.flags, flags);
  };
  ASSERT_EQ(write_word(a_->ep.get(), &from, there, FI_COMPLETION | FI_DELIVERY_COMPLETE, &context), 0);
  reported(FI_RMA | FI_WRITE);
  EXPECT_EQ(to, 4u);
  fi_ioc word{&operand, 1};
  fi_rma_ioc place{0, 1, there.key};
  fi_msg_atomic atomic{&word, nullptr, 1, kB, &place, 1, FI_UINT64, FI_SUM, &context, 0};
  ASSERT_EQ(fi_atomicmsg(a_->ep.get(), &atomic, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
  reported(FI_ATOMIC | FI_WRITE);
  EXPECT_EQ(to, 10u);
  EXPECT_EQ(write_word(a_->ep.get(), &from, there, FI_FENCE), -FI_EINVAL);
  EXPECT_EQ(fi_read(a_->ep.get(), &from, 8, nullptr, kB, 0, there.key, nullptr), -FI_ENOSYS);
  // The queue is bound selectively: this write makes no entry.
  ASSERT_EQ(write_word(a_->ep.get(), &operand, there), 0);
  EXPECT_TRUE(eventually([&] { return successes(landed) == 3; }));
  EXPECT_EQ(to, 6u);
  EXPECT_TRUE(eventually([&] { return successes(a_->transfers) == 3; }));
  fi_cq_msg_entry entry;
  EXPECT_EQ(fi_cq_read(a_->cq.get(), &entry, 1), -FI_EAGAIN);
}

TEST_P(FiTransfer, FailedWorkIsReportedAndFiresItsChain) {
  uint64_t word = 1, done = 0;
  int context = 0;
  const auto trigger = a_->counter(), completion = a_->counter();
  const auto done_word = a_->region(&done, sizeof done);
  ASSERT_EQ(defer_atomic(*a_, {.operand = &word}, {kA, fi_mr_key(done_word.get())}, {completion.get(), 1}), 0);
  ASSERT_EQ(
      defer_write(*a_, &word, sizeof word, {kB, /*key=*/12345}, {trigger.get(), 0, completion.get()}, 0, &context), 0);
  fi_cq_msg_entry entry;
  EXPECT_TRUE(eventually([&] { return fi_cq_read(a_->cq.get(), &entry, 1) == -FI_EAVAIL; }));
  fi_cq_err_entry error = {};
  ASSERT_EQ(fi_cq_readerr(a_->cq.get(), &error, 0), 1);
  EXPECT_EQ(error.op_context, &context);
  EXPECT_EQ(error.err, FI_EIO);
  EXPECT_STREQ(fi_cq_strerror(a_->cq.get(), error.prov_errno, nullptr, nullptr, 0), "NotFound");
  EXPECT_EQ(fi_cq_readerr(a_->cq.get(), &error, 0), -FI_EAGAIN);
  EXPECT_EQ(failures(completion), 1u);
  EXPECT_EQ(successes(completion), 0u);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref<uint64_t>(done).load() == 1; }));
}

// Two endpoints of one domain reach each other like endpoints of two domains.
TEST(FiProvider, TwoEndpointsOfOneDomain) {
  Node node;
  const Owned<fid_ep> second = node.endpoint();
  std::vector<std::byte> names = Node::name_of(node.ep.get());
  const std::vector<std::byte> other = Node::name_of(second.get());
  names.insert(names.end(), other.begin(), other.end());
  ASSERT_EQ(fi_av_insert(node.av.get(), names.data(), 2, nullptr, 0, nullptr), 2);
  uint64_t word = 8, target = 0;
  const auto landed = node.counter();
  const auto region = node.region(&target, sizeof target, landed.get());
  ASSERT_EQ(write_word(second.get(), &word, {1, fi_mr_key(region.get())}), 0);
  EXPECT_TRUE(eventually([&] { return successes(landed) == 1; }));
  EXPECT_EQ(target, 8u);
}

// ---- Regions, addresses and settings

TEST(FiRegion, IsEnabledInOrder) {
  Loner node({.enable = false});
  uint64_t word = 0;
  const auto counter = node.counter();
  auto region = node.raw_region(&word, sizeof word);
  EXPECT_EQ(fi_mr_enable(region.get()), -FI_EINVAL);                  // not bound
  EXPECT_EQ(fi_mr_bind(region.get(), &node.ep->fid, 0), -FI_EINVAL);  // not enabled
  ASSERT_EQ(fi_enable(node.ep.get()), 0);
  ASSERT_EQ(fi_mr_bind(region.get(), &node.ep->fid, 0), 0);
  EXPECT_EQ(fi_mr_bind(region.get(), &node.ep->fid, 0), -FI_EINVAL);  // bound already
  EXPECT_EQ(fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_READ), -FI_EINVAL);
  ASSERT_EQ(fi_mr_enable(region.get()), 0);
  EXPECT_EQ(fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_WRITE), -FI_EINVAL);  // after fi_mr_enable()
  fid_ep* endpoint = node.ep.get();
  EXPECT_EQ(fi_close(&endpoint->fid), -FI_EBUSY);
}

TEST(FiRegion, CountsOnlyWithRemoteEvents) {
  Loner node({.caps = FI_RMA | FI_ATOMIC | FI_TRIGGER});
  uint64_t word = 0;
  const auto counter = node.counter();
  const auto region = node.raw_region(&word, sizeof word);
  ASSERT_EQ(fi_mr_bind(region.get(), &node.ep->fid, 0), 0);
  EXPECT_EQ(fi_mr_bind(region.get(), &counter->fid, FI_REMOTE_WRITE), -FI_EINVAL);
}

TEST(FiRegion, LocalOnlyMemoryIsNoTarget) {
  Loner node;
  uint64_t word = 1, target = 0;
  const auto trigger = node.counter(), completion = node.counter();
  fid_mr* local = nullptr;
  ASSERT_EQ(node.register_memory(&target, sizeof target, FI_WRITE, 7, &local), 0);
  const Owned<fid_mr> region(local);
  ASSERT_EQ(fi_mr_bind(local, &node.ep->fid, 0), 0);
  ASSERT_EQ(fi_mr_enable(local), 0);
  ASSERT_EQ(defer_write(node, &word, 8, {0, fi_mr_key(local)}, {trigger.get(), 0, completion.get()}), 0);
  EXPECT_TRUE(eventually([&] { return failures(completion) == 1; }));
  EXPECT_EQ(target, 0u);
}

TEST(FiRegion, UsersChooseKeys) {
  Loner node;
  uint64_t word = 6, target = 0;
  const auto trigger = node.counter(), landed = node.counter();
  constexpr uint64_t kKey = UINT32_MAX - 5;
  EXPECT_EQ(node.info->domain_attr->mr_key_size, 4u);
  auto region = node.region(&target, sizeof target, landed.get(), kKey);
  EXPECT_EQ(fi_mr_key(region.get()), kKey);
  ASSERT_EQ(defer_write(node, &word, 8, {0, kKey}, {trigger.get(), 0}), 0);
  EXPECT_TRUE(eventually([&] { return successes(landed) == 1; }));
  EXPECT_EQ(target, 6u);
  const auto second = node.raw_region(&word, sizeof word, kKey);
  ASSERT_EQ(fi_mr_bind(second.get(), &node.ep->fid, 0), 0);
  EXPECT_EQ(fi_mr_enable(second.get()), -FI_EADDRINUSE);
  region.reset();
  EXPECT_EQ(fi_mr_enable(second.get()), 0);
  fid_mr* large = nullptr;
  EXPECT_EQ(node.register_memory(&word, 8, FI_REMOTE_WRITE, uint64_t{1} << 40, &large), -FI_EINVAL);
}

TEST(FiAddresses, AreCompleteOnceUsed) {
  Node a, b, c;
  introduce({&a, &b});
  introduce({&c});
  const std::vector<std::byte> late = Node::name_of(c.ep.get());
  fi_addr_t place = 0;
  EXPECT_EQ(fi_av_insert(a.av.get(), late.data(), 1, &place, 0, nullptr), 0);
  EXPECT_EQ(place, FI_ADDR_NOTAVAIL);
  // A node without its own address can do nothing.
  Node d;
  ASSERT_EQ(fi_av_insert(d.av.get(), late.data(), 1, &place, 0, nullptr), 1);
  uint64_t word = 0;
  EXPECT_EQ(write_word(d.ep.get(), &word, {place, 1}), -FI_EOPBADSTATE);
}

TEST(FiSettings, WrongValuesOpenNoDomain) {
  const Info info = get_info({});
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"LANYARD_FI_DWQ_DEPTH", "0"},
                                                                  {"LANYARD_FI_CNTR_READ", "often"},
                                                                  {"LANYARD_FI_POOL", "deep"},
                                                                  {"LANYARD_FI_MMIO", "yes"},
                                                                  {"LANYARD_FI_TIES", ""},
                                                                  {"LANYARD_FI_VISIBILITY", "never"},
                                                                  {"LANYARD_SIM_WIRE", "string"}}) {
    const Variable wrong(name, value);
    EXPECT_EQ(get_info({}), nullptr) << name;
    fid_fabric* fabric = nullptr;
    ASSERT_EQ(fi_fabric(info->fabric_attr, &fabric, nullptr), 0);
    const Owned<fid_fabric> owned(fabric);
    fid_domain* domain = nullptr;
    EXPECT_EQ(fi_domain(fabric, info.get(), &domain, nullptr), -FI_EINVAL) << name;
  }
}

// ---- LANYARD_FI_VISIBILITY=late: data arrives after its count

constexpr int kRounds = 200;
constexpr size_t kBytes = 4096;

// Sends message after message between two nodes and reads each as soon as it is counted.
class Pair {
 public:
  explicit Pair(const char* visibility) : setting_("LANYARD_FI_VISIBILITY", visibility) { introduce({&from_, &to_}); }

  // Returns in how many rounds old bytes were seen after counted() was true.
  template <typename Counted>
  int stale_rounds(uint64_t flags, Counted counted) {
    int stale = 0;
    for (int round = 1; round <= kRounds; ++round) {
      std::fill(source_.begin(), source_.end(), static_cast<unsigned char>(round));
      EXPECT_EQ(defer_write(from_, source_.data(), kBytes, {1, fi_mr_key(region_.get())},
                            {trigger_.get(), 0, written_.get()}, flags),
                0);
      const auto wanted = static_cast<uint64_t>(round);
      // Without a sleep, in which the data could arrive.
      EXPECT_TRUE(eventually([&] { return successes(counted(*this)) == wanted; }, std::this_thread::yield));
      stale += !is_whole(round);
      EXPECT_TRUE(eventually([&] { return is_whole(round); })) << "the data of round " << round << " never arrives";
      EXPECT_TRUE(eventually([&] { return successes(written_) == wanted && successes(landed_) == wanted; }));
      fi_cq_msg_entry entry;
      fi_cq_read(from_.cq.get(), &entry, 1);
    }
    return stale;
  }

  static const Owned<fid_cntr>& landed(const Pair& pair) { return pair.landed_; }
  static const Owned<fid_cntr>& written(const Pair& pair) { return pair.written_; }

 private:
  bool is_whole(int round) const {
    const volatile unsigned char* bytes = target_.data();
    for (size_t i = 0; i < kBytes; ++i)
      if (bytes[i] != static_cast<unsigned char>(round))
        return false;
    return true;
  }

  const Variable setting_;
  std::vector<unsigned char> source_ = std::vector<unsigned char>(kBytes);
  std::vector<unsigned char> target_ = std::vector<unsigned char>(kBytes);
  Node from_, to_;
  Owned<fid_cntr> trigger_ = from_.counter(), written_ = from_.counter(), landed_ = to_.counter();
  Owned<fid_mr> region_ = to_.region(target_.data(), kBytes, landed_.get());
};

TEST(FiVisibility, OrderedIsNeverStale) { EXPECT_EQ(Pair("ordered").stale_rounds(0, Pair::landed), 0); }

// The test reads bytes while the provider writes them: that race is its purpose.
struct FiLateData : ::testing::Test {
  void SetUp() override {
#ifdef LANYARD_THREAD_SANITIZER
    GTEST_SKIP() << "the test reads bytes while the provider writes them";
#endif
  }
};

TEST_F(FiLateData, IsStaleWhereTheTargetCounts) { EXPECT_GT(Pair("late").stale_rounds(0, Pair::landed), kRounds / 4); }

TEST_F(FiLateData, IsStaleAfterATransmitCompletion) {
  EXPECT_GT(Pair("late").stale_rounds(FI_TRANSMIT_COMPLETE, Pair::written), 0);
}

TEST(FiVisibility, DeliveryIsNeverStale) {
  EXPECT_EQ(Pair("late").stale_rounds(FI_DELIVERY_COMPLETE, Pair::written), 0);
}

// Closing a region waits for all counted data; nothing writes there afterwards.
TEST(FiVisibility, AClosedRegionIsNotWritten) {
  const Variable setting("LANYARD_FI_VISIBILITY", "late");
  Node from, to;
  introduce({&from, &to});
  const auto trigger = from.counter(), landed = to.counter();
  uint64_t word = 7;
  for (int round = 0; round < 50; ++round) {
    uint64_t target = 0;
    auto region = to.region(&target, sizeof target, landed.get());
    ASSERT_EQ(defer_write(from, &word, sizeof word, {1, fi_mr_key(region.get())}, {trigger.get(), 0}), 0);
    const auto wanted = static_cast<uint64_t>(round + 1);
    ASSERT_TRUE(eventually([&] { return successes(landed) == wanted; }));
    region.reset();
    EXPECT_EQ(target, 7u) << "counted data is missing after the region has closed";
    fi_cq_msg_entry entry;
    fi_cq_read(from.cq.get(), &entry, 1);
  }
}

}  // namespace
}  // namespace lanyard
