// Calls that the simulated provider does not have, and null pointers: errors, never crashes.
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_tagged.h>

#include <cstring>
#include <vector>

#include "tests/fi_harness.h"

namespace lanyard {
namespace {

// The slots of a table that are null. A table is its size and then functions.
template <typename Table>
std::vector<size_t> empty_slots(const Table* table) {
  std::vector<size_t> empty;
  for (size_t at = sizeof(size_t); at < table->size; at += sizeof(void*)) {
    void* function = nullptr;
    std::memcpy(&function, reinterpret_cast<const std::byte*>(table) + at, sizeof function);
    if (function == nullptr)
      empty.push_back(at);
  }
  return empty;
}
const std::vector<size_t> kNone;
// What libfabric looks for before it calls it.
const std::vector<size_t> kOptional = {offsetof(fi_ops, tostr), offsetof(fi_ops, ops_set)};

void expect_whole(const fid_ep* endpoint) {
  EXPECT_EQ(empty_slots(endpoint->ops), kNone);
  EXPECT_EQ(empty_slots(endpoint->cm), kNone);
  EXPECT_EQ(empty_slots(endpoint->msg), kNone);
  EXPECT_EQ(empty_slots(endpoint->tagged), kNone);
  EXPECT_EQ(empty_slots(endpoint->rma), kNone);
  EXPECT_EQ(empty_slots(endpoint->atomic), kNone);
  EXPECT_EQ(empty_slots(endpoint->collective), kNone);
}

TEST(FiRefusals, NoTableHasAHole) {
  const Loner node;
  uint64_t word = 0;
  Loner unready({.enable = false});
  const auto counter = unready.counter();
  const auto region = unready.raw_region(&word, sizeof word);
  for (const fid* object :
       {&node.fabric->fid, &node.domain->fid, &node.ep->fid, &node.av->fid, &node.cq->fid, &counter->fid, &region->fid})
    EXPECT_EQ(empty_slots(object->ops), kOptional) << "class " << object->fclass;
  EXPECT_EQ(empty_slots(node.fabric->ops), std::vector<size_t>{offsetof(fi_ops_fabric, domain2)});
  EXPECT_EQ(empty_slots(node.domain->ops), std::vector<size_t>{offsetof(fi_ops_domain, endpoint2)});
  EXPECT_EQ(empty_slots(node.domain->mr), kNone);
  EXPECT_EQ(empty_slots(node.av->ops), kNone);
  EXPECT_EQ(empty_slots(node.cq->ops), kNone);
  EXPECT_EQ(empty_slots(counter->ops), kNone);
  expect_whole(unready.ep.get());
  expect_whole(node.ep.get());
}

TEST(FiRefusals, NothingBeginsAtAnEndpointThatIsNotEnabled) {
  Loner node({.enable = false});
  uint64_t word = 0;
  fid_ep* const ep = node.ep.get();
  EXPECT_EQ(fi_write(ep, &word, 8, nullptr, 0, 0, 1, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_atomic(ep, &word, 1, nullptr, 0, 0, 1, FI_UINT64, FI_SUM, nullptr), -FI_ENOSYS);
  ASSERT_EQ(fi_enable(ep), 0);
  introduce({&node});
  EXPECT_EQ(fi_write(ep, &word, 8, nullptr, 0, 0, 1, nullptr), 0);
}

TEST(FiRefusals, EndpointsHaveWhatTheyWereOpenedFor) {
  Loner node({.caps = FI_RMA});
  uint64_t word = 0;
  fid_ep* const ep = node.ep.get();
  size_t count = 0;
  EXPECT_EQ(fi_atomic(ep, &word, 1, nullptr, 0, 0, 1, FI_UINT64, FI_SUM, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_atomicvalid(ep, FI_UINT64, FI_SUM, &count), -FI_ENOSYS);
  EXPECT_EQ(fi_write(ep, &word, 8, nullptr, 0, 0, 1, nullptr), 0);
}

TEST(FiRefusals, NothingIsOpenedIntoNull) {
  Loner node;
  uint64_t word = 0;
  EXPECT_EQ(fi_domain(node.fabric.get(), node.info.get(), nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_endpoint(node.domain.get(), node.info.get(), nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_av_open(node.domain.get(), nullptr, nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_cq_open(node.domain.get(), nullptr, nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_cntr_open(node.domain.get(), nullptr, nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_mr_reg(node.domain.get(), &word, 8, FI_REMOTE_WRITE, 0, 0, 0, nullptr, nullptr), -FI_EINVAL);
}

TEST(FiRefusals, TablesWithoutANameOrAPlaceAreNotOpened) {
  const Variable registers("LANYARD_FI_MMIO", "trap");
  Loner node;
  const auto counter = node.counter();
  void* table = nullptr;
  EXPECT_EQ(fi_open_ops(&node.domain->fid, nullptr, 0, &table, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_open_ops(&node.domain->fid, "dom_ops_v1", 0, nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_open_ops(&counter->fid, nullptr, 0, &table, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_open_ops(&counter->fid, "cxi_counter_ops", 0, nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_open_ops(&node.ep->fid, nullptr, 0, &table, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_set_ops(&node.domain->fid, nullptr, 0, nullptr, nullptr), -FI_ENOSYS);
  EXPECT_EQ(table, nullptr);
}

TEST(FiRefusals, AddressesThatAreNowhere) {
  Loner node;
  fid_av* const av = node.av.get();
  const std::vector<std::byte> name = Node::name_of(node.ep.get());
  size_t bytes = 4;
  char text[8] = {};
  EXPECT_EQ(fi_getname(&node.ep->fid, nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_av_insert(av, nullptr, 1, nullptr, 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_av_remove(av, nullptr, 1, 0), -FI_EINVAL);
  EXPECT_EQ(fi_av_lookup(av, 0, nullptr, &bytes), -FI_EINVAL);
  EXPECT_EQ(fi_av_lookup(av, 0, text, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_av_straddr(av, nullptr, text, &bytes), nullptr);
  EXPECT_EQ(fi_av_straddr(av, name.data(), text, nullptr), nullptr);
  EXPECT_EQ(fi_av_straddr(av, name.data(), nullptr, &bytes), nullptr);
  EXPECT_EQ(fi_av_straddr(av, name.data(), text, &bytes), text);
  EXPECT_EQ(text[3], '\0');
  EXPECT_GT(bytes, sizeof text) << "how much room it wants";
}

TEST(FiRefusals, QueuesAreNotReadIntoNull) {
  Loner node({.selective = false});
  uint64_t word = 0;
  fi_cq_msg_entry entry = {};
  const auto region = node.region(&word, sizeof word);
  ASSERT_EQ(fi_write(node.ep.get(), &word, 8, nullptr, 0, 0, fi_mr_key(region.get()), nullptr), 0);
  EXPECT_TRUE(eventually([&] { return fi_cq_read(node.cq.get(), nullptr, 1) == -FI_EINVAL; }));
  EXPECT_EQ(fi_cq_readerr(node.cq.get(), nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_cq_read(node.cq.get(), &entry, 1), 1) << "it is still there";
}

TEST(FiRefusals, RegionsOfNoMemory) {
  Loner node;
  uint64_t word = 0;
  fid_mr* made = nullptr;
  EXPECT_EQ(fi_mr_reg(node.domain.get(), &word, SIZE_MAX - 8, FI_REMOTE_WRITE, 0, 0, 0, &made, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_mr_regv(node.domain.get(), nullptr, 1, FI_REMOTE_WRITE, 0, 0, 0, &made, nullptr), -FI_EINVAL);
  EXPECT_EQ(made, nullptr);
  const auto region = node.raw_region(&word, sizeof word);
  EXPECT_EQ(fi_mr_bind(region.get(), nullptr, 0), -FI_EINVAL);
}

TEST(FiRefusals, OperationsOnNoMemory) {
  Loner node;
  uint64_t word = 3, old = 0;
  fid_ep* const ep = node.ep.get();
  const auto region = node.region(&word, sizeof word);
  const uint64_t key = fi_mr_key(region.get());
  EXPECT_EQ(fi_write(ep, nullptr, 8, nullptr, 0, 0, key, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_writev(ep, nullptr, nullptr, 1, 0, 0, key, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_writemsg(ep, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_atomic(ep, nullptr, 1, nullptr, 0, 0, key, FI_UINT64, FI_SUM, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_fetch_atomic(ep, &old, 1, nullptr, nullptr, nullptr, 0, 0, key, FI_UINT64, FI_SUM, nullptr), -FI_EINVAL);
  EXPECT_EQ(
      fi_compare_atomic(ep, &old, 1, nullptr, nullptr, nullptr, &old, nullptr, 0, 0, key, FI_UINT64, FI_CSWAP, nullptr),
      -FI_EINVAL);
  EXPECT_EQ(word, 3u);
}

TEST(FiRefusals, DeferredWorkNamesObjectsOfItsDomain) {
  Loner node, other;
  uint64_t word = 0;
  const auto trigger = node.counter(), strange = other.counter();
  EXPECT_EQ(defer_counter(node, FI_OP_CNTR_ADD, strange.get(), 1, {trigger.get(), 1}), -FI_EINVAL);
  EXPECT_EQ(defer_counter(node, FI_OP_CNTR_ADD, nullptr, 1, {trigger.get(), 1}), -FI_EINVAL);
  EXPECT_EQ(defer_counter(node, FI_OP_CNTR_ADD, trigger.get(), 1, {reinterpret_cast<fid_cntr*>(node.cq.get()), 1}),
            -FI_EINVAL);
  iovec piece{&word, sizeof word};
  fi_rma_iov target{0, sizeof word, 1};
  fid_ep* const wrong[] = {nullptr, other.ep.get(), reinterpret_cast<fid_ep*>(trigger.get())};
  for (fid_ep* ep : wrong) {
    fi_op_rma op = {};
    op.ep = ep;
    op.msg = {&piece, nullptr, 1, 0, &target, 1, nullptr, 0};
    fi_deferred_work work = work_of({trigger.get(), 1}, FI_OP_WRITE);
    work.op.rma = &op;
    EXPECT_EQ(node.queue(work), -FI_EINVAL);
    fi_op_atomic atomic = {};
    atomic.ep = ep;
    work.op_type = FI_OP_ATOMIC;
    work.op.atomic = &atomic;
    EXPECT_EQ(node.queue(work), -FI_EINVAL);
  }
}

}  // namespace
}  // namespace lanyard
