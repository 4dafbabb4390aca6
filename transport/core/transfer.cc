#include "transport/core/transfer.h"

namespace lanyard::core {

std::string Transfer::describe() const {
  const auto or_any = [](int value) { return value < 0 ? std::string("any") : std::to_string(value); };
  const char* what = direction == Direction::kReceive ? "recv" : ready ? "rsend" : "send";
  return std::string(what) + ", peer " + (peer == kNobody ? "none" : or_any(peer)) + ", tag " + or_any(tag) + ", " +
         std::to_string(bytes) + " B" + (part_of == nullptr ? "" : ", of " + *part_of);
}

}  // namespace lanyard::core
