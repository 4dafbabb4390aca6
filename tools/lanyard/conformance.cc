// lanyard-conformance: checks a NIC of this machine against every row of the NIC contract, and
// prints a report to pass on.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>
#include <utility>

#include "tests/contract/contract_fabrics.h"
#include "tests/contract/local_fabric.h"
#include "tests/contract/nic_contract.h"

namespace lanyard::nic_contract {
namespace {

// The NIC that main() chose. GoogleTest needs it at initialization.
NicMaker& chosen() {
  static NicMaker maker;
  return maker;
}

INSTANTIATE_TEST_SUITE_P(Conformance, NicContract, ::testing::Values(chosen()), maker_name);

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Prints a line when a row ends.
class Report final : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo&) override { why_.clear(); }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.passed())
      why_ += (why_.empty() ? "" : "; ") + first_line(result.message());
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const ::testing::TestResult& result = *info.result();
    const char* verdict = result.Skipped() ? "skipped" : result.Passed() ? "passed" : "FAILED";
    std::string row = info.name();
    row = row.substr(0, row.find('/'));
    fmt::print("{:44} {:8} {:>7} ms  {}\n", row, verdict, result.elapsed_time(), why_);
    std::fflush(stdout);
  }

 private:
  std::string why_;
};

const char* yes(bool claim) { return claim ? "yes" : "no"; }

// Prints the NIC's capabilities. Returns false if there is no NIC.
bool print_head(const std::string& nic) {
  // The makers of fabrics cannot report why libfabric's device cannot be opened.
  if (const Status status = nic == "sim" ? Status() : ofi::OfiNic::open({}).status(); !status.ok()) {
    fmt::print(stderr, "lanyard-conformance: cannot open a NIC: {}\n", status.message());
    return false;
  }
  const std::unique_ptr<NicFabric> fabric = chosen().make({});
  if (fabric == nullptr)
    return false;
  const nic::Caps& caps = fabric->nic(0).caps();
  utsname system{};
  uname(&system);
  fmt::print("lanyard-conformance --nic {}\n", nic);
  fmt::print("system    {} {} {}\n", system.sysname, system.release, system.machine);
  fmt::print("nic       {}, {}\n", caps.name, caps.provider);
  fmt::print("entries   {} (asked for {})\n", caps.deferred_depth, FabricOptions{}.deferred_depth);
  fmt::print("messages  up to {} bytes\n", caps.max_message_bytes);
  fmt::print(
      "claims    doorbell by register {}, by atomic {}, by call {}; flush {}; "
      "counted means visible {}; counters count both {}\n",
      yes(caps.doorbell_mmio_add), yes(caps.doorbell_atomic_add), yes(caps.doorbell_host_call), yes(caps.flush),
      yes(caps.target_count_means_visible), yes(caps.counters_count_both));
  for (const char* name : {"FI_PROVIDER_PATH", "FI_PROVIDER", "FI_CXI_ENABLE_TRIG_OP_LIMIT", "LANYARD_OFI_COUNTS_BOTH"})
    if (const char* value = std::getenv(name))
      fmt::print("with      {}={}\n", name, value);
  fmt::print("\n");
  return true;
}

}  // namespace
}  // namespace lanyard::nic_contract

int main(int argc, char** argv) {
  using namespace lanyard::nic_contract;
  std::string nic = "sim", rows = "*";
  CLI::App app{
      "Runs every row of the NIC contract on a NIC of this machine, all ranks in one process.\n"
      "Exit status: 0 if every row that the NIC claims passed; 1 if one failed, or there is no such NIC; 2 for wrong "
      "usage."};
  app.name("lanyard-conformance");
  app.add_option("--nic", nic, "the NIC: sim or cxi (default: sim)")
      ->check(CLI::IsMember({"sim", "cxi"}).description(""))
      ->type_name("NAME");
  app.add_option("--rows", rows, "check only these rows, for example N1_* (default: all)")->type_name("PATTERN");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    fmt::print(stderr, "lanyard-conformance: {} (see lanyard-conformance --help)\n", error.what());
    return 2;
  }
  setenv("IPATH_NO_BACKTRACE", "1", 0);  // else a handler of PSM turns crashes into exit 1
  chosen() = nic == "sim" ? over_simulation("Report", [](lanyard::LocalOptions&) {}) : over_ofi("Report", false);
  if (!print_head(nic))
    return 1;
  int count = 1;
  ::testing::InitGoogleTest(&count, argv);
  GTEST_FLAG_SET(filter, "*NicContract." + rows + "/*");
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Report);
  const int failed = RUN_ALL_TESTS();
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  const int skipped = all.skipped_test_count();
  const int passed = all.successful_test_count();
  fmt::print("\n{} passed, {} failed, {} skipped\n", passed, all.failed_test_count(), skipped);
  return failed != 0 || passed == 0 ? 1 : 0;
}
