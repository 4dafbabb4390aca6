// What OfiNic is made of: return codes, keys, narrow counters, addresses, and what it says when it
// cannot open.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "transport/cxi/fabric.h"
#include "transport/cxi/library.h"
#include "transport/cxi/ofi_counter.h"
#include "transport/cxi/ofi_nic.h"
#include "transport/cxi/ofi_region.h"
#include "transport/cxi/ofi_status.h"
#include "transport/cxi/provider.h"

namespace lanyard::ofi {
namespace {

using nic::CounterValue;
using nic::kMaxFailure;
using nic::kMaxSuccess;

TEST(OfiStatus, ReturnCodesBecomeStatus) {
  EXPECT_TRUE(ofi_status(0, "fi_x").ok());
  EXPECT_TRUE(ofi_status(16, "fi_cq_read").ok());
  EXPECT_EQ(ofi_status(-FI_EAGAIN, "fi_x").code(), Code::kAgain);
  EXPECT_EQ(ofi_status(-FI_ENOSPC, "fi_x").code(), Code::kAgain);
  EXPECT_EQ(ofi_status(-FI_ENODATA, "fi_x").code(), Code::kUnsupported);
  EXPECT_EQ(ofi_status(-FI_EKEYREJECTED, "fi_x").code(), Code::kNotFound);
  EXPECT_EQ(ofi_status(-12345, "fi_x").code(), Code::kFailed);
  EXPECT_EQ(ofi_status(-FI_EINVAL, "fi_domain").message().find("fi_domain: "), 0u);
}

TEST(OfiStatus, AFailedOperationNeverSaysAgain) {
  for (int error : {FI_EAGAIN, FI_ENOSPC})
    EXPECT_EQ(completion_code(error), Code::kFailed);
  EXPECT_EQ(completion_code(FI_EIO), Code::kFailed);
}

TEST(KeyMaker, KeysAreNewAndSayWhatAtomicsNeed) {
  for (size_t key_bytes : {4, 8}) {
    KeyMaker keys(key_bytes);
    std::set<uint64_t> seen;
    for (uintptr_t base = 4096; base < 4096 + 64; ++base) {
      const nic::RemoteKey key = keys.next(reinterpret_cast<void*>(base)).value();
      EXPECT_TRUE(seen.insert(key.value).second);
      EXPECT_TRUE(seen.insert(KeyMaker::beside(key).value).second);
      EXPECT_EQ(KeyMaker::misaligned(key), base % 8 != 0);
      EXPECT_FALSE(KeyMaker::misaligned({~key.value})) << "a key that is none says nothing";
      EXPECT_GE(key.value, 100u) << "the CXI provider's optimized keys";
      if (key_bytes == 4) {
        EXPECT_LT(key.value, uint64_t{1} << 32);
      }
    }
  }
}

TEST(KeyMaker, RunsOutWithoutGivingAKeyTwice) {
  KeyMaker keys(2);
  std::set<uint64_t> seen;
  Result<nic::RemoteKey> key = keys.next(nullptr);
  for (; key.ok(); key = keys.next(nullptr)) {
    ASSERT_TRUE(seen.insert(key.value().value).second);
    ASSERT_TRUE(seen.insert(KeyMaker::beside(key.value()).value).second);
    ASSERT_LT(KeyMaker::beside(key.value()).value, uint64_t{1} << 16);
  }
  EXPECT_EQ(key.status().code(), Code::kExhausted);
  EXPECT_EQ(keys.next(nullptr).status().code(), Code::kExhausted) << "and stays so";
  EXPECT_GT(seen.size(), 16000u) << "of 16384";
}

TEST(Provider, OnlyThoseThatAreKnown) {
  EXPECT_TRUE(Provider::by_name("cxi").ok());
  const Result<Provider> verbs = Provider::by_name("verbs");
  EXPECT_EQ(verbs.status().code(), Code::kUnsupported);
  EXPECT_NE(verbs.status().message().find("verbs"), std::string::npos);
}

// ---- On the sockets provider

class OnSockets : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Fabric>> fabric = Fabric::open(Provider::by_name("sockets").value(), "", 64);
    if (!fabric.ok())
      GTEST_SKIP() << "SKIPPED: " << fabric.status().message();
    fabric_ = std::move(fabric.value());
  }
  std::unique_ptr<Fabric> fabric_;
};

TEST_F(OnSockets, AnUnknownDomainIsNamedBesideThoseThatExist) {
  const Result<std::unique_ptr<Fabric>> none = Fabric::open(fabric_->provider(), "no-such-card", 64);
  ASSERT_EQ(none.status().code(), Code::kUnsupported);
  EXPECT_NE(none.status().message().find("no-such-card"), std::string::npos);
  EXPECT_NE(none.status().message().find(" lo"), std::string::npos) << none.status().message();
}

