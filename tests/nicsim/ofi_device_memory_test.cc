// OfiNic with buffers of a fake GPU: the registrations that the provider gets, and errors without
// its support.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "tests/nicsim/fi_harness.h"
#include "transport/base/device_memory.h"
#include "transport/cxi/objects.h"
#include "transport/cxi/ofi_nic.h"

namespace lanyard {
namespace {

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

Result<std::unique_ptr<ofi::OfiNic>> open(const DeviceMemory* device) {
  use_provider();
  return ofi::OfiNic::open({.device_memory = device});
}

TEST(OfiDeviceMemory, TheRegionNamesItsDevice) {
  const iovec piece{nullptr, 64};
  const FakeDevice cuda("cuda"), hip("hip"), other("abacus");
  const fi_mr_attr of_cuda = ofi::region_attributes(piece, 1, ofi::MemoryKind::of_device(cuda, kOrdinal).value());
  EXPECT_EQ(of_cuda.iface, FI_HMEM_CUDA);
  EXPECT_EQ(of_cuda.device.cuda, kOrdinal);
  const fi_mr_attr of_hip = ofi::region_attributes(piece, 1, ofi::MemoryKind::of_device(hip, kOrdinal).value());
  EXPECT_EQ(of_hip.iface, FI_HMEM_ROCR);
  EXPECT_EQ(of_hip.device.reserved, static_cast<uint64_t>(kOrdinal));
  const Result<ofi::MemoryKind> none = ofi::MemoryKind::of_device(other, 0);
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(open(&other).status().code(), Code::kInvalidArgument);
}

TEST(OfiDeviceMemory, AMessageFromDeviceMemory) {
  const Variable accepted("LANYARD_FI_HMEM", "accepted");
  for (const char* kind : {"cuda", "hip"}) {
    FakeDevice device(kind);
    const std::unique_ptr<ofi::OfiNic> nic = std::move(open(&device).value());
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
  const std::unique_ptr<ofi::OfiNic> nic = std::move(open(&device).value());
  EXPECT_FALSE(nic->caps().device_memory) << "the provider refused FI_HMEM";
  const nic::Usage before = nic->usage();
  const Result<nic::RegionId> refused = nic->register_region(device.memory.data(), 64, {});
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  EXPECT_NE(refused.status().message().find("cuda device 3"), std::string::npos) << refused.status().message();
  EXPECT_NE(refused.status().message().find("host memory"), std::string::npos);
  EXPECT_EQ(nic->usage().regions, before.regions);
  uint64_t word = 0;
  EXPECT_TRUE(nic->register_region(&word, sizeof word, {}).ok());
}

// Of the provider itself: device memory can be registered only in a domain opened with FI_HMEM.
TEST(OfiDeviceMemory, TheProviderChecksTheDomain) {
  const auto register_one = [](const Node& node, fi_hmem_iface iface) {
    uint64_t word = 0;
    const iovec piece{&word, sizeof word};
    fi_mr_attr attributes = ofi::region_attributes(piece, 0, {iface, 0});
    fid_mr* region = nullptr;
    const int error = fi_mr_regattr(node.domain.get(), &attributes, 0, &region);
    if (error == 0)
      fi_close(&region->fid);
    return error;
  };
  EXPECT_EQ(register_one(Node(), FI_HMEM_CUDA), -FI_ENOSYS);
  EXPECT_EQ(get_info({.caps = FI_RMA | FI_HMEM}), nullptr);
  const Variable accepted("LANYARD_FI_HMEM", "accepted");
  EXPECT_EQ(register_one(Node(), FI_HMEM_CUDA), -FI_ENOSYS) << "the domain was opened without FI_HMEM";
  const Node node({.caps = FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER | FI_HMEM});
  EXPECT_EQ(register_one(node, FI_HMEM_CUDA), 0);
  EXPECT_EQ(register_one(node, FI_HMEM_ROCR), 0);
  EXPECT_EQ(register_one(node, FI_HMEM_SYSTEM), 0);
  EXPECT_EQ(register_one(node, FI_HMEM_ZE), -FI_ENOSYS);
}

}  // namespace
}  // namespace lanyard
