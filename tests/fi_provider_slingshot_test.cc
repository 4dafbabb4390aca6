// Where the simulated provider was once more lenient, or stricter, than HPE's: each test names the function of the CXI
// provider that its rule was read from (prov/cxi/src of libfabric 1.22, and of 2.6 where that differs).
#include <array>
#include <atomic>

#include "tests/fi_harness.h"

namespace lanyard {
namespace {

// Keys of regions are the user's.
constexpr int kUserKeys = FI_MR_ENDPOINT | FI_MR_ALLOCATED;

ssize_t write_to(Node& node, const Remote& remote, uint64_t flags, const void* from) {
  iovec piece{const_cast<void*>(from), sizeof(uint64_t)};
  fi_rma_iov target{remote.offset, sizeof(uint64_t), remote.key};
  fi_msg_rma message{&piece, nullptr, 1, remote.to, &target, 1, nullptr, 0};
  return fi_writemsg(node.ep.get(), &message, flags);
}

ssize_t fetch_from(Node& node, const Remote& remote, uint64_t flags, uint64_t* operand, uint64_t* old) {
  fi_ioc word{operand, 1}, result{old, 1};
  fi_rma_ioc place{remote.offset, 1, remote.key};
  fi_msg_atomic message{&word, nullptr, 1, remote.to, &place, 1, FI_UINT64, FI_SUM, nullptr, 0};
  return fi_fetch_atomicmsg(node.ep.get(), &message, &result, nullptr, 1, flags);
}

// The error of the next entry, which is one.
int next_error(Node& node) {
  fi_cq_err_entry entry = {};
  EXPECT_TRUE(eventually([&] { return fi_cq_readerr(node.cq.get(), &entry, 0) == 1; }));
  return entry.err;
}

Owned<fid_mr> region_with(Node& node, void* base, size_t bytes, uint64_t access, uint64_t key = 0) {
  fid_mr* made = nullptr;
  EXPECT_EQ(fi_mr_reg(node.domain.get(), base, bytes, access, 0, key, 0, &made, nullptr), 0);
  Owned<fid_mr> region(made);
  EXPECT_EQ(fi_mr_bind(made, &node.ep->fid, 0), 0);
  EXPECT_EQ(fi_mr_enable(made), 0);
  return region;
}

int find(const Info& hints) {
  fi_info* info = nullptr;
  const int error = fi_getinfo(FI_VERSION(1, 15), nullptr, nullptr, 0, hints.get(), &info);
  fi_freeinfo(info);
  return error;
}

// ---- Deferred work

// cxip_dom.c: cxip_dom_dwq_op_rma(), ..._atomic(), ..._fetch_atomic(), ..._comp_atomic()
TEST(FiSlingshot, DeferredWorkIsReportedOnlyWhereItAsks) {
  Loner node({.selective = false});
  uint64_t one = 1, sum = 0, old = 0, expected = 0;
  const auto trigger = node.counter(), done = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  const Remote here{0, fi_mr_key(region.get())};
  const When now{trigger.get(), 0, done.get()};
  const AtomicWork swap{.op = FI_CSWAP, .operand = &one, .result = &old, .compare = &expected};
  for (const uint64_t flags : {uint64_t{0}, uint64_t{FI_TRANSMIT_COMPLETE}, uint64_t{FI_COMPLETION}}) {
    ASSERT_EQ(defer_write(node, &one, 8, here, now, flags), 0);
    ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, now, flags), 0);
    ASSERT_EQ(defer_atomic(node, {.operand = &one, .result = &old}, here, now, flags), 0);
    ASSERT_EQ(defer_atomic(node, swap, here, now, flags), 0);
  }
  ASSERT_TRUE(eventually([&] { return successes(done) == 12; }));
  std::array<fi_cq_msg_entry, 12> entries;
  EXPECT_EQ(fi_cq_read(node.cq.get(), entries.data(), entries.size()), 4);
}

