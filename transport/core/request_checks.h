// What Queue's calls on requests check alike.
#ifndef LANYARD_TRANSPORT_CORE_REQUEST_CHECKS_H_
#define LANYARD_TRANSPORT_CORE_REQUEST_CHECKS_H_

#include <span>
#include <string>

#include "transport/base/status.h"
#include "transport/core/request.h"

namespace lanyard::core {

inline Status misuse(const Request& request, const char* what) {
  return {Code::kInvalidState, std::string(what) + " (" + request.describe() + ")"};
}

// Runs `check` on each request, and refuses one that stands in the call twice.
template <typename Check>
Status check_each(std::span<Request* const> requests, Check check) {
  if (requests.size() == 1)
    return check(*requests.front());
  Status status;
  size_t seen = 0;
  for (; seen < requests.size() && status.ok(); ++seen) {
    Request& request = *requests[seen];
    status = request.in_call ? misuse(request, "the request stands in the call twice") : check(request);
    request.in_call = true;
  }
  for (size_t i = 0; i < seen; ++i)
    requests[i]->in_call = false;
  return status;
}

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_REQUEST_CHECKS_H_
