// OfiNic: the NIC contract over libfabric's CXI provider: on a machine with Slingshot, or with the
// simulated provider of that name (FI_PROVIDER_PATH). Elsewhere every row is skipped.
#include <gtest/gtest.h>

#include "tests/nic_contract.h"
#include "tests/ofi_fabric.h"

namespace lanyard::nic_contract {
namespace {

INSTANTIATE_TEST_SUITE_P(Cxi, NicContract,
                         ::testing::Values(over_ofi("Plain", "cxi", false), over_ofi("Checked", "cxi", true)),
                         maker_name);

}  // namespace
}  // namespace lanyard::nic_contract
