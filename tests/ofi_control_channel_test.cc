// ControlChannel over libfabric: the sockets provider, and the simulated CXI provider where FI_PROVIDER_PATH names it.
#include <gtest/gtest.h>

#include "tests/control_channel_contract.h"
#include "tests/ofi_fabric.h"

namespace lanyard::nic_contract {
namespace {

INSTANTIATE_TEST_SUITE_P(Ofi, ChannelContract,
                         ::testing::Values(over_ofi("Sockets", "sockets", false), over_ofi("Cxi", "cxi", false)),
                         maker_name);

}  // namespace
}  // namespace lanyard::nic_contract