// cxip_dom.c: cxip_domain_dwq_emit_amo(), whose test for room is the wrong way round, in every version.
TEST(FiSlingshot, DeferredFetchingIsNeverDelivered) {
  Loner node;
  uint64_t one = 1, sum = 0, old = 0, counted = 0;
  const auto trigger = node.counter(), landed = node.counter();
  const auto region = node.region(&sum, sizeof sum), counting = node.region(&counted, sizeof counted, landed.get());
  for (const uint64_t flag : {uint64_t{FI_DELIVERY_COMPLETE}, uint64_t{FI_MATCH_COMPLETE}}) {
    EXPECT_EQ(
        defer_atomic(node, {.operand = &one, .result = &old}, {0, fi_mr_key(region.get())}, {trigger.get(), 0}, flag),
        -FI_EAGAIN);
    // cxip_atomic.c: cxip_amo_emit_dma(), cxip_amo_emit_idc()
    const Remote there{0, fi_mr_key(counting.get())};
    EXPECT_EQ(defer_atomic(node, {.operand = &one, .result = &old}, there, {trigger.get(), 0}, flag), -FI_EINVAL);
    EXPECT_EQ(fetch_from(node, there, flag, &one, &old), -FI_EINVAL);
    EXPECT_EQ(fetch_from(node, {0, fi_mr_key(region.get())}, flag, &one, &old), 0);
  }
  EXPECT_EQ(fetch_from(node, {0, fi_mr_key(counting.get())}, 0, &one, &old), 0);
  EXPECT_TRUE(eventually([&] { return successes(landed) == 1; }));
  EXPECT_EQ(node.flush(), 0);
}

// A user's key does not say whether its region counts: whoever asked for FI_RMA_EVENT is refused (cxip_mr.c:
// cxip_generic_is_mr_key_events()).
TEST(FiSlingshot, UsersKeysCountByTheEndpointsCapability) {
  uint64_t one = 1, sum = 0, old = 0;
  for (const uint64_t events : {uint64_t{0}, uint64_t{FI_RMA_EVENT}}) {
    Loner node({.caps = FI_RMA | FI_ATOMIC | FI_TRIGGER | events, .mr_mode = kUserKeys});
    const auto region = node.region(&sum, sizeof sum, nullptr, 7);
    EXPECT_EQ(fetch_from(node, {0, 7}, FI_DELIVERY_COMPLETE, &one, &old), events != 0 ? -FI_EINVAL : 0);
    EXPECT_EQ(node.flush(), 0);
  }
}

// cxip_dom.c: cxip_dom_dwq_op_rma(), which a write that is not deferred does not share.
TEST(FiSlingshot, DeferredWritesNameTheirPiece) {
  Loner node;
  uint64_t word = 0;
  const auto trigger = node.counter();
  const auto region = node.region(&word, sizeof word);
  fi_rma_iov target{0, 0, fi_mr_key(region.get())};
  fi_op_rma op = {};
  op.ep = node.ep.get();
  op.msg.rma_iov = &target;
  op.msg.rma_iov_count = 1;
  fi_deferred_work work = work_of({trigger.get(), 0}, FI_OP_WRITE);
  work.op.rma = &op;
  EXPECT_EQ(node.queue(work), -FI_EINVAL);
  EXPECT_EQ(fi_writemsg(node.ep.get(), &op.msg, 0), 0);
  EXPECT_EQ(node.flush(), 0);
}

// cxip_dom.c: cxip_domain_dwq_emit_validate()
TEST(FiSlingshot, DeferredWorkIsOfItsDomainsTrafficClass) {
  uint64_t word = 1, target = 0;
  for (const auto& [traffic_class, allowed] : std::initializer_list<std::pair<uint32_t, bool>>{
           {FI_TC_UNSPEC, true}, {FI_TC_BEST_EFFORT, true}, {FI_TC_SCAVENGER, true}, {FI_TC_LOW_LATENCY, false}}) {
    Node node;
    node.info->tx_attr->tclass = traffic_class;
    node.ep = node.endpoint();
    introduce({&node});
    const auto trigger = node.counter();
    const auto region = node.region(&target, sizeof target);
    const Remote here{0, fi_mr_key(region.get())};
    EXPECT_EQ(defer_write(node, &word, 8, here, {trigger.get(), 0}), allowed ? 0 : -FI_EINVAL) << traffic_class;
    EXPECT_EQ(fi_write(node.ep.get(), &word, 8, nullptr, 0, 0, here.key, nullptr), 0);
    EXPECT_EQ(node.flush(), 0);
  }
  Node node;
  node.info->domain_attr->tclass = 77;
  fid_domain* domain = nullptr;
  EXPECT_EQ(fi_domain(node.fabric.get(), node.info.get(), &domain, nullptr), -FI_EINVAL);
}

