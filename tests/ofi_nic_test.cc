// OfiNic: the NIC contract over libfabric's sockets provider.
#include <gtest/gtest.h>

#include "tests/nic_contract.h"
#include "tests/ofi_fabric.h"

// The sockets provider forgets, and does not free, deferred work that still waits when its counter
// is closed. The sanitizer asks this function, where there is one.
extern "C" const char* __lsan_default_suppressions() { return "leak:libfabric.so"; }

namespace lanyard::nic_contract {
namespace {

INSTANTIATE_TEST_SUITE_P(Sockets, NicContract,
                         ::testing::Values(over_ofi("Plain", "sockets", false), over_ofi("Checked", "sockets", true)),
                         maker_name);

}  // namespace
}  // namespace lanyard::nic_contract
