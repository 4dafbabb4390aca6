// ProgramWaits: what hosts and their streams wait for: the nodes of the wait-for graph that are the program's.
#ifndef LANYARD_NICSIM_DETERMINISTIC_PROGRAM_WAITS_H_
#define LANYARD_NICSIM_DETERMINISTIC_PROGRAM_WAITS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "nicsim/deterministic/wait_node.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

// Of a world where nothing moves any more, and ranks that were not killed.
class ProgramWaits {
 public:
  explicit ProgramWaits(const World& world) : world_(world) {}

  // Why the host does not go on, why the stream does not, and why that start is not made or promised.
  WaitLink host(uint32_t rank) const;
  WaitLink stream(uint32_t rank, uint32_t queue) const;
  WaitLink start(RequestName request, uint64_t iteration) const;

 private:
  WaitLink unmatched(const std::string& who, const Action& action) const;
  WaitLink no_room(uint32_t rank, const std::string& who) const;
  std::optional<uint32_t> incomplete(uint32_t rank, bool lost, bool earlier) const;

  const World& world_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_PROGRAM_WAITS_H_
