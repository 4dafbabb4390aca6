// The simulated libfabric provider, driven through public libfabric alone: that it is found, and
// that data, counters and chains do what fi_trigger(3) says. The rules that are CXI's own stand in
// the files beside this one.
#include <array>
#include <cstdio>
#include <cstring>

#include "tests/fi_harness.h"
#include "tests/sanitizers.h"

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
  EXPECT_EQ(info->domain_attr->mr_mode, FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
  EXPECT_EQ(info->caps & FI_RMA_EVENT, FI_RMA_EVENT);
}

// Programs look at the card's place on the bus without asking whether there is one.
TEST(FiProvider, DescribesItsCard) {
  const Info info = get_info({});
  ASSERT_NE(info, nullptr);
  const Info copy(fi_dupinfo(info.get()));
  ASSERT_NE(copy, nullptr);
  EXPECT_NE(copy->nic, info->nic);
  for (const fi_info* one : {info.get(), copy.get()}) {
    ASSERT_NE(one->nic, nullptr);
    ASSERT_NE(one->nic->bus_attr, nullptr);
    EXPECT_EQ(one->nic->bus_attr->bus_type, FI_BUS_UNKNOWN);
    EXPECT_STREQ(one->nic->device_attr->name, "cxi0");
    EXPECT_EQ(one->nic->link_attr->state, FI_LINK_UP);
  }
  EXPECT_NE(fi_tostr(info.get(), FI_TYPE_INFO), nullptr);
}

TEST(FiProvider, OffersNothingThatItCannotDo) {
  EXPECT_EQ(get_info({.caps = FI_MSG}), nullptr);
  EXPECT_EQ(get_info({.caps = FI_RMA | FI_HMEM}), nullptr);
  EXPECT_EQ(get_info({.mr_mode = FI_MR_PROV_KEY}), nullptr);  // not bound to endpoints
  EXPECT_EQ(get_info({.tx_size = 4096}), nullptr);
  const Info ordered = hints_of({});
  ordered->tx_attr->msg_order = FI_ORDER_RAW;
  fi_info* info = nullptr;
  EXPECT_EQ(fi_getinfo(FI_VERSION(1, 15), nullptr, nullptr, 0, ordered.get(), &info), -FI_ENODATA);
}