// The same function, by way of cxip_rma.c: cxip_rma_common(): until 2.0 an unordered write is of another type than the
// command queue of deferred work.
TEST(FiSlingshot, UnorderedDeferredWritesCameWith2) {
  uint64_t word = 1, target = 0;
  for (const auto& [like, allowed] :
       std::initializer_list<std::pair<const char*, bool>>{{"1.15", false}, {"1.22", false}, {"2.x", true}}) {
    const Variable setting("LANYARD_FI_LIKE", like);
    Node node({.caps = FI_RMA | FI_TRIGGER, .mr_mode = kUserKeys});
    node.info->tx_attr->msg_order = 0;
    node.ep = node.endpoint();
    introduce({&node});
    const auto trigger = node.counter();
    const auto optimized = node.region(&target, sizeof target, nullptr, 99);
    const auto standard = node.region(&target, sizeof target, nullptr, 100);
    EXPECT_EQ(defer_write(node, &word, 8, {0, 99}, {trigger.get(), 0}), allowed ? 0 : -FI_EINVAL) << like;
    EXPECT_EQ(defer_write(node, &word, 8, {0, 100}, {trigger.get(), 0}), 0) << like;
    EXPECT_EQ(fi_write(node.ep.get(), &word, 8, nullptr, 0, 0, 99, nullptr), 0) << like;
    EXPECT_EQ(node.flush(), 0);
  }
}

// cxip_dom.c: cxip_dom_dwq_queue_work() and cxip_dom_dwq_op_atomic() ask for no capability; fi_atomic() does.
TEST(FiSlingshot, DeferredWorkNeedsNoCapability) {
  Loner node({.caps = FI_RMA});
  uint64_t one = 1, sum = 0;
  const auto trigger = node.counter(), done = node.counter();
  const auto region = node.region(&sum, sizeof sum);
  const Remote here{0, fi_mr_key(region.get())};
  ASSERT_EQ(defer_atomic(node, {.operand = &one}, here, {trigger.get(), 1, done.get()}), 0);
  ASSERT_EQ(defer_write(node, &one, 8, here, {trigger.get(), 1, done.get()}), 0);
  EXPECT_EQ(fi_atomic(node.ep.get(), &one, 1, nullptr, 0, 0, here.key, FI_UINT64, FI_SUM, nullptr), -FI_ENOSYS);
  ASSERT_EQ(fi_cntr_add(trigger.get(), 1), 0);
  EXPECT_TRUE(eventually([&] { return successes(done) == 2; }));
}

// ---- Regions

// cxip_mr.c: cxip_mr_domain_insert()
TEST(FiSlingshot, UsersKeysAreClaimedAtRegistration) {
  Loner node({.mr_mode = kUserKeys});
  uint64_t word = 0;
  fid_mr* region = nullptr;
  const auto reg = [&](uint64_t access, uint64_t key) {
    return fi_mr_reg(node.domain.get(), &word, sizeof word, access, 0, key, 0, &region, nullptr);
  };
  auto first = node.raw_region(&word, sizeof word, 5);
  EXPECT_EQ(reg(FI_REMOTE_WRITE, 5), -FI_ENOKEY);
  EXPECT_EQ(reg(FI_REMOTE_READ, uint64_t{1} << 32), -FI_EKEYREJECTED);
  // What others do not reach has no key, and takes none away (cxip_regattr(), cxip_mr_enable()).
  for (const uint64_t key : {uint64_t{5}, ~uint64_t{0}}) {
    ASSERT_EQ(reg(FI_READ | FI_WRITE, key), 0);
    const Owned<fid_mr> local(region);
    ASSERT_EQ(fi_mr_bind(region, &node.ep->fid, 0), 0);
    ASSERT_EQ(fi_mr_enable(region), 0);
    EXPECT_EQ(fi_mr_key(region), FI_KEY_NOTAVAIL);
  }
  first.reset();
  ASSERT_EQ(reg(FI_REMOTE_WRITE, 5), 0);
  const Owned<fid_mr> again(region);
  EXPECT_EQ(fi_mr_key(region), 5u);
}

