// The packed memory of requests whose buffers have gaps.
#ifndef LANYARD_API_STAGING_H_
#define LANYARD_API_STAGING_H_

#include "api/context.h"
#include "api/request_table.h"
#include "transport/base/status.h"

namespace lanyard::api {

// Gives the record's core request the packed memory that is transferred in place of its buffer, where that has gaps and
// it has none yet. kExhausted: no memory; else as Backend::make_packing(). Requires a core request that is not
// matching.
Status give_packing(Context& context, RequestRecord& record) LANYARD_REQUIRES(context_locked);

}  // namespace lanyard::api

#endif  // LANYARD_API_STAGING_H_
