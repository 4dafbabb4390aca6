#include "transport/core/plan.h"

#include <algorithm>

namespace lanyard::core {

namespace {

nic::Op increment(const PlanContext& context, uint32_t peer, nic::RemoteKey key, uint64_t offset) {
  return {.kind = nic::OpKind::kAtomic,
          .atomic = nic::AtomicKind::kSum,
          .local = {context.one.region, context.one.offset},
          .remote = {peer, key, offset},
          .context = context.context};
}

// An operation on the request's trigger, or on the shared trigger of its queue.
Post at_trigger(const Request& request, const nic::Op& op, bool shared) {
  if (shared)
    return {.op = op};
  return {.op = op, .trigger = request.trigger, .step = request.trigger_step(), .base = request.trigger_base};
}

// Strategy B: the remote increment that tells the receiver's stream when all pieces are delivered.
// Its own completion is the last of the start.
Post raise_flag(const Request& request, const PeerKeys& keys, const PlanContext& context, uint64_t count) {
  nic::Op op = increment(context, request.matched_nic, keys.flag, 0);
  op.level = nic::CompletionLevel::kDelivery;
  op.completion = request.completion;
  if (request.exchange != nullptr)
    return {.op = op, .trigger = request.written, .step = count};
  return {.op = op, .trigger = request.completion, .step = count + 1, .base = uint64_t{0} - 1};
}

void plan_send(const Request& request, const PeerKeys& keys, const PlanContext& context, std::vector<Post>& plan) {
  const uint64_t count = pieces_of(request.transfer.bytes, context.max_message_bytes);
  const bool flag = raises_flags(context.strategy);
  for (uint64_t piece = 0; piece < count; ++piece) {
    nic::Op op;
    op.kind = nic::OpKind::kWrite;
    op.level = flag ? nic::CompletionLevel::kDelivery : nic::CompletionLevel::kTransmit;
    op.completion = flag && request.exchange != nullptr ? request.written : request.completion;
    op.local = {request.buffer, piece * context.max_message_bytes};
    op.remote = {request.matched_nic, keys.buffer, piece * context.max_message_bytes};
    op.bytes = std::min(context.max_message_bytes, request.transfer.bytes - op.local.offset);
    op.context = context.context;
    const bool shared = keys.ready && request.exchange == nullptr;
    plan.push_back(at_trigger(request, op, shared));
  }
  if (flag)
    plan.push_back(raise_flag(request, keys, context, count));
  if (request.exchange == nullptr)
    plan.push_back(tell_stream(request, context, completions_of(request, context)));
}

void plan_receive(const Request& request, const PeerKeys& keys, const PlanContext& context, std::vector<Post>& plan) {
  const uint64_t count = pieces_of(request.matched_bytes, context.max_message_bytes);
  if (!raises_flags(context.strategy) && request.exchange == nullptr)
    plan.push_back(tell_stream(request, context, count));
  if (!keys.ready)
    plan.push_back(
        at_trigger(request, increment(context, request.matched_nic, keys.clear_to_send, 0), !request.trigger.valid()));
}

}  // namespace

Post tell_stream(const Request& request, const PlanContext& context, uint64_t completions) {
  const nic::Op op = increment(context, context.self, request.done.key, request.done.offset);
  return {.op = op, .trigger = request.completion, .step = completions};
}

uint64_t completions_of(const Request& request, const PlanContext& context) {
  if (raises_flags(context.strategy) && request.exchange != nullptr)
    return 1;
  const bool flag = raises_flags(context.strategy) && request.transfer.direction == Direction::kSend;
  return pieces_of(request.matched_bytes, context.max_message_bytes) + (flag ? 1 : 0);
}

uint64_t trigger_base(const nic::Caps& caps) {
  constexpr uint64_t kFar = uint64_t{1} << 40;
  return caps.cancel ? 0 : kFar;
}

uint64_t most_starts(Strategy strategy, bool ready, uint64_t pieces, uint64_t trigger_base) {
  const uint64_t left = nic::kMaxSuccess - trigger_base;
  return left / std::max<uint64_t>(ready ? 1 : 2, pieces + (raises_flags(strategy) ? 1 : 0));
}

uint64_t pieces_of(uint64_t bytes, uint64_t longest) { return std::max<uint64_t>(1, (bytes + longest - 1) / longest); }

std::vector<Post> make_plan(const Request& request, const PeerKeys& keys, const PlanContext& context) {
  std::vector<Post> plan;
  plan.reserve(pieces_of(request.matched_bytes, context.max_message_bytes) + 2);
  if (request.transfer.direction == Direction::kSend)
    plan_send(request, keys, context, plan);
  else
    plan_receive(request, keys, context, plan);
  return plan;
}

Status prepare_plan(nic::Nic& nic, Request& request) {
  for (Post& post : request.plan)
    if (!post.id.valid()) {
      LANYARD_ASSIGN_OR_RETURN(post.id, nic.prepare(post.op));
    }
  return {};
}

void append_postings(const Request& request, uint64_t start, nic::CounterId queue_trigger, uint64_t ring,
                     std::vector<nic::Posting>& postings) {
  for (const Post& post : request.plan)
    if (post.trigger.valid())
      postings.push_back({post.id, post.trigger, post.step * start + post.base, start});
    else
      postings.push_back({post.id, queue_trigger, ring, start});
}

}  // namespace lanyard::core
