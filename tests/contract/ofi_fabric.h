// OfiFabric: the NICs of one job over libfabric's CXI provider, all in this process.
#ifndef LANYARD_TESTS_OFI_FABRIC_H_
#define LANYARD_TESTS_OFI_FABRIC_H_

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/nic_contract_fixture.h"
#include "transport/base/check.h"
#include "transport/cxi/ofi_nic.h"
#include "transport/nic/checked_nic.h"

namespace lanyard::nic_contract {

struct OfiFabric final : NicFabric {
  size_t size() override { return nics.size(); }
  Nic& nic(size_t rank) override { return *nics[rank]; }
  std::vector<std::unique_ptr<Nic>> nics;
};

// Whether to rely on that promise of the provider's (OfiOptions::counts_both).
inline bool counts_both() {
  const char* value = std::getenv("LANYARD_OFI_COUNTS_BOTH");
  return value == nullptr || std::string(value) != "off";
}

// Null, and a line that says why, where the provider is not there.
inline std::unique_ptr<NicFabric> make_ofi_fabric(bool checked, const FabricOptions& wish) {
  auto fabric = std::make_unique<OfiFabric>();
  std::vector<nic::Address> addresses;
  for (size_t rank = 0; rank < wish.nics; ++rank) {
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
    addresses.push_back(nic.value()->address());
    if (checked)
      fabric->nics.push_back(std::make_unique<nic::CheckedNic>(std::move(nic.value())));
    else
      fabric->nics.push_back(std::move(nic.value()));
  }
  for (uint32_t rank = 0; wish.connected && rank < wish.nics; ++rank) {
    const Status status = fabric->nics[rank]->set_peers(addresses, rank);
    LANYARD_CHECK(status.ok(), status.message().c_str());
  }
  return fabric;
}

inline NicMaker over_ofi(std::string name, bool checked) {
  return {std::move(name), [checked](const FabricOptions& wish) { return make_ofi_fabric(checked, wish); }};
}

}  // namespace lanyard::nic_contract

#endif  // LANYARD_TESTS_OFI_FABRIC_H_
