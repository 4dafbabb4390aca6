// Fabrics for the NIC contract, each of one job in this process: the simulator's model in orders
// that a seed draws, threaded NICs over a real wire, and NICs over libfabric's CXI provider.
#ifndef LANYARD_TESTS_CONTRACT_CONTRACT_FABRICS_H_
#define LANYARD_TESTS_CONTRACT_CONTRACT_FABRICS_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/local_fabric.h"
#include "tests/contract/model_fabric.h"
#include "tests/contract/nic_contract_fixture.h"
#include "transport/base/check.h"
#include "transport/cxi/ofi_nic.h"
#include "transport/nic/checked_nic.h"
#include "transport/nic/nic.h"

namespace lanyard::nic_contract {

// NICs added one by one. If `checked`, the last is behind a CheckedNic.
struct JoinedFabric : NicFabric {
  size_t size() override { return nics.size(); }
  Nic& nic(size_t rank) override { return *nics[rank]; }
  void add(std::unique_ptr<Nic> nic, bool checked) {
    nics.push_back(checked ? std::make_unique<nic::CheckedNic>(std::move(nic)) : std::move(nic));
  }
  void connect() {
    std::vector<nic::Address> addresses;
    for (const auto& nic : nics)
      addresses.push_back(nic->address());
    for (uint32_t rank = 0; rank < nics.size(); ++rank) {
      const Status status = nics[rank]->set_peers(addresses, rank);
      LANYARD_CHECK(status.ok(), status.message().c_str());
    }
  }
  std::vector<std::unique_ptr<Nic>> nics;
};

// Threads: any, one after the other. So a row that starts threads does not replay exactly;
// other rows do.
struct DeterministicFabric final : JoinedFabric {
  DeterministicFabric(const FabricOptions& wish, uint64_t seed, bool checked)
      : model(wish.nics,
              {.deferred_depth = wish.deferred_depth,
               .max_counters = wish.max_counters,
               .max_regions = wish.max_regions,
               .max_message_bytes = wish.max_message_bytes},
              false, seed) {
    for (size_t rank = 0; rank < wish.nics; ++rank)
      add(std::make_unique<nic::ForwardingNic>(model.nic(rank)), checked);
    if (wish.connected)
      connect();
  }
  ~DeterministicFabric() override { nics.clear(); }
  bool works_alone() const override { return false; }

  ModelFabric model;
};

inline NicMaker over_steps(std::string name, uint64_t seed, bool checked) {
  return {std::move(name), [seed, checked](const FabricOptions& wish) {
            return std::make_unique<DeterministicFabric>(wish, seed, checked);
          }};
}

struct SimulatedFabric final : NicFabric {
  SimulatedFabric(size_t nics, const LocalOptions& options) : local(nics, options) {}
  size_t size() override { return local.size(); }
  Nic& nic(size_t rank) override { return local.nic(rank); }
  LocalFabric local;
};

// `adapt` sets what a row cannot choose: the wire, and the code between test and NIC.
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

// Whether to rely on that promise of the provider (OfiOptions::counts_both).
inline bool counts_both() {
  const char* value = std::getenv("LANYARD_OFI_COUNTS_BOTH");
  return value == nullptr || std::string(value) != "off";
}

// Returns null, and prints the reason, if the provider is missing.
inline std::unique_ptr<NicFabric> make_ofi_fabric(bool checked, const FabricOptions& wish) {
  auto fabric = std::make_unique<JoinedFabric>();
  for (size_t rank = 0; rank < wish.nics; ++rank) {
    // The simulated provider takes its number from the launcher.
    ::setenv("OMPI_COMM_WORLD_RANK", std::to_string(rank).c_str(), 1);
    ::setenv("OMPI_COMM_WORLD_SIZE", std::to_string(wish.nics).c_str(), 1);
    Result<std::unique_ptr<ofi::OfiNic>> nic = ofi::OfiNic::open({.deferred_depth = wish.deferred_depth,
                                                                  .max_counters = wish.max_counters,
                                                                  .max_regions = wish.max_regions,
                                                                  .max_message_bytes = wish.max_message_bytes,
                                                                  .counts_both = counts_both()});
    if (nic.status().code() == Code::kUnsupported) {
      std::printf("SKIPPED: %s\n", nic.status().message().c_str());
      return nullptr;
    }
    LANYARD_CHECK(nic.ok(), nic.status().message().c_str());
    fabric->add(std::move(nic.value()), checked);
  }
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  if (wish.connected)
    fabric->connect();
  return fabric;
}

inline NicMaker over_ofi(std::string name, bool checked) {
  return {std::move(name), [checked](const FabricOptions& wish) { return make_ofi_fabric(checked, wish); }};
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_CONTRACT_CONTRACT_FABRICS_H_
