// TransferWaits: what the operations of starts wait for: the nodes of the wait-for graph that are the cards'.
#ifndef LANYARD_NICSIM_DETERMINISTIC_TRANSFER_WAITS_H_
#define LANYARD_NICSIM_DETERMINISTIC_TRANSFER_WAITS_H_

#include <cstdint>
#include <string>

#include "nicsim/deterministic/wait_node.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

// Of a world where nothing moves any more, and ranks that were not killed.
class TransferWaits {
 public:
  explicit TransferWaits(const World& world) : world_(world) {}

  // Why the request's done word has not grown for that iteration, why the message's data has not been written, and why
  // its receiver has not sent a clear-to-send.
  WaitLink done(RequestName request, uint64_t iteration) const;
  WaitLink data(uint32_t message, uint64_t iteration) const;
  WaitLink clear(uint32_t message, uint64_t iteration) const;

 private:
  uint64_t waiting(const Side& side, nic::CounterId counter, Transit::Role role) const;
  bool overflows(const Side& side) const;
  bool was_told(const Side& side) const;
  WaitLink not_posted(const std::string& what, RequestName request, uint64_t iteration) const;
  WaitLink flag(RequestName receive, uint64_t iteration) const;
  WaitLink on_shared_trigger(const std::string& what, RequestName request, uint64_t iteration,
                             Transit::Role role) const;

  const World& world_;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_TRANSFER_WAITS_H_