// cxip_mr.c: cxip_mr_enable_std(); cxip_mr_prov_cache_enable_std(), which enables one registration for all.
TEST(FiSlingshot, WritesNeedTheRightUnlessKeysAreCached) {
  uint64_t one = 1, word = 0;
  const auto written = [&](Node& node, const Owned<fid_mr>& region) {
    const uint64_t key = fi_mr_key(region.get());
    EXPECT_EQ(write_to(node, {0, key}, FI_COMPLETION | FI_DELIVERY_COMPLETE, &one), 0);
    fi_cq_msg_entry entry;
    ssize_t result = -FI_EAGAIN;
    EXPECT_TRUE(eventually([&] { return (result = fi_cq_read(node.cq.get(), &entry, 1)) != -FI_EAGAIN; }));
    if (result == -FI_EAVAIL) {
      EXPECT_EQ(next_error(node), FI_EIO);
    }
    return result == 1;
  };
  {
    Loner node({.mr_mode = kUserKeys});
    EXPECT_FALSE(written(node, region_with(node, &word, sizeof word, FI_REMOTE_READ, 3)));
    EXPECT_TRUE(written(node, region_with(node, &word, sizeof word, FI_REMOTE_WRITE, 3)));
  }
  {
    Loner node;
    EXPECT_TRUE(written(node, region_with(node, &word, sizeof word, FI_REMOTE_READ)));
  }
  const Variable setting("FI_CXI_PROV_KEY_CACHE", "0");
  Loner node;
  EXPECT_FALSE(written(node, region_with(node, &word, sizeof word, FI_REMOTE_READ)));
}

// cxip_rma.c: cxip_rma_common(), cxip_atomic.c: cxip_amo_common()
TEST(FiSlingshot, KeysThatCannotBeAreRejected) {
  Loner node;
  uint64_t word = 0, old = 0;
  const auto trigger = node.counter();
  const Remote nowhere{0, uint64_t{1} << 40};
  EXPECT_EQ(write_to(node, nowhere, 0, &word), -FI_EKEYREJECTED);
  EXPECT_EQ(fetch_from(node, nowhere, 0, &word, &old), -FI_EKEYREJECTED);
  EXPECT_EQ(defer_write(node, &word, 8, nowhere, {trigger.get(), 0}), -FI_EKEYREJECTED);
}

// cxip_mr.c: cxip_mr_bind(), cxip_regattr()
TEST(FiSlingshot, RegionsTakeMoreFlags) {
  Loner node, plain({.caps = FI_RMA});
  uint64_t word = 0;
  const auto landed = node.counter();
  fid_mr* region = nullptr;
  EXPECT_EQ(fi_mr_reg(node.domain.get(), &word, 8, FI_REMOTE_WRITE, 0, 0, FI_DIRECTED_RECV, &region, nullptr),
            -FI_EINVAL);
  ASSERT_EQ(fi_mr_reg(node.domain.get(), &word, 8, FI_REMOTE_WRITE, 3, 0, FI_COLLECTIVE, &region, nullptr), 0);
  const Owned<fid_mr> one(region);
  EXPECT_EQ(fi_mr_bind(region, &node.ep->fid, 0), 0);
  EXPECT_EQ(fi_mr_bind(region, &landed->fid, FI_REMOTE_READ), -FI_EINVAL);
  EXPECT_EQ(fi_mr_bind(region, &landed->fid, FI_REMOTE_WRITE | FI_REMOTE_READ), 0);
  EXPECT_EQ(fi_mr_enable(region), 0);
  ASSERT_EQ(fi_mr_reg(plain.domain.get(), &word, 8, FI_REMOTE_WRITE, 0, 0, FI_RMA_EVENT, &region, nullptr), 0);
  const Owned<fid_mr> other(region);
  EXPECT_EQ(fi_mr_bind(region, &plain.ep->fid, 0), -FI_EINVAL);
}

