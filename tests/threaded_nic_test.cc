// ThreadedNic: the NIC contract, over every wire, all its NICs in one process.
#include "nicsim/threaded/threaded_nic.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/fake_device_memory.h"
#include "tests/local_fabric.h"
#include "tests/nic_contract.h"
#include "tests/simulated_fabric.h"

namespace lanyard::nic_contract {
namespace {

// Host memory is moved as ever where there could be device memory.
void with_devices(LocalOptions& options) {
  static FakeDeviceMemory devices;
  options.memories = std::vector<DeviceMemory*>(8, &devices);
}

INSTANTIATE_TEST_SUITE_P(
    Threaded, NicContract,
    ::testing::Values(over_simulation("Shm", [](LocalOptions&) {}),
                      over_simulation("ShmWithoutCma", [](LocalOptions& options) { options.use_cma = false; }),
                      // An inbox of two slots: every burst finds it full.
                      over_simulation("ShmNarrow", [](LocalOptions& options) { options.slots = 2; }),
                      over_simulation("Tcp", [](LocalOptions& options) { options.wire = LocalOptions::Wire::kTcp; }),
                      over_simulation("WithDevices", with_devices),
                      over_simulation("Checked", [](LocalOptions& options) { options.checked = true; })),
    maker_name);

}  // namespace
}  // namespace lanyard::nic_contract
