// PreparedPlan: what a matched request posts at its every start, handed to the NIC before the first (nic.h, N14), so
// that a start brings nothing but thresholds.
#ifndef LANYARD_TRANSPORT_CORE_PREPARED_PLAN_H_
#define LANYARD_TRANSPORT_CORE_PREPARED_PLAN_H_

#include <cstdint>
#include <vector>

#include "transport/base/status.h"
#include "transport/core/request.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

// Hands over what of the plan has not been; of what is there already nothing. Requires that the plan stays as it is
// from now on. Errors as nic::Nic::prepare(); may then be repeated.
Status prepare_plan(nic::Nic& nic, Request& request);

// Appends what the iteration's start posts. What is shared waits for `shared` to reach `ring`. Requires that it is
// prepared.
inline void append_postings(const Request& request, uint64_t iteration, nic::CounterId shared, uint64_t ring,
                            std::vector<nic::Posting>& postings) {
  for (const PreparedOp& op : request.prepared) {
    const bool own = op.trigger.valid();
    postings.push_back({op.id, own ? op.trigger : shared, own ? op.step * iteration + op.base : ring, iteration});
  }
}

// Appends the same postings as whole operations, for whoever keeps them while the NIC has no room; `postings` begin
// with the request's.
void append_deferred(const Request& request, const nic::Posting* postings, std::vector<nic::DeferredOp>& ops);

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_PREPARED_PLAN_H_