// ---- Counters

struct OpenedCounter {
  int error = 0;
  Owned<fid_cntr> counter;
};
OpenedCounter counter_with(Node& node, fi_wait_obj wait, uint64_t flags = 0, int events = FI_CNTR_EVENTS_COMP) {
  fi_cntr_attr attributes = {};
  attributes.wait_obj = wait;
  attributes.flags = flags;
  attributes.events = static_cast<fi_cntr_events>(events);
  fid_cntr* made = nullptr;
  const int error = fi_cntr_open(node.domain.get(), &attributes, &made, nullptr);
  return {error, Owned<fid_cntr>(error == 0 ? made : nullptr)};
}

// cxip_cntr.c: cxip_cntr_wait(), cxip_cntr_verify_attr()
TEST(FiSlingshot, CountersAreWaitedForWhereThatWasAskedFor) {
  Loner node;
  for (const fi_wait_obj wait : {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_YIELD}) {
    const OpenedCounter opened = counter_with(node, wait);
    ASSERT_EQ(opened.error, 0) << wait;
    fid_cntr* const counter = opened.counter.get();
    ASSERT_EQ(fi_cntr_add(counter, 1), 0);
    EXPECT_EQ(fi_cntr_wait(counter, 1, -1), wait == FI_WAIT_NONE ? -FI_EINVAL : 0) << wait;
    EXPECT_EQ(fi_cntr_wait(counter, kMaxSuccess + 1, 0), -FI_EINVAL) << wait;
  }
  EXPECT_EQ(counter_with(node, FI_WAIT_FD).error, -FI_ENOSYS);
  EXPECT_EQ(counter_with(node, FI_WAIT_UNSPEC, 0, /*bytes=*/1).error, 0);
  EXPECT_EQ(counter_with(node, FI_WAIT_UNSPEC, 0, 2).error, -FI_ENOSYS);
}

// cxip_cntr.c of 2.6: cxip_cntr_read_wb(), cxip_cntr_verify_attr()
TEST(FiSlingshot, Version2ReadsWhatIsNewUnlessACounterIsCached) {
  constexpr uint64_t kCached = uint64_t{1} << 32;
  {
    Loner node;
    EXPECT_EQ(counter_with(node, FI_WAIT_UNSPEC, kCached).error, -FI_ENOSYS);
  }
  const Variable like("LANYARD_FI_LIKE", "2.x");
  Loner node;
  const OpenedCounter fresh = counter_with(node, FI_WAIT_UNSPEC), cached = counter_with(node, FI_WAIT_UNSPEC, kCached);
  EXPECT_EQ(counter_with(node, FI_WAIT_UNSPEC, 1).error, -FI_ENOSYS);
  for (const OpenedCounter* opened : {&fresh, &cached}) {
    ASSERT_EQ(fi_cntr_add(opened->counter.get(), 5), 0);
    EXPECT_EQ(fi_cntr_read(opened->counter.get()), opened == &fresh ? 5u : 0u);
    EXPECT_EQ(fi_cntr_read(opened->counter.get()), 5u);
  }
}

