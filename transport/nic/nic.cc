#include "transport/nic/nic.h"

namespace lanyard::nic {

std::string FailureRecord::to_string() const {
  const char* why =
      code == Code::kUnmapped ? ": the memory of the operation, here or there, is not mapped any more" : "";
  return std::string(code_name(code)) + why + " (peer " + std::to_string(peer) + ", context " +
         std::to_string(context) + ")";
}

}  // namespace lanyard::nic
