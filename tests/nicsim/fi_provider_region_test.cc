// The simulated provider's regions, addresses and settings under CXI's rules (nicsim/fi/README.md).
#include <initializer_list>
#include <utility>

#include "tests/nicsim/fi_harness.h"

namespace lanyard {
namespace {

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

}  // namespace
}  // namespace lanyard
