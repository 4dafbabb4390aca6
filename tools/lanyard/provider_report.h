// lanyard conformance --provider: the rules of a libfabric provider, row by row, as a report that can be sent on.
#ifndef LANYARD_TOOLS_LANYARD_PROVIDER_REPORT_H_
#define LANYARD_TOOLS_LANYARD_PROVIDER_REPORT_H_

#include <string>

namespace lanyard::tools {

struct ProviderReport {
  std::string rows = "*";  // names of rows, as a shell's pattern
  std::string like;        // 1.15, 1.22 or 2.x; empty: the libfabric that is loaded
  bool list = false;       // tells the rules and runs nothing
};

// The exit status: 0 where all rows that are offered passed, 1 where not or where there are none.
int report_provider(const ProviderReport& report);

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_PROVIDER_REPORT_H_
