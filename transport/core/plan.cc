#include "transport/core/plan.h"

#include <algorithm>

#include "transport/base/mutant.h"

namespace lanyard::core {

namespace {

uint64_t pieces(uint64_t bytes, uint64_t longest) { return std::max<uint64_t>(1, (bytes + longest - 1) / longest); }

nic::Op increment(const PlanContext& context, uint32_t peer, nic::RemoteKey key, uint64_t offset) {
  nic::Op op;
  op.kind = nic::OpKind::kAtomic;
  op.atomic = nic::AtomicKind::kSum;
  op.local = {context.one.region, context.one.offset};
  op.remote = {peer, key, offset};
  op.context = context.context;
  return op;
}

// The local atomic that tells the stream: once `completion` has counted every piece of iteration i.
PlannedOp tell_stream(const Request& request, const PlanContext& context, uint64_t count) {
  const nic::Op op = increment(context, context.self, request.done.key, request.done.offset);
  if (LANYARD_MUTANT(9) && request.trigger.valid())
    return {.op = {.op = op, .trigger = request.trigger, .threshold = 0}, .step = 2, .shared = false};
  return {.op = {.op = op, .trigger = request.completion, .threshold = 0}, .step = count, .shared = false};
}

void plan_send(const Request& request, const PeerKeys& keys, const PlanContext& context, std::vector<PlannedOp>& plan) {
  const uint64_t count = pieces(request.transfer.bytes, context.max_message_bytes);
  for (uint64_t piece = 0; piece < count; ++piece) {
    nic::Op op;
    op.kind = nic::OpKind::kWrite;
    op.completion = request.completion;
    op.local = {request.buffer, piece * context.max_message_bytes};
    op.remote = {request.matched_nic, keys.buffer, piece * context.max_message_bytes};
    op.bytes = std::min(context.max_message_bytes, request.transfer.bytes - op.local.offset);
    op.context = context.context;
    plan.push_back({.op = {.op = op, .trigger = request.trigger, .threshold = 0}, .step = 2, .shared = keys.ready || LANYARD_MUTANT(14)});
  }
  plan.push_back(tell_stream(request, context, count));
}

void plan_receive(const Request& request, const PeerKeys& keys, const PlanContext& context,
                  std::vector<PlannedOp>& plan) {
  const uint64_t count = pieces(request.matched_bytes, context.max_message_bytes);
  plan.push_back(tell_stream(request, context, LANYARD_MUTANT(10) ? 1 : count));
  if (!keys.ready) {
    const nic::Op op = increment(context, request.matched_nic, keys.clear_to_send, 0);
    plan.push_back({.op = {.op = op, .trigger = {}, .threshold = 0}, .step = 0, .shared = true});
    if (LANYARD_MUTANT(5))
      plan.push_back(plan.back());
  }
}

}  // namespace

std::vector<PlannedOp> make_plan(const Request& request, const PeerKeys& keys, const PlanContext& context) {
  std::vector<PlannedOp> plan;
  if (request.transfer.direction == Direction::kSend)
    plan_send(request, keys, context, plan);
  else
    plan_receive(request, keys, context, plan);
  return plan;
}

}  // namespace lanyard::core
