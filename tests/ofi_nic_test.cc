// OfiNic: the NIC contract over libfabric's sockets provider.
#include <gtest/gtest.h>

#include "tests/nic_contract.h"
#include "tests/ofi_fabric.h"

namespace lanyard::nic_contract {
namespace {

INSTANTIATE_TEST_SUITE_P(Sockets, NicContract,
                         ::testing::Values(over_ofi("Plain", "sockets", false),
                                           over_ofi("Checked", "sockets", true)),
                         maker_name);

}  // namespace
}  // namespace lanyard::nic_contract