// cxip_cntr.c: cxip_cntr_progress()
TEST(FiSlingshot, ReadingABoundCounterReadsItsEndpointsEvents) {
  Node node({.tx_size = 2, .enable = false});
  const auto writes = node.counter(), other = node.counter();
  ASSERT_EQ(fi_ep_bind(node.ep.get(), &writes->fid, FI_WRITE), 0);
  ASSERT_EQ(fi_enable(node.ep.get()), 0);
  introduce({&node});
  uint64_t one = 1, sum = 0;
  {
    const auto trigger = node.counter();
    const auto region = node.region(&sum, sizeof sum);
    const auto defer = [&] {
      return defer_atomic(node, {.operand = &one}, {0, fi_mr_key(region.get())}, {trigger.get(), 0, other.get()});
    };
    ASSERT_EQ(defer(), 0);
    ASSERT_EQ(defer(), 0);
    ASSERT_TRUE(eventually([&] { return successes(other) == 2; }));
    EXPECT_EQ(defer(), -FI_EAGAIN);
    fi_cntr_read(writes.get());
    EXPECT_EQ(defer(), 0);
    EXPECT_TRUE(eventually([&] { return successes(other) == 3; }));
  }
  node.ep.reset();  // before its counter
}

// ---- Endpoints and what is offered

// cxip_ep.c: cxip_ep_bind_cntr()
TEST(FiSlingshot, EndpointsTakeOneCounterADirectionAtAnyTime) {
  Loner node;
  uint64_t word = 1, target = 0;
  const auto writes = node.counter(), other = node.counter();
  {
    const auto region = node.region(&target, sizeof target);
    ASSERT_EQ(fi_ep_bind(node.ep.get(), &writes->fid, FI_WRITE), 0);  // after fi_enable()
    EXPECT_EQ(fi_ep_bind(node.ep.get(), &other->fid, FI_WRITE), -FI_EINVAL);
    EXPECT_EQ(fi_ep_bind(node.ep.get(), &other->fid, FI_WRITE | FI_READ), -FI_EINVAL);
    EXPECT_EQ(fi_ep_bind(node.ep.get(), &other->fid, FI_READ), 0);
    EXPECT_EQ(fi_write(node.ep.get(), &word, 8, nullptr, 0, 0, fi_mr_key(region.get()), nullptr), 0);
    EXPECT_TRUE(eventually([&] { return successes(writes) == 1; }));
  }
  node.ep.reset();  // before its counters
}

// cxip_info.c: cxip_infos, cxip_getinfo(); libfabric's prov/util/src/util_attr.c
TEST(FiSlingshot, IsOfferedAsHpeOffersIt) {
  EXPECT_EQ(find(hints_of({.mr_mode = FI_MR_ENDPOINT | FI_MR_PROV_KEY})), -FI_ENODATA);
  EXPECT_EQ(find(hints_of({.mr_mode = FI_MR_ENDPOINT})), 0);
  Info hints = hints_of({});
  hints->domain_attr->cntr_cnt = 17;
  EXPECT_EQ(find(hints), -FI_ENODATA);
  hints = hints_of({});
  hints->rx_attr->size = size_t{1} << 30;
  EXPECT_EQ(find(hints), -FI_ENODATA);
  hints = hints_of({});
  hints->tx_attr->msg_order = FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAW;
  EXPECT_EQ(find(hints), 0);
  const Info info = get_info({});
  EXPECT_EQ(info->domain_attr->cntr_cnt, 16u);
  EXPECT_NE(info->tx_attr->msg_order & FI_ORDER_RMA_WAW, 0u);
  EXPECT_EQ(info->tx_attr->tclass, uint32_t{FI_TC_UNSPEC});
}

TEST(FiSlingshot, DeviceMemoryMayBeAskedForAnywhere) {
  const Variable setting("LANYARD_FI_HMEM", "accepted");
  const Info hints = hints_of({.caps = FI_RMA | FI_HMEM});
  hints->tx_attr->caps = hints->rx_attr->caps = FI_RMA | FI_HMEM;
  EXPECT_EQ(find(hints), 0);
}

// cxip_nic.c: cxip_nic_alloc()
TEST(FiSlingshot, DescribesACard) {
  const Info info = get_info({});
  ASSERT_NE(info->nic, nullptr);
  EXPECT_STREQ(info->nic->device_attr->name, "cxi0");
  EXPECT_EQ(info->nic->link_attr->state, FI_LINK_UP);
  const Info copy(fi_dupinfo(info.get()));
  EXPECT_STREQ(copy->nic->link_attr->network_type, info->nic->link_attr->network_type);
}

