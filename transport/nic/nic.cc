#include "transport/nic/nic.h"

namespace lanyard::nic {

std::string FailureRecord::to_string() const {
  return std::string(code_name(code)) + " (peer " + std::to_string(peer) + ", context " + std::to_string(context) + ")";
}

}  // namespace lanyard::nic
