// ControlChannel over the simulated NIC on every wire, over its model in the orders of seeds, and over libfabric.
#include "transport/core/control_channel.h"

#include <gtest/gtest.h>

#include "tests/contract/control_channel_contract.h"
#include "tests/contract/deterministic_fabric.h"
#include "tests/contract/ofi_fabric.h"
#include "tests/contract/simulated_fabric.h"

namespace lanyard::nic_contract {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Threaded, ChannelContract,
    ::testing::Values(over_simulation("Shm", [](LocalOptions&) {}),
                      over_simulation("ShmNarrow", [](LocalOptions& options) { options.slots = 2; }),
                      over_simulation("Tcp", [](LocalOptions& options) { options.wire = LocalOptions::Wire::kTcp; }),
                      over_simulation("Checked", [](LocalOptions& options) { options.checked = true; })),
    maker_name);

std::vector<NicMaker> seeds() {
  std::vector<NicMaker> makers;
  for (uint64_t seed = 1; seed <= 40; ++seed)
    makers.push_back(over_steps("Seed" + std::to_string(seed), seed, seed % 8 == 0));
  return makers;
}
INSTANTIATE_TEST_SUITE_P(Steps, ChannelContract, ::testing::ValuesIn(seeds()), maker_name);

INSTANTIATE_TEST_SUITE_P(Cxi, ChannelContract, ::testing::Values(over_ofi("Plain", false)), maker_name);

}  // namespace
}  // namespace lanyard::nic_contract