// cxip_dom.c: cxip_dom_control(), cxip_domain_enable_optimized_mrs()
TEST(FiSlingshot, DomainsHaveSwitches) {
  constexpr int kFirst = -(0xccc << 16) + 3;
  Loner node, users({.mr_mode = kUserKeys});
  for (int number = 0; number < 3; ++number) {
    bool value = number != 0;
    const int set = kFirst + 2 * number;
    bool told = !value;
    EXPECT_EQ(fi_control(&node.domain->fid, set + 1, &told), 0);
    EXPECT_EQ(told, value) << "the default of switch " << number;
    value = !value;
    EXPECT_EQ(fi_control(&node.domain->fid, set, &value), 0);
    EXPECT_EQ(fi_control(&node.domain->fid, set + 1, &told), 0);
    EXPECT_EQ(told, value);
    EXPECT_EQ(fi_control(&users.domain->fid, set, &value), number == 0 ? 0 : -FI_EINVAL);
  }
  EXPECT_EQ(fi_control(&node.domain->fid, kFirst, nullptr), -FI_EINVAL);
  fi_av_attr attributes = {};
  attributes.flags = FI_SYMMETRIC;  // cxip_av.c: cxip_av_open()
  fid_av* vector = nullptr;
  ASSERT_EQ(fi_av_open(node.domain.get(), &attributes, &vector, nullptr), 0);
  EXPECT_EQ(fi_close(&vector->fid), 0);
}

// ---- Immediate operations

// cxip.h: cxip_txq_ring()
TEST(FiSlingshot, MoreHoldsBackUntilACallWithout) {
  Loner node;
  uint64_t one = 1, sum = 0;
  {
    const auto landed = node.counter();
    const auto region = node.region(&sum, sizeof sum, landed.get());
    const Remote here{0, fi_mr_key(region.get())};
    for (int i = 0; i < 3; ++i)
      ASSERT_EQ(write_to(node, here, FI_MORE | FI_COMPLETION, &one), 0);
    breathe();
    EXPECT_EQ(successes(landed), 0u);
    fi_cq_msg_entry entry;
    EXPECT_EQ(fi_cq_read(node.cq.get(), &entry, 1), -FI_EAGAIN);
    ASSERT_EQ(fi_atomic(node.ep.get(), &one, 1, nullptr, 0, 0, here.key, FI_UINT64, FI_SUM, nullptr), 0);
    EXPECT_TRUE(eventually([&] { return successes(landed) == 4; }));
    EXPECT_EQ(std::atomic_ref<uint64_t>(sum).load(), 2u);
    ASSERT_EQ(write_to(node, here, FI_MORE, &one), 0);
  }
  node.ep.reset();  // what was held back is forgotten
}

// cxip_rma.c: cxip_rma_is_idc(), cxip_atomic.c: cxip_amo_is_idc(), cxip_txc.c: cxip_txc_can_emit_op()
TEST(FiSlingshot, SmallOperationsThatNobodyHearsOfHoldNoSlot) {
  Loner node({.mr_mode = kUserKeys, .tx_size = 2});
  uint64_t one = 1, sum = 0;
  const auto landed = node.counter();
  const auto optimized = node.region(&sum, sizeof sum, landed.get(), 1);
  const auto standard = node.region(&sum, sizeof sum, landed.get(), 1000);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(write_to(node, {0, 1}, 0, &one), 0);
    ASSERT_EQ(fi_atomic(node.ep.get(), &one, 1, nullptr, 0, 0, 1, FI_UINT64, FI_SUM, nullptr), 0);
  }
  EXPECT_TRUE(eventually([&] { return successes(landed) == 20; }));
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(write_to(node, {0, 1000}, 0, &one), 0);
  EXPECT_EQ(write_to(node, {0, 1000}, 0, &one), -FI_EAGAIN);
  EXPECT_EQ(write_to(node, {0, 1}, FI_COMPLETION, &one), -FI_EAGAIN);
  EXPECT_EQ(write_to(node, {0, 1}, 0, &one), 0);
  EXPECT_TRUE(eventually([&] { return successes(landed) == 23; }));
}

