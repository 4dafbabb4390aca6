// Parts of OfiNic: return codes, keys, the nearest NIC, and buffers of a fake GPU.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sched.h>

#include <array>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "tests/nicsim/fi_harness.h"
#include "transport/base/device_memory.h"
#include "transport/cxi/fabric.h"
#include "transport/cxi/library.h"
#include "transport/cxi/objects.h"
#include "transport/cxi/ofi_nic.h"

namespace lanyard::ofi {
namespace {

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

TEST(OfiStatus, AFailedOperationNeverReturnsAgain) {
  for (int error : {FI_EAGAIN, FI_ENOSPC})
    EXPECT_EQ(completion_code(error), Code::kFailed);
  EXPECT_EQ(completion_code(FI_EIO), Code::kFailed);
}

// libfabric reads FI_PROVIDER itself and reports only that no provider fits.
TEST(Fabric, AMissingProviderMayBeFilteredOut) {
  Library library = Library::load().value();
  library.getinfo = [](uint32_t, const char*, const char*, uint64_t, const fi_info*, fi_info**) { return -FI_ENODATA; };
  const auto error = [&] { return Fabric::open("", 1, false, library).status().message(); };
  const Variable kept("FI_PROVIDER", "tcp");
  EXPECT_TRUE(has(error(), "FI_PROVIDER=tcp in the environment"));
  ::unsetenv("FI_PROVIDER");
  EXPECT_FALSE(has(error(), "FI_PROVIDER"));
}

TEST(KeyMaker, KeysAreNewAndTellMisalignment) {
  KeyMaker keys;
  std::set<uint64_t> seen;
  for (uintptr_t base = 4096; base < 4096 + 64; ++base) {
    const nic::RemoteKey key = keys.next(reinterpret_cast<void*>(base)).value();
    EXPECT_TRUE(seen.insert(key.value).second);
    EXPECT_EQ(KeyMaker::misaligned(key), base % 8 != 0);
    EXPECT_FALSE(KeyMaker::misaligned({~key.value})) << "an unknown key must not count as misaligned";
    EXPECT_GE(key.value, 100u) << "keys below 100 are the CXI provider's optimized keys";
  }
}

TEST(KeyMaker, RunsOutWithoutGivingAKeyTwice) {
  constexpr uint32_t kLeft = 100;
  KeyMaker keys((uint32_t{1} << 30) - 1 - kLeft);
  std::set<uint64_t> seen;
  for (uint32_t i = 0; i < kLeft; ++i) {
    const nic::RemoteKey key = keys.next(nullptr).value();
    EXPECT_TRUE(seen.insert(key.value).second);
    EXPECT_LT(key.value, uint64_t{1} << 32);
  }
  EXPECT_EQ(keys.next(nullptr).status().code(), Code::kExhausted);
  EXPECT_EQ(keys.next(nullptr).status().code(), Code::kExhausted) << "must stay exhausted";
}

// ---- The nearest NIC on a synthetic machine with two sockets (two_sockets.xml)

PciAddress on_bus(uint32_t bus) { return {.bus = bus}; }

Locality two_sockets() {
  ::setenv("HWLOC_XMLFILE", "tests/nicsim/two_sockets.xml", 1);
  ::setenv("HWLOC_THISSYSTEM", "0", 1);
  return std::move(Locality::load().value());
}

// getinfo's result for NICs on these buses; 0: not a PCI device.
class FakeNics {
 public:
  explicit FakeNics(const std::vector<uint32_t>& buses) : all_(buses.size()) {
    for (size_t i = 0; i < buses.size(); ++i) {
      FakeNic& fake = all_[i];
      fake.info.next = i + 1 < buses.size() ? &all_[i + 1].info : nullptr;
      if (buses[i] == 0)
        continue;
      fake.bus.bus_type = FI_BUS_PCI;
      fake.bus.attr.pci.bus_id = static_cast<uint8_t>(buses[i]);
      fake.nic.bus_attr = &fake.bus;
      fake.info.nic = &fake.nic;
    }
  }
  // The index of the nearest one.
  ptrdiff_t nearest_here() {
    const fi_info* chosen = nearest(&all_[0].info, two_sockets());
    for (size_t i = 0; i < all_.size(); ++i)
      if (chosen == &all_[i].info)
        return static_cast<ptrdiff_t>(i);
    return -1;
  }

