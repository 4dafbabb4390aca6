// Portfolio: the configurations that `lanyard fuzz` runs where it is told none.
#ifndef LANYARD_TOOLS_LANYARD_PORTFOLIO_H_
#define LANYARD_TOOLS_LANYARD_PORTFOLIO_H_

#include <vector>

#include "nicsim/deterministic/config.h"

namespace lanyard::tools {

// No schedule of any of them has anything to be found while the protocol and the model are right.
std::vector<nicsim::Config> portfolio();

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_PORTFOLIO_H_
