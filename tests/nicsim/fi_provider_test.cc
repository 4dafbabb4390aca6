// The simulated libfabric provider through public libfabric only: the rules of
// fi_trigger(3). The other fi_* files test CXI's own rules; tests/contract runs the NIC
// contract over the driver on it.
#include "tests/nicsim/fi_harness.h"

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

TEST_P(FiTransfer, EveryAtomic) {
  uint64_t word = 10, operand = 5;
  const auto trigger = a_->counter(), completion = a_->counter();
  const auto region = b_->region(&word, sizeof word);
  const Remote there{kB, fi_mr_key(region.get())};
  const When now{trigger.get(), 0, completion.get()};
  struct {
    AtomicWork work;
    uint64_t word;  // expected afterwards
  } const steps[] = {
      {{.operand = &operand}, 15},
      {{.op = FI_ATOMIC_WRITE, .operand = &operand}, 5},
  };
  uint64_t completed = 0;
  for (const auto& step : steps) {
    ASSERT_EQ(defer_atomic(*a_, step.work, there, now), 0);
    ++completed;
    ASSERT_TRUE(eventually([&] { return successes(completion) == completed; }));
    EXPECT_EQ(word, step.word) << completed;
  }
  EXPECT_EQ(defer_atomic(*a_, {.op = FI_PROD, .operand = &operand}, there, now), -FI_EOPNOTSUPP);
  EXPECT_EQ(defer_atomic(*a_, {.operand = &operand, .type = FI_UINT32}, there, now), -FI_EOPNOTSUPP);
}

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

}  // namespace
}  // namespace lanyard
