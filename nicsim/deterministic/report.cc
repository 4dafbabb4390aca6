#include "nicsim/deterministic/report.h"

namespace lanyard::nicsim {

const char* finding_name(Finding finding) {
  switch (finding) {
    case Finding::kNone: return "NOTHING";
    case Finding::kIntegrity: return "INTEGRITY";
    case Finding::kOrder: return "ORDER";
    case Finding::kDeadlock: return "DEADLOCK";
    case Finding::kLivelock: return "LIVELOCK";
    case Finding::kLeak: return "LEAK";
    case Finding::kNondeterminism: return "NONDETERMINISM";
    case Finding::kUser: return "USER ERROR";
  }
  return "UNKNOWN";
}

int exit_status(Finding finding) { return finding == Finding::kNone ? 0 : 9 + static_cast<int>(finding); }

}  // namespace lanyard::nicsim
