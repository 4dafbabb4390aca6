// Parts of OfiNic: return codes and keys.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <set>
#include <string>

#include "transport/cxi/fabric.h"
#include "transport/cxi/library.h"
#include "transport/cxi/objects.h"

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
  const char* before = std::getenv("FI_PROVIDER");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("FI_PROVIDER", "tcp", 1);
  EXPECT_NE(error().find("FI_PROVIDER=tcp in the environment"), std::string::npos) << error();
  ::unsetenv("FI_PROVIDER");
  EXPECT_EQ(error().find("FI_PROVIDER"), std::string::npos) << error();
  if (before != nullptr)
    ::setenv("FI_PROVIDER", kept.c_str(), 1);
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

}  // namespace
}  // namespace lanyard::ofi
