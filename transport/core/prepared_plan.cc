#include "transport/core/prepared_plan.h"

#include "transport/core/plan.h"

namespace lanyard::core {

Status prepare_plan(nic::Nic& nic, Request& request) {
  request.prepared.reserve(request.plan.size());
  while (request.prepared.size() < request.plan.size()) {
    const PlannedOp& planned = request.plan[request.prepared.size()];
    const Result<nic::PreparedId> id = nic.prepare(planned.op.op);
    if (!id.ok())
      return id.status();
    PreparedOp op;
    op.id = id.value();
    if (!planned.shared) {
      op.trigger = planned.op.trigger;
      op.step = planned.step;
      op.base = threshold_of(request, planned, 0);
    }
    request.prepared.push_back(op);
  }
  request.is_prepared = true;
  return {};
}

void append_deferred(const Request& request, const nic::Posting* postings, std::vector<nic::DeferredOp>& ops) {
  for (const PlannedOp& planned : request.plan) {
    nic::DeferredOp& op = ops.emplace_back(planned.op);
    op.op.start = postings->start;
    op.trigger = postings->trigger;
    op.threshold = postings->threshold;
    ++postings;
  }
}

}  // namespace lanyard::core