 private:
  struct FakeNic {
    fi_bus_attr bus{};
    fid_nic nic{};
    fi_info info{};
  };
  std::vector<FakeNic> all_;
};

TEST(Locality, ReportsWhereANicIs) {
  const Locality machine = two_sockets();
  const auto first = machine.place_of(on_bus(0x41));
  const auto second = machine.place_of(on_bus(0xc1));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->numa_nodes, "0");
  EXPECT_EQ(first->cores, "0-1");
  EXPECT_EQ(second->numa_nodes, "1");
  EXPECT_EQ(second->cores, "2-3");
  EXPECT_EQ(on_bus(0xc1).to_string(), "0000:c1:00.0");
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  const auto count = [&](int core) { return static_cast<uint32_t>(CPU_ISSET(core, &mine) != 0); };
  EXPECT_EQ(first->shared_cores, count(0) + count(1));
  EXPECT_EQ(second->shared_cores, count(2) + count(3));
  EXPECT_FALSE(machine.place_of(on_bus(0x99)));
}

TEST(Locality, TheNearestToThisThread) {
  cpu_set_t before, only;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  FakeNics nics({0, 0xc1, 0x41});
  CPU_ZERO(&only);
  CPU_SET(0, &only);
  if (sched_setaffinity(0, sizeof only, &only) != 0)
    GTEST_SKIP() << "this process may not use core 0";
  EXPECT_EQ(nics.nearest_here(), 2) << "core 0 belongs to the first socket";
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

// ---- Buffers of a fake GPU: the registrations that the provider gets, and errors without its
// support

constexpr int kOrdinal = 3;

// Host memory that claims to be device memory.
class FakeDevice final : public DeviceMemory {
 public:
  explicit FakeDevice(const char* kind) : kind_(kind) {}

  const char* kind() const override { return kind_; }
  Result<int> device_of(const void* address, uint64_t bytes) const override {
    const auto* at = static_cast<const std::byte*>(address);
    const std::byte* const end = memory.data() + memory.size();
    if (at + bytes <= memory.data() || at >= end)
      return kHost;
    if (at < memory.data() || at + bytes > end)
      return Status(Code::kInvalidArgument, "the range is partly on the device");
    return kOrdinal;
  }
  Result<Copy> start_copy(void*, const void*, uint64_t) override { return none(); }
  Result<bool> has_ended(Copy) override { return none(); }
  Result<std::byte*> take_staging(uint64_t) override { return none(); }
  void give_staging(std::byte*) override {}
  Result<Loan> lend(const void*, uint64_t) override { return none(); }
  Result<std::byte*> borrow(const Loan&, int) override { return none(); }
  void give_back(std::byte*) override {}
  uint64_t lent_bytes(const Loan&) const override { return 0; }

  alignas(64) std::array<std::byte, 256> memory{};

 private:
  static Status none() { return {Code::kUnsupported, "the fake device supports no copies"}; }

  const char* const kind_;
};

Result<std::unique_ptr<OfiNic>> open_nic(const DeviceMemory* device) {
  use_provider();
  return OfiNic::open({.device_memory = device});
}

TEST(OfiDeviceMemory, TheRegionNamesItsDevice) {
  const iovec piece{nullptr, 64};
  const FakeDevice cuda("cuda"), hip("hip"), other("abacus");
  const fi_mr_attr of_cuda = region_attributes(piece, 1, MemoryKind::of_device(cuda, kOrdinal).value());
  EXPECT_EQ(of_cuda.iface, FI_HMEM_CUDA);
  EXPECT_EQ(of_cuda.device.cuda, kOrdinal);
  const fi_mr_attr of_hip = region_attributes(piece, 1, MemoryKind::of_device(hip, kOrdinal).value());
  EXPECT_EQ(of_hip.iface, FI_HMEM_ROCR);
  EXPECT_EQ(of_hip.device.reserved, static_cast<uint64_t>(kOrdinal));
  const Result<MemoryKind> none = MemoryKind::of_device(other, 0);
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(open_nic(&other).status().code(), Code::kInvalidArgument);
}

TEST(OfiDeviceMemory, AMessageFromDeviceMemory) {
  const Variable accepted("LANYARD_FI_HMEM", "accepted");
  for (const char* kind : {"cuda", "hip"}) {
    FakeDevice device(kind);
    const std::unique_ptr<OfiNic> nic = std::move(open_nic(&device).value());
    ASSERT_TRUE(nic->caps().device_memory);
    const nic::Address self = nic->address();
    ASSERT_TRUE(nic->set_peers({&self, 1}, 0).ok());
    device.memory.fill(std::byte{7});
    std::array<std::byte, 64> host{};
    const nic::CounterId done = nic->open_counter().value();
    const Result<nic::RegionId> source = nic->register_region(device.memory.data(), 64, {});
    ASSERT_TRUE(source.ok()) << source.status().message();
    const Result<nic::RegionId> target = nic->register_region(host.data(), host.size(), {});
    ASSERT_TRUE(target.ok()) << "host memory must still register";
    nic::Op op;
    op.local = {source.value(), 0};
    op.remote = {0, nic->key(target.value()).value(), 0};
    op.bytes = 64;
    op.completion = done;
    ASSERT_TRUE(nic->issue(op).ok());
    EXPECT_TRUE(eventually([&] { return nic->progress(), nic->read(done).value().success == 1; }));
    EXPECT_EQ(host[63], std::byte{7});
    const Result<nic::RegionId> half = nic->register_region(device.memory.data() + 200, 100, {});
    EXPECT_EQ(half.status().code(), Code::kInvalidArgument);
  }
}

TEST(OfiDeviceMemory, WithoutSupportRegistrationIsRefused) {
  FakeDevice device("cuda");
  const std::unique_ptr<OfiNic> nic = std::move(open_nic(&device).value());
  EXPECT_FALSE(nic->caps().device_memory) << "the provider refused FI_HMEM";
  const nic::Usage before = nic->usage();
  const Result<nic::RegionId> refused = nic->register_region(device.memory.data(), 64, {});
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  for (const char* words : {"cuda device 3", "host memory"})
    EXPECT_TRUE(has(refused.status(), words));
  EXPECT_EQ(nic->usage().regions, before.regions);
  uint64_t word = 0;
  EXPECT_TRUE(nic->register_region(&word, sizeof word, {}).ok());
}

// Of the provider itself: device memory can be registered only in a domain opened with FI_HMEM.
TEST(OfiDeviceMemory, TheProviderChecksTheDomain) {
  const auto register_one = [](const Node& node, fi_hmem_iface iface) {
    uint64_t word = 0;
    const iovec piece{&word, sizeof word};
    fi_mr_attr attributes = region_attributes(piece, 0, {iface, 0});
    fid_mr* region = nullptr;
    const int error = fi_mr_regattr(node.domain.get(), &attributes, 0, &region);
    if (error == 0)
      fi_close(&region->fid);
    return error;
  };
  EXPECT_EQ(register_one(Node(), FI_HMEM_CUDA), -FI_ENOSYS);
  const Variable accepted("LANYARD_FI_HMEM", "accepted");
  EXPECT_EQ(register_one(Node(), FI_HMEM_CUDA), -FI_ENOSYS) << "the domain was opened without FI_HMEM";
  const Node node({.caps = FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER | FI_HMEM});
  EXPECT_EQ(register_one(node, FI_HMEM_CUDA), 0);
  EXPECT_EQ(register_one(node, FI_HMEM_ROCR), 0);
  EXPECT_EQ(register_one(node, FI_HMEM_SYSTEM), 0);
  EXPECT_EQ(register_one(node, FI_HMEM_ZE), -FI_ENOSYS);
}

}  // namespace
}  // namespace lanyard::ofi
