// ThreadedNic: the NIC contract, over every wire, all its NICs in one process.
#include "nicsim/threaded/threaded_nic.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/local_fabric.h"
#include "tests/nic_contract.h"

namespace lanyard::nic_contract {
namespace {

struct ThreadedFabric final : NicFabric {
  explicit ThreadedFabric(size_t nics, const LocalOptions& options) : local(nics, options) {}
  size_t size() override { return local.size(); }
  Nic& nic(size_t rank) override { return local.nic(rank); }
  LocalFabric local;
};

LocalOptions local_options(const FabricOptions& options) {
  return {.limits = {.deferred_depth = options.deferred_depth,
                     .max_counters = options.max_counters,
                     .max_regions = options.max_regions,
                     .max_message_bytes = options.max_message_bytes},
          .connected = options.connected};
}

NicMaker over(std::string name, void (*adapt)(LocalOptions& options)) {
  return {std::move(name), [adapt](const FabricOptions& wish) {
            LocalOptions options = local_options(wish);
            adapt(options);
            return std::make_unique<ThreadedFabric>(wish.nics, options);
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Threaded, NicContract,
    ::testing::Values(over("Shm", [](LocalOptions&) {}),
                      over("ShmWithoutCma", [](LocalOptions& options) { options.use_cma = false; }),
                      // An inbox of two slots: every burst finds it full.
                      over("ShmNarrow", [](LocalOptions& options) { options.slots = 2; }),
                      over("Tcp",
                           [](LocalOptions& options) { options.wire = LocalOptions::Wire::kTcp; }),
                      over("Checked", [](LocalOptions& options) { options.checked = true; })),
    maker_name);

}  // namespace
}  // namespace lanyard::nic_contract