TEST(FiProvider, IsListedByFiInfo) {
#if defined(LANYARD_ADDRESS_SANITIZER) || defined(LANYARD_THREAD_SANITIZER)
  GTEST_SKIP() << "fi_info is not instrumented, so it cannot load an instrumented provider";
#endif
  use_provider();
  std::FILE* pipe = ::popen("PATH=$PATH:/usr/bin fi_info -p cxi 2>/dev/null", "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 256> line;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr)
    output += line.data();
  const int status = ::pclose(pipe);
  if (status == 127 << 8)
    GTEST_SKIP() << "no fi_info here (Debian: libfabric-bin)";
  EXPECT_EQ(status, 0);
  EXPECT_NE(output.find("provider: cxi"), std::string::npos) << output;
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

// MPIs keep no more for a name.
TEST_P(FiTransfer, NamesAreShort) { EXPECT_LE(Node::name_of(a_->ep.get()).size(), size_t{FI_NAME_MAX}); }

TEST_P(FiTransfer, DeferredWriteWaitsForItsTriggerAndIsCountedAtBothEnds) {
  for (size_t bytes = 1; bytes <= size_t{1} << 20; bytes *= 32) {
    std::vector<uint8_t> from(bytes, 7), to(bytes + 8);
    const auto trigger = a_->counter(), completion = a_->counter(), landed = b_->counter();
    const auto region = b_->region(to.data(), to.size(), landed.get());
    ASSERT_EQ(
        defer_write(*a_, from.data(), bytes, {kB, fi_mr_key(region.get()), 8}, {trigger.get(), 3, completion.get()}),
        0);
    ASSERT_EQ(fi_cntr_add(trigger.get(), 2), 0);
    breathe();
    EXPECT_EQ(successes(completion), 0u);
    EXPECT_EQ(successes(landed), 0u);
    std::memset(from.data(), 9, bytes);  // payloads are read when the work fires
    ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
    EXPECT_TRUE(eventually([&] { return successes(completion) == 1; }));
    EXPECT_EQ(successes(landed), 1u);
    EXPECT_EQ(to[7], 0);
    EXPECT_EQ(std::vector<uint8_t>(to.begin() + 8, to.end()), from);
    EXPECT_EQ(failures(completion), 0u);
  }
}

TEST_P(FiTransfer, MetConditionFiresAtOnce) {
  uint64_t from = 5, to = 0;
  const auto trigger = a_->counter(), landed = b_->counter();
  const auto region = b_->region(&to, sizeof to, landed.get());
  ASSERT_EQ(fi_cntr_add(trigger.get(), 10), 0);
  ASSERT_EQ(defer_write(*a_, &from, sizeof from, {kB, fi_mr_key(region.get())}, {trigger.get(), 4}), 0);
  EXPECT_TRUE(eventually([&] { return successes(landed) == 1; }));
  EXPECT_EQ(to, 5u);
}

TEST_P(FiTransfer, EmptyWriteIsCounted) {
  uint64_t word = 1;
  const auto trigger = a_->counter(), landed = b_->counter();
  const auto region = b_->region(&word, sizeof word, landed.get());
  ASSERT_EQ(defer_write(*a_, nullptr, 0, {kB, fi_mr_key(region.get())}, {trigger.get(), 0}), 0);
  EXPECT_TRUE(eventually([&] { return successes(landed) == 1; }));
  EXPECT_EQ(word, 1u);
}

TEST_P(FiTransfer, ChainOfThreeHops) {
  // A write at A, its completion fires an atomic to A itself, whose completion fires an addition to
  // a counter, which fires another atomic.
  uint64_t data = 3, one = 1;
  uint64_t there = 0, done = 0, after = 0;
  const auto trigger = a_->counter(), written = a_->counter(), marked = a_->counter(), last = a_->counter();
  const auto target = b_->region(&there, sizeof there);
  const auto done_word = a_->region(&done, sizeof done), after_word = a_->region(&after, sizeof after);
  ASSERT_EQ(defer_atomic(*a_, {.operand = &one}, {kA, fi_mr_key(after_word.get())}, {last.get(), 5}), 0);
  ASSERT_EQ(defer_counter(*a_, FI_OP_CNTR_ADD, last.get(), 5, {marked.get(), 1}), 0);
  ASSERT_EQ(defer_atomic(*a_, {.operand = &one}, {kA, fi_mr_key(done_word.get())}, {written.get(), 1, marked.get()}),
            0);
  ASSERT_EQ(defer_write(*a_, &data, sizeof data, {kB, fi_mr_key(target.get())}, {trigger.get(), 1, written.get()}), 0);
  breathe();
  EXPECT_EQ(successes(written) + successes(marked) + successes(last), 0u);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref<uint64_t>(after).load() == 1; }));
  EXPECT_EQ(there, 3u);
  EXPECT_EQ(std::atomic_ref<uint64_t>(done).load(), 1u);
  EXPECT_EQ(successes(last), 5u);
}

TEST_P(FiTransfer, ClearToSendByEvenThresholds) {
  // The sender's trigger counts its own starts and the receiver's clear-to-sends, which land in a
  // region bound to it.
  constexpr uint64_t kRounds = 50;
  uint64_t out = 0, in = 0, zero = 0, clear = 0;
  const auto trigger = a_->counter(), landed = b_->counter(), start = b_->counter();
  const auto clear_word = a_->region(&clear, sizeof clear, trigger.get());
  const auto target = b_->region(&in, sizeof in, landed.get());
  for (uint64_t i = 1; i <= kRounds; ++i) {
    ASSERT_EQ(defer_write(*a_, &out, sizeof out, {kB, fi_mr_key(target.get())}, {trigger.get(), 2 * i}), 0);
    ASSERT_EQ(defer_atomic(*b_, {.operand = &zero}, {kA, fi_mr_key(clear_word.get())}, {start.get(), i}), 0);
    std::atomic_ref<uint64_t>(out).store(i);
    ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
    if (i == 1) {
      breathe();
      EXPECT_EQ(successes(landed), 0u);
    }
    ASSERT_EQ(fi_cntr_add(start.get(), 1), 0);
    ASSERT_TRUE(eventually([&] { return successes(landed) == i; })) << i;
    ASSERT_EQ(std::atomic_ref<uint64_t>(in).load(), i);
    // Whoever holds slots gets them back by reading the queue.
    EXPECT_EQ(fi_cq_read(a_->cq.get(), nullptr, 0), -FI_EAGAIN);
    EXPECT_EQ(fi_cq_read(b_->cq.get(), nullptr, 0), -FI_EAGAIN);
  }
  EXPECT_EQ(successes(trigger), 2 * kRounds);
}