// cxip_atomic.c: cxip_amo_common(), _cxip_atomic_opcode(); cxip_dom.c: cxip_query_atomic()
TEST(FiSlingshot, AtomicsThatCannotBeAreInvalid) {
  Loner node;
  uint64_t one = 1, sum = 0, old = 0;
  const auto region = node.region(&sum, sizeof sum);
  const uint64_t key = fi_mr_key(region.get());
  const auto atomic = [&](const void* operand, size_t count, int type, int op) {
    return fi_atomic(node.ep.get(), operand, count, nullptr, 0, 0, key, static_cast<fi_datatype>(type),
                     static_cast<fi_op>(op), nullptr);
  };
  EXPECT_EQ(atomic(&one, 1, FI_UINT64, FI_ATOMIC_OP_LAST), -FI_EINVAL);
  EXPECT_EQ(atomic(&one, 1, FI_UINT64, -1), -FI_EINVAL);
  EXPECT_EQ(atomic(&one, 1, FI_DATATYPE_LAST, FI_SUM), -FI_EINVAL);
  EXPECT_EQ(atomic(&one, 2, FI_UINT64, FI_SUM), -FI_EINVAL);
  EXPECT_EQ(atomic(nullptr, 1, FI_UINT64, FI_SUM), -FI_EINVAL);
  EXPECT_EQ(atomic(&one, 1, FI_UINT64, FI_PROD), -FI_EOPNOTSUPP);
  fi_ioc word{&one, 1}, result{&old, 1};
  EXPECT_EQ(
      fi_fetch_atomicv(node.ep.get(), &word, nullptr, 1, &result, nullptr, 2, 0, 0, key, FI_UINT64, FI_SUM, nullptr),
      -FI_EINVAL);
  EXPECT_EQ(
      fi_fetch_atomicv(node.ep.get(), &word, nullptr, 1, &result, nullptr, 1, 0, 0, key, FI_UINT64, FI_SUM, nullptr),
      0);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref<uint64_t>(sum).load() == 1; }));
  fi_atomic_attr attributes;
  EXPECT_EQ(fi_query_atomic(node.domain.get(), FI_UINT64, FI_SUM, &attributes, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
            -FI_EINVAL);
  EXPECT_EQ(fi_query_atomic(node.domain.get(), FI_UINT64, FI_ATOMIC_OP_LAST, &attributes, 0), -FI_EINVAL);
  // What the target does not take is its error.
  ASSERT_EQ(fetch_from(node, {0, key, 65}, 0, &one, &old), 0);
  EXPECT_EQ(next_error(node), FI_EIO);
}

// cxip_rma.c: cxip_rma_writemsg(), cxip_atomic.c: cxip_ep_atomic_writemsg()
TEST(FiSlingshot, FlagsThatCannotBeAreBadFlags) {
  uint64_t word = 1, sum = 0, old = 0;
  for (const uint64_t fence : {uint64_t{0}, uint64_t{FI_FENCE}}) {
    Loner node({.caps = FI_RMA | FI_ATOMIC | fence});
    const auto region = node.region(&sum, sizeof sum);
    const Remote here{0, fi_mr_key(region.get())};
    EXPECT_EQ(write_to(node, here, FI_MULTI_RECV, &word), -FI_EBADFLAGS);
    EXPECT_EQ(fetch_from(node, here, FI_REMOTE_CQ_DATA, &word, &old), -FI_EBADFLAGS);
    EXPECT_EQ(write_to(node, here, FI_FENCE, &word), fence != 0 ? 0 : -FI_EINVAL);
    EXPECT_EQ(fetch_from(node, here, FI_FENCE, &word, &old), fence != 0 ? 0 : -FI_EINVAL);
    EXPECT_EQ(node.flush(), 0);
  }
}

}  // namespace
}  // namespace lanyard
