// SimulatedFabric: threaded NICs over a real wire, as the NIC contract takes them.
#ifndef LANYARD_TESTS_SIMULATED_FABRIC_H_
#define LANYARD_TESTS_SIMULATED_FABRIC_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/contract/local_fabric.h"
#include "tests/contract/nic_contract_fixture.h"

namespace lanyard::nic_contract {

struct SimulatedFabric final : NicFabric {
  SimulatedFabric(size_t nics, const LocalOptions& options) : local(nics, options) {}
  size_t size() override { return local.size(); }
  Nic& nic(size_t rank) override { return local.nic(rank); }
  LocalFabric local;
};

// `adapt` changes what is not the row's to wish for: the wire, and what stands before the NIC.
inline NicMaker over_simulation(std::string name, std::function<void(LocalOptions&)> adapt) {
  return {std::move(name), [adapt = std::move(adapt)](const FabricOptions& wish) {
            LocalOptions options{.limits = {.deferred_depth = wish.deferred_depth,
                                            .max_counters = wish.max_counters,
                                            .max_regions = wish.max_regions,
                                            .max_message_bytes = wish.max_message_bytes},
                                 .connected = wish.connected};
            adapt(options);
            return std::make_unique<SimulatedFabric>(wish.nics, options);
          }};
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_SIMULATED_FABRIC_H_