TEST_P(FiTransfer, EveryAtomic) {
  uint64_t word = 10, operand = 5, old = 0, expected = 99;
  const auto trigger = a_->counter(), completion = a_->counter();
  const auto region = b_->region(&word, sizeof word);
  const Remote there{kB, fi_mr_key(region.get())};
  const When now{trigger.get(), 0, completion.get()};
  uint64_t completed = 0;
  const auto done = [&] {
    ++completed;
    return eventually([&] { return successes(completion) == completed; });
  };
  ASSERT_EQ(defer_atomic(*a_, {.operand = &operand}, there, now), 0);
  ASSERT_TRUE(done());
  EXPECT_EQ(word, 15u);
  ASSERT_EQ(defer_atomic(*a_, {.op = FI_ATOMIC_WRITE, .operand = &operand}, there, now), 0);
  ASSERT_TRUE(done());
  EXPECT_EQ(word, 5u);
  ASSERT_EQ(defer_atomic(*a_, {.operand = &operand, .result = &old}, there, now), 0);
  ASSERT_TRUE(done());
  EXPECT_EQ(word, 10u);
  EXPECT_EQ(old, 5u);
  const AtomicWork swap{.op = FI_CSWAP, .operand = &operand, .result = &old, .compare = &expected};
  ASSERT_EQ(defer_atomic(*a_, swap, there, now), 0);
  ASSERT_TRUE(done());
  EXPECT_EQ(word, 10u);
  EXPECT_EQ(old, 10u);
  expected = 10;
  ASSERT_EQ(defer_atomic(*a_, swap, there, now), 0);
  ASSERT_TRUE(done());
  EXPECT_EQ(word, 5u);
  EXPECT_EQ(defer_atomic(*a_, {.op = FI_PROD, .operand = &operand}, there, now), -FI_EOPNOTSUPP);
  EXPECT_EQ(defer_atomic(*a_, {.operand = &operand, .type = FI_UINT32}, there, now), -FI_EOPNOTSUPP);
}

TEST_P(FiTransfer, CounterWork) {
  const auto trigger = a_->counter(), target = a_->counter(), completion = a_->counter();
  ASSERT_EQ(defer_counter(*a_, FI_OP_CNTR_ADD, target.get(), 7, {trigger.get(), 1}), 0);
  ASSERT_EQ(defer_counter(*a_, FI_OP_CNTR_SET, target.get(), 2, {trigger.get(), 2}), 0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return successes(target) == 7; }));
  ASSERT_EQ(fi_cntr_adderr(target.get(), 3), 0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return successes(target) == 2; }));
  EXPECT_EQ(failures(target), 3u);
  EXPECT_EQ(defer_counter(*a_, FI_OP_CNTR_ADD, target.get(), 1, {trigger.get(), 0, completion.get()}), -FI_EINVAL);
  EXPECT_EQ(defer_counter(*a_, FI_OP_CNTR_ADD, target.get(), uint64_t{1} << 48, {trigger.get(), 0}), -FI_EINVAL);
}

TEST_P(FiTransfer, LowerThresholdsFireFirst) {
  uint64_t two = 2, one = 1, word = 0;
  const auto trigger = a_->counter(), completion = a_->counter();
  const auto region = a_->region(&word, sizeof word);
  const Remote here{kA, fi_mr_key(region.get())};
  ASSERT_EQ(defer_atomic(*a_, {.op = FI_ATOMIC_WRITE, .operand = &two}, here, {trigger.get(), 2, completion.get()}), 0);
  ASSERT_EQ(defer_atomic(*a_, {.op = FI_ATOMIC_WRITE, .operand = &one}, here, {trigger.get(), 1, completion.get()}), 0);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 2), 0);
  EXPECT_TRUE(eventually([&] { return successes(completion) == 2; }));
  EXPECT_EQ(word, 2u);
}

