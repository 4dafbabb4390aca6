// Hints on persistent requests, as a matching call follows them.
#ifndef LANYARD_API_REQUEST_INFO_H_
#define LANYARD_API_REQUEST_INFO_H_

#include <vector>

#include "api/context.h"

namespace lanyard::api {

// Makes exchanges of those requests of a matching call whose matches have not begun, by the names in their hints; or
// leaves it, and notes why. Requires their core's requests.
void make_exchanges(Context& context, const std::vector<RequestRecord*>& records) LANYARD_REQUIRES(context_locked);

}  // namespace lanyard::api

#endif  // LANYARD_API_REQUEST_INFO_H_