// 48 bits and failures on a counter that has 31 and none.
TEST_F(OnSockets, ANarrowCounterCountsLikeAWideOne) {
  OfiCounter counter;
  ASSERT_TRUE(counter.open(fabric_->domain(), false).ok());
  counter.add(5);
  counter.add_error(2);
  EXPECT_EQ(counter.read(), (CounterValue{5, 2}));
  EXPECT_EQ(fi_cntr_read(counter.fid()), 7u) << "thresholds compare with both";
  EXPECT_TRUE(counter.waits_in_provider(1'000'000));
  EXPECT_FALSE(counter.waits_in_provider(uint64_t{1} << 31));

  counter.add(uint64_t{1} << 33);
  EXPECT_EQ(counter.read(), (CounterValue{(uint64_t{1} << 33) + 5, 2}));
  EXPECT_GE(fi_cntr_read(counter.fid()), uint64_t{1} << 30) << "whatever waited there is due";
  EXPECT_FALSE(counter.waits_in_provider(1)) << "far: entries wait in the driver";
  (void)fi_cntr_add(counter.fid(), 3);  // arrivals
  counter.add(1);
  EXPECT_EQ(counter.read(), (CounterValue{(uint64_t{1} << 33) + 9, 2}));

  counter.set(0);
  EXPECT_EQ(counter.read(), CounterValue{});
  EXPECT_EQ(fi_cntr_read(counter.fid()), 0u);
  EXPECT_TRUE(counter.waits_in_provider(1));
  counter.set(kMaxSuccess);
  EXPECT_EQ(counter.read(), (CounterValue{kMaxSuccess, 0}));
}

TEST_F(OnSockets, AddressesThatAreNoneAreRefused) {
  const nic::Address good = fabric_->address();
  nic::Address longer = good;
  longer.bytes.push_back(std::byte{0});
  nic::Address other_host = good;
  other_host.bytes[8] ^= std::byte{1};  // see AddressHead: the loopback interface of another host
  for (const nic::Address& bad : {nic::Address{}, longer, other_host}) {
    const std::vector<nic::Address> peers = {good, bad};
    EXPECT_EQ(fabric_->set_peers(peers).code(), Code::kInvalidArgument);
    EXPECT_EQ(fabric_->peer_count(), 0u);
  }
  const std::vector<nic::Address> peers = {good, good};
  EXPECT_TRUE(fabric_->set_peers(peers).ok());
  EXPECT_EQ(fabric_->peer_count(), 2u);
}

// An entry beyond what the provider's counter holds waits in the driver and fires like any other.
TEST_F(OnSockets, AnEntryBeyond31BitsFires) {
  Result<std::unique_ptr<OfiNic>> opened = OfiNic::open({.provider = "sockets"});
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  OfiNic& nic = *opened.value();
  const std::vector<nic::Address> peers = {nic.address()};
  ASSERT_TRUE(nic.set_peers(peers, 0).ok());
  uint64_t words[2] = {7, 0};
  const nic::RegionId region = nic.register_region(words, sizeof words, {}).value();
  const nic::CounterId trigger = nic.open_counter().value();
  const nic::CounterId done = nic.open_counter().value();
  nic::DeferredOp entry;
  entry.trigger = trigger;
  entry.threshold = (uint64_t{1} << 40) + 2;
  entry.op.completion = done;
  entry.op.local = {region, 0};
  entry.op.remote = {0, nic.key(region).value(), 8};
  entry.op.bytes = 8;
  ASSERT_TRUE(nic.post({&entry, 1}).ok());
  ASSERT_TRUE(nic.add(trigger, uint64_t{1} << 40).ok());
  ASSERT_TRUE(nic.add(trigger, 1).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(nic.read(done).value(), CounterValue{});
  ASSERT_TRUE(nic.add(trigger, 1).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (nic.read(done).value().success == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(nic.read(done).value(), (CounterValue{1, 0}));
  EXPECT_EQ(words[1], 7u);
}

// The libfabric that is installed, but for the room in its keys.
int getinfo_with_short_keys(uint32_t version, const char* node, const char* service, uint64_t flags,
                            const fi_info* hints, fi_info** info) {
  const int result = Library::load().value().getinfo(version, node, service, flags, hints, info);
  if (result == 0)
    for (fi_info* card = *info; card != nullptr; card = card->next)
      card->domain_attr->mr_key_size = 2;
  return result;
}

TEST_F(OnSockets, RegistrationWithoutAKeyLeftIsRefusedAndChangesNothing) {
  Library library = Library::load().value();
  library.getinfo = getinfo_with_short_keys;
  Result<std::unique_ptr<OfiNic>> opened =
      OfiNic::open({.provider = "sockets", .max_counters = 1, .max_regions = 2, .library = library});
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  OfiNic& nic = *opened.value();
  const nic::CounterId counter = nic.open_counter().value();
  uint64_t kept_word = 0, word = 0;
  const nic::RegionId kept = nic.register_region(&kept_word, sizeof kept_word, {}).value();
  const nic::RemoteKey kept_key = nic.key(kept).value();
  Result<nic::RegionId> region = nic.register_region(&word, sizeof word, counter);
  for (int i = 0; i < 1 << 13 && region.ok(); ++i) {
    ASSERT_TRUE(nic.deregister_region(region.value()).ok());
    region = nic.register_region(&word, sizeof word, counter);
  }
  ASSERT_EQ(region.status().code(), Code::kExhausted);
  EXPECT_NE(region.status().message().find("memory keys"), std::string::npos) << region.status().message();
  EXPECT_EQ(nic.register_region(&word, sizeof word, counter).status().code(), Code::kExhausted);
  EXPECT_EQ(nic.key(kept).value().value, kept_key.value);
  EXPECT_TRUE(nic.close_counter(counter).ok()) << "no region names it";
  EXPECT_TRUE(nic.deregister_region(kept).ok());
}

}  // namespace
}  // namespace lanyard::ofi
