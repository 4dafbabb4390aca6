// The NIC contract and the control channel over every implementation: the simulator's model, the
// threaded NIC on every wire, and the driver over libfabric's CXI provider. That provider is
// Slingshot's or the simulated one at FI_PROVIDER_PATH; without either, its rows are skipped.
#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/contract/contract_fabrics.h"
#include "tests/contract/control_channel_contract.h"
#include "tests/contract/local_fabric.h"
#include "tests/contract/nic_contract.h"
#include "tests/nicsim/fake_device_memory.h"

namespace lanyard::nic_contract {
namespace {

INSTANTIATE_TEST_SUITE_P(Deterministic, NicContract,
                         ::testing::Values(over_steps("Seed1", 1, false), over_steps("Seed2", 2, false),
                                           over_steps("Seed3", 3, false), over_steps("Seed4", 4, false),
                                           over_steps("Seed5", 5, false), over_steps("Checked", 6, true)),
                         maker_name);

// For rows that need a device that works while no thread calls it: a thread takes the steps.
struct RunningFabric final : NicFabric {
  explicit RunningFabric(const FabricOptions& wish)
      : fabric(wish, 7, false), device([this](std::stop_token stop) {
          while (!stop.stop_requested())
            if (fabric.nic(0).progress() == 0)
              sched_yield();
        }) {}
  size_t size() override { return fabric.size(); }
  Nic& nic(size_t rank) override { return fabric.nic(rank); }

  DeterministicFabric fabric;
  std::jthread device;
};
INSTANTIATE_TEST_SUITE_P(Running, NicContract,
                         ::testing::Values(NicMaker{
                             "Running",
                             [](const FabricOptions& wish) { return std::make_unique<RunningFabric>(wish); }}),
                         maker_name);

// Host memory works as before when device memory is possible.
void with_devices(LocalOptions& options) {
  static FakeDeviceMemory devices;
  options.memories = std::vector<DeviceMemory*>(8, &devices);
}

INSTANTIATE_TEST_SUITE_P(
    Threaded, NicContract,
    ::testing::Values(over_simulation("Shm", [](LocalOptions&) {}),
                      over_simulation("ShmWithoutCma", [](LocalOptions& options) { options.use_cma = false; }),
                      // With two slots per inbox every burst finds it full.
                      over_simulation("ShmNarrow", [](LocalOptions& options) { options.slots = 2; }),
                      over_simulation("Tcp", [](LocalOptions& options) { options.wire = LocalOptions::Wire::kTcp; }),
                      over_simulation("WithDevices", with_devices),
                      over_simulation("Checked", [](LocalOptions& options) { options.checked = true; })),
    maker_name);

INSTANTIATE_TEST_SUITE_P(Cxi, NicContract, ::testing::Values(over_ofi("Plain", false), over_ofi("Checked", true)),
                         maker_name);

// ---- The control channel, on the same NICs

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
