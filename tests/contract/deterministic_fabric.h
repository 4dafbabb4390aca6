// DeterministicFabric: the simulator's model under the NIC contract, without a device's threads, its steps in the order
// of a seed: ModelFabric as one of the contract's fabrics.
#ifndef LANYARD_TESTS_DETERMINISTIC_FABRIC_H_
#define LANYARD_TESTS_DETERMINISTIC_FABRIC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/model_fabric.h"
#include "tests/contract/nic_contract_fixture.h"
#include "transport/base/check.h"
#include "transport/nic/checked_nic.h"
#include "transport/nic/forwarding_nic.h"

namespace lanyard::nic_contract {

// Threads: any, one after the other. A row that starts threads is therefore no replay of itself, others are.
class DeterministicFabric final : public NicFabric {
 public:
  DeterministicFabric(const FabricOptions& wish, uint64_t seed, bool checked)
      : model_(wish.nics,
               {.deferred_depth = wish.deferred_depth,
                .max_counters = wish.max_counters,
                .max_regions = wish.max_regions,
                .max_message_bytes = wish.max_message_bytes},
               false, seed) {
    std::vector<nic::Address> addresses;
    for (size_t rank = 0; rank < wish.nics; ++rank) {
      std::unique_ptr<Nic> nic = std::make_unique<nic::ForwardingNic>(model_.nic(rank));
      if (checked)
        nic = std::make_unique<nic::CheckedNic>(std::move(nic));
      addresses.push_back(nic->address());
      nics_.push_back(std::move(nic));
    }
    for (uint32_t rank = 0; wish.connected && rank < nics_.size(); ++rank)
      LANYARD_CHECK(nics_[rank]->set_peers(addresses, rank).ok(), "they are its own NICs");
  }

  size_t size() override { return nics_.size(); }
  Nic& nic(size_t rank) override { return *nics_[rank]; }
  bool works_alone() const override { return false; }

 private:
  ModelFabric model_;
  std::vector<std::unique_ptr<Nic>> nics_;
};

inline NicMaker over_steps(std::string name, uint64_t seed, bool checked) {
  return {std::move(name), [seed, checked](const FabricOptions& wish) {
            return std::make_unique<DeterministicFabric>(wish, seed, checked);
          }};
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_DETERMINISTIC_FABRIC_H_