TEST_P(FiTransfer, ImmediateOperationsMakeEntries) {
  uint64_t from = 4, to = 0, operand = 6, old = 0;
  int context = 0;
  const auto landed = b_->counter();
  const auto region = b_->region(&to, sizeof to, landed.get());
  const uint64_t key = fi_mr_key(region.get());
  const auto reported = [&](uint64_t flags) {
    fi_cq_msg_entry entry = {};
    EXPECT_TRUE(eventually([&] { return fi_cq_read(a_->cq.get(), &entry, 1) == 1; }));
    EXPECT_EQ(entry.op_context, &context);
    EXPECT_EQ(entry.flags, flags);
  };
  iovec piece{&from, sizeof from};
  fi_rma_iov target{0, sizeof from, key};
  fi_msg_rma message{&piece, nullptr, 1, kB, &target, 1, &context, 0};
  ASSERT_EQ(fi_writemsg(a_->ep.get(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
  reported(FI_RMA | FI_WRITE);
  EXPECT_EQ(to, 4u);
  fi_ioc word{&operand, 1}, result{&old, 1};
  fi_rma_ioc place{0, 1, key};
  fi_msg_atomic atomic{&word, nullptr, 1, kB, &place, 1, FI_UINT64, FI_SUM, &context, 0};
  ASSERT_EQ(fi_fetch_atomicmsg(a_->ep.get(), &atomic, &result, nullptr, 1, FI_COMPLETION), 0);
  reported(FI_ATOMIC | FI_READ);
  EXPECT_EQ(old, 4u);
  EXPECT_EQ(to, 10u);
  EXPECT_EQ(fi_writemsg(a_->ep.get(), &message, FI_FENCE), -FI_EINVAL);
  EXPECT_EQ(fi_read(a_->ep.get(), &old, 8, nullptr, kB, 0, key, nullptr), -FI_ENOSYS);
  // The queue was bound selectively: this one says nothing.
  ASSERT_EQ(fi_write(a_->ep.get(), &operand, 8, nullptr, kB, 0, key, nullptr), 0);
  EXPECT_TRUE(eventually([&] { return successes(landed) == 3; }));
  EXPECT_EQ(to, 6u);
  breathe();
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
  // The first failure writes the counter back by itself: no read comes before this one.
  EXPECT_EQ(fi_cntr_readerr(completion.get()), 1u);
  EXPECT_EQ(successes(completion), 0u);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref<uint64_t>(done).load() == 1; }));
}

TEST_P(FiTransfer, WriteAfterTheRegionIsClosedFails) {
  uint64_t word = 1, target = 0;
  const auto trigger = a_->counter(), completion = a_->counter();
  auto region = b_->region(&target, sizeof target);
  const uint64_t key = fi_mr_key(region.get());
  ASSERT_EQ(defer_write(*a_, &word, sizeof word, {kB, key}, {trigger.get(), 1, completion.get()}), 0);
  region.reset();
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return failures(completion) == 1; }));
  EXPECT_EQ(target, 0u);
  fi_cq_err_entry error = {};
  EXPECT_EQ(fi_cq_readerr(a_->cq.get(), &error, 0), 1);
}

TEST_P(FiTransfer, SlotsAndEntriesAreUsedAgain) {
  constexpr uint64_t kOps = 20'000;
  uint64_t one = 1, sum = 0;
  const auto trigger = a_->counter(), completion = a_->counter();
  const auto region = b_->region(&sum, sizeof sum);
  const Remote there{kB, fi_mr_key(region.get())};
  for (uint64_t i = 1; i <= kOps; ++i) {
    ASSERT_TRUE(eventually([&] {
      const int error = defer_atomic(*a_, {.operand = &one}, there, {trigger.get(), i, completion.get()});
      if (error == -FI_EAGAIN)
        fi_cq_read(a_->cq.get(), nullptr, 0);
      EXPECT_TRUE(error == 0 || error == -FI_EAGAIN) << fi_strerror(-error);
      return error == 0;
    }));
    ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  }
  EXPECT_TRUE(eventually([&] { return successes(completion) == kOps; }));
  EXPECT_EQ(sum, kOps);
}

// Two endpoints of one domain reach each other as those of two domains do.
TEST(FiProvider, TwoEndpointsOfOneDomain) {
  Node node;
  const Owned<fid_ep> second = node.endpoint();
  std::vector<std::byte> names = Node::name_of(node.ep.get());
  const std::vector<std::byte> other = Node::name_of(second.get());
  EXPECT_NE(names, other);
  names.insert(names.end(), other.begin(), other.end());
  ASSERT_EQ(fi_av_insert(node.av.get(), names.data(), 2, nullptr, 0, nullptr), 2);
  uint64_t word = 8, target = 0;
  const auto landed = node.counter();
  const auto region = node.region(&target, sizeof target, landed.get());
  ASSERT_EQ(fi_write(second.get(), &word, sizeof word, nullptr, 0, 0, fi_mr_key(region.get()), nullptr), 0);
  EXPECT_TRUE(eventually([&] { return successes(landed) == 1; }));
  EXPECT_EQ(target, 8u);
  std::vector<std::byte> found(names.size());
  size_t bytes = found.size();
  ASSERT_EQ(fi_av_lookup(node.av.get(), 1, found.data(), &bytes), 0);
  found.resize(bytes);
  EXPECT_EQ(found, other);
}

}  // namespace
}  // namespace lanyard
