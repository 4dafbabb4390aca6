// The contract of transport/nic/nic.h as tests for every implementation. Each row is named for the rule (N1-N14 of
// nic.h) or the subject that it covers. An implementation's whole test is
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
// Include it in one source file of a test. What the NIC does not claim is skipped. What must happen is given 20 s, what
// must not happen some milliseconds to show. A right NIC is clean under tsan.
#ifndef LANYARD_TESTS_NIC_CONTRACT_H_
#define LANYARD_TESTS_NIC_CONTRACT_H_

#include "tests/contract/nic_contract_counters.h"
#include "tests/contract/nic_contract_data.h"
#include "tests/contract/nic_contract_doorbells.h"
#include "tests/contract/nic_contract_entries.h"
#include "tests/contract/nic_contract_failures.h"
#include "tests/contract/nic_contract_fixture.h"
#include "tests/contract/nic_contract_refusals.h"
#include "tests/contract/nic_contract_threads.h"

#endif  // LANYARD_TESTS_NIC_CONTRACT_H_
