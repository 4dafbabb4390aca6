#include "transport/core/request.h"

namespace lanyard::core {

std::string Transfer::describe() const {
  const auto or_any = [](int value) { return value < 0 ? std::string("any") : std::to_string(value); };
  const char* what = direction == Direction::kReceive ? "recv" : ready ? "rsend" : "send";
  return std::string(what) + ", peer " + (peer == kNobody ? "none" : or_any(peer)) + ", tag " + or_any(tag) + ", " +
         std::to_string(bytes) + " B" + (part_of == nullptr ? "" : ", of " + *part_of);
}

std::string Request::describe() const {
  if (state != State::kMatched)
    return transfer.describe();
  Transfer actual = transfer;
  actual.peer = matched_peer;
  actual.tag = matched_tag;
  actual.bytes = matched_bytes;
  return actual.describe();
}

}  // namespace lanyard::core
