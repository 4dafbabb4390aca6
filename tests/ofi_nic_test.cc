// OfiNic: the NIC contract over libfabric's sockets provider, all its NICs in one process.
#include "transport/cxi/ofi_nic.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/nic_contract.h"
#include "transport/base/check.h"
#include "transport/nic/checked_nic.h"

namespace lanyard::nic_contract {
namespace {

struct OfiFabric final : NicFabric {
  size_t size() override { return nics.size(); }
  Nic& nic(size_t rank) override { return *nics[rank]; }
  std::vector<std::unique_ptr<Nic>> nics;
};

// Null where the provider is not there.
std::unique_ptr<NicFabric> make_fabric(const FabricOptions& wish, bool checked) {
  auto fabric = std::make_unique<OfiFabric>();
  std::vector<nic::Address> addresses;
  for (size_t rank = 0; rank < wish.nics; ++rank) {
    Result<std::unique_ptr<ofi::OfiNic>> nic = ofi::OfiNic::open({.provider = "sockets",
                                                                 .deferred_depth = wish.deferred_depth,
                                                                 .max_counters = wish.max_counters,
                                                                 .max_regions = wish.max_regions,
                                                                 .max_message_bytes = wish.max_message_bytes});
    if (!nic.ok()) {
      LANYARD_CHECK(nic.status().code() == Code::kUnsupported, nic.status().message().c_str());
      std::printf("SKIPPED: %s\n", nic.status().message().c_str());
      return nullptr;
    }
    addresses.push_back(nic.value()->address());
    if (checked)
      fabric->nics.push_back(std::make_unique<nic::CheckedNic>(std::move(nic.value())));
    else
      fabric->nics.push_back(std::move(nic.value()));
  }
  if (!wish.connected) return fabric;
  for (uint32_t rank = 0; rank < wish.nics; ++rank) {
    const Status status = fabric->nics[rank]->set_peers(addresses, rank);
    LANYARD_CHECK(status.ok(), status.message().c_str());
  }
  return fabric;
}

INSTANTIATE_TEST_SUITE_P(Sockets, NicContract,
                         ::testing::Values(NicMaker{"Plain", [](const FabricOptions& wish) { return make_fabric(wish, false); }},
                                           NicMaker{"Checked", [](const FabricOptions& wish) { return make_fabric(wish, true); }}),
                         maker_name);

}  // namespace
}  // namespace lanyard::nic_contract
