// WaitChain: who waits for whom in a world where nothing moves any more, link by link, to the first thing that will
// never happen or round in a circle.
#ifndef LANYARD_NICSIM_DETERMINISTIC_WAIT_CHAIN_H_
#define LANYARD_NICSIM_DETERMINISTIC_WAIT_CHAIN_H_

#include <string>
#include <vector>

#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

struct WaitChain {
  enum class Blame {
    kUser,      // the program's own order, or a start that it never makes
    kPool,      // entries that are not there
    kProtocol,  // something that should have happened did not
    kFailure,   // an operation that failed, which the program is told
  };

  // Of whatever waits, the first that a failure or a death does not explain; where they explain all, the last. Requires
  // a world without enabled agents that has not finished.
  static WaitChain of(const World& world);

  Blame blame = Blame::kProtocol;
  std::vector<std::string> links;
  bool cycle = false;
  std::string text;  // the links, " <- " between them
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_WAIT_CHAIN_H_
