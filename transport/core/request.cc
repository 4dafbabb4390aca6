#include "transport/core/request.h"

namespace lanyard::core {

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
