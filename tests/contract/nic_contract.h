// The contract of transport/nic/nic.h as tests for every implementation. Each row is named for its
// rule (N1-N14 of nic.h) or its subject. The whole test of an implementation is
//
//   #include "tests/contract/nic_contract.h"
//   using namespace lanyard::nic_contract;
//   struct MyFabric : NicFabric { ... };  // some NICs that know each other
//   INSTANTIATE_TEST_SUITE_P(My, NicContract,
//                            ::testing::Values(NicMaker{"Plain", [](const FabricOptions& options) {
//                              return std::make_unique<MyFabric>(options);
//                            }}),
//                            maker_name);
//
// Include it in one source file of a test. Rows for abilities that the NIC does not claim are
// skipped. A row waits 20 s for what must happen, and some milliseconds for what must not happen. A
// correct NIC has no reports under tsan.
#ifndef LANYARD_TESTS_NIC_CONTRACT_H_
#define LANYARD_TESTS_NIC_CONTRACT_H_

#include "tests/contract/nic_contract_alone.h"
#include "tests/contract/nic_contract_counters.h"
#include "tests/contract/nic_contract_data.h"
#include "tests/contract/nic_contract_entries.h"
#include "tests/contract/nic_contract_failures.h"
#include "tests/contract/nic_contract_fixture.h"
#include "tests/contract/nic_contract_refusals.h"

#endif  // LANYARD_TESTS_NIC_CONTRACT_H_
