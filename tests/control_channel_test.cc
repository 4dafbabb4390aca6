// ControlChannel over the simulated card on every wire, and over its bare model in the orders of seeds.
#include "transport/core/control_channel.h"

#include <gtest/gtest.h>

#include "tests/control_channel_contract.h"
#include "tests/deterministic_fabric.h"
#include "tests/simulated_fabric.h"

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

}  // namespace
}  // namespace lanyard::nic_contract
