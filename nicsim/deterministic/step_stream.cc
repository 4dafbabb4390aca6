// The streams of a World: the requests of each item, and what each item does.
#include "nicsim/deterministic/step_stream.h"

#include <algorithm>
#include <utility>

#include "nicsim/deterministic/oracles/oracles.h"
#include "nicsim/deterministic/world.h"
#include "transport/core/standing.h"

namespace lanyard::nicsim {

Status StepStream::enqueue(std::span<const gpu::StreamOp> ops) {
  using Kind = gpu::StreamOp::Kind;
  for (const gpu::StreamOp& op : ops)
    if (capture_ != 0 && (op.kind == Kind::kWait64 || op.kind == Kind::kCall))
      return {Code::kUnsupported, "this cannot be captured"};
  for (const gpu::StreamOp& op : ops) {
    const bool moves = op.kind == Kind::kPack || op.kind == Kind::kUnpack;
    const bool waits = op.kind == Kind::kWait64 || op.kind == Kind::kWaitNext64;
    push({.kind = moves ? StepItem::Kind::kMove : waits ? StepItem::Kind::kWait : StepItem::Kind::kRing, .op = op});
  }
  return {};
}

Result<uint64_t*> StepStream::take_count(uint64_t value) {
  return counts_.emplace_back(std::make_unique<uint64_t>(value)).get();
}

void StepStream::give_count(uint64_t* count) {
  std::erase_if(counts_, [count](const auto& each) { return each.get() == count; });
}

void StepStream::begin_capture() {
  graph_.clear();
  capture_ = ++captures_;
}

bool StepStream::ready() const {
  if (empty())
    return false;
  const StepItem& item = front();
  if (item.kind != StepItem::Kind::kWait)
    return true;
  const gpu::StreamOp& op = item.op;
  return *op.word >= (op.kind == gpu::StreamOp::Kind::kWaitNext64 ? *op.count : 0) + op.value;
}

bool StepStream::counts_for(uint32_t request) const {
  return std::any_of(items_.begin() + static_cast<ptrdiff_t>(head_), items_.end(), [request](const StepItem& item) {
    return item.op.count != nullptr && (item.start == request || item.request == request);
  });
}

void StepStream::pop() {
  if (const gpu::StreamOp& op = front().op; op.kind == gpu::StreamOp::Kind::kWaitNext64)
    *op.count += op.value;
  ++executed_;
  if (++head_ < items_.size())
    return;
  items_.clear();
  head_ = 0;
}

// ---- The requests of items

// Sets the requests of the items that a start or a wait has enqueued since `before`. Each item must
// have one, and each request that rings or waits an item.
void World::mark(Process& process, const Action& action, size_t before) {
  StepStream& stream = process.streams[action.queue]->stream;
  const bool starts = action.kind == Action::Kind::kStart;
  std::vector<uint32_t> rest;
  for (const RequestName request : action.requests) {
    rest.push_back(request.index);
    if (starts && stream.capturing() != 0)
      stands_now(process, state_->sides[request.index]);
  }
  // Members of an exchange share its trigger and done word. A request without a trigger uses the
  // queue's.
  const auto is_about = [&](const StepItem& item, const core::Request& core) {
    const core::Resources& own = core.exchange == nullptr ? core : std::as_const(core.exchange->shared);
    if (!starts)
      return own.done.valid() && own.done.address == item.op.word;
    const bool standing = core.standing != nullptr && core.standing->trigger.valid();
    return process.nic.rung_by(item.op) == (standing ? core.standing->trigger : own.trigger);
  };
  StepItem* shared = nullptr;
  for (StepItem& item : stream.since(before)) {
    mark_move(action, item);
    if (item.kind == StepItem::Kind::kMove)
      continue;
    uint32_t& first = starts ? item.start : item.request;
    std::erase_if(rest, [&](uint32_t request) {
      const core::Request& core = *state_->sides[request].core;
      if (!is_about(item, core))
        return false;
      if (core.exchange != nullptr && core.exchange->lead != &core) {
        item.others.push_back(request);
        return true;
      }
      first = request;
      item.number = core.number;
      // The stream may still ring after the exchange has been freed.
      if (starts && core.exchange != nullptr)
        process.nic.set_ring_value(core.exchange->shared.trigger, core.exchange->ring_value());
      return true;
    });
    if (first != StepItem::kNothing)
      continue;
    if (!starts || shared != nullptr)
      return find(Finding::kOrder, "order", process, "an item of the stream is for none of its requests");
    shared = &item;
  }
  if (shared != nullptr) {
    const auto alone = std::stable_partition(
        rest.begin(), rest.end(), [&](uint32_t request) { return state_->sides[request].core->shares_trigger; });
    shared->others.assign(rest.begin(), alone);
    rest.erase(rest.begin(), alone);
    if (shared->others.empty())
      return find(Finding::kOrder, "order", process, "a ring of the stream is for none of its requests");
  }
  for (const uint32_t request : rest) {
    const core::Request& core = *state_->sides[request].core;
    const bool rings = core.exchange == nullptr ? core.trigger.valid() : core.exchange->rings;
    if (stream.capturing() == 0 && (starts ? rings : core.done.valid()))
      return find(Finding::kOrder, "order", process, "the stream has no item for the " + scenario_.describe({request}));
    stream.push({.kind = StepItem::Kind::kMark,
                 .request = starts ? StepItem::kNothing : request,
                 .start = starts ? request : StepItem::kNothing});
  }
}

// If the item packs, unpacks or increments Resources::moved, sets its request, one of the action's.
void World::mark_move(const Action& action, StepItem& item) {
  using Kind = gpu::StreamOp::Kind;
  const bool writes = item.op.kind == Kind::kWrite64 || item.op.kind == Kind::kWriteNext64;
  if (item.kind != StepItem::Kind::kMove && !writes)
    return;
  for (const RequestName request : action.requests) {
    const core::Request& core = *state_->sides[request.index].core;
    if (writes ? core.moved.valid() && item.op.word == core.moved.address
               : core.packing != nullptr && item.op.object == core.packing.get()) {
      item.kind = StepItem::Kind::kMove;
      item.request = request.index;
      item.number = core.number;
    }
  }
  if (item.kind == StepItem::Kind::kMove && item.request == StepItem::kNothing)
    find(Finding::kOrder, "order", describe(action) + ": packs or unpacks for a request that it is not about");
}

// Counts the starts and waits of items that the host has enqueued.
void World::enter(uint32_t queue, std::span<StepItem> items) {
  for (StepItem& item : items) {
    item.for_each_waited([&](uint32_t request) {
      const uint64_t waits = ++state_->sides[request].waits;
      item.iteration = request == item.request ? waits : item.iteration;
    });
    item.for_each_started([&](uint32_t request) {
      Side& side = state_->sides[request];
      side.queue = queue;
      if (side.starts_on.size() <= queue)
        side.starts_on.resize(queue + 1);
      side.starts_on[queue] = ++side.starts;
    });
  }
}

// ---- Steps

void World::take_stream(Process& process, uint32_t queue) {
  StepStream& stream = process.streams[queue]->stream;
  const StepItem item = stream.front();
  if (item.kind == StepItem::Kind::kKernel)
    take_kernel(process, item);
  if (item.kind == StepItem::Kind::kMove)
    take_move(process, item);
  if (item.kind == StepItem::Kind::kRing) {
    process.nic.take_ring(item.op);
    if (process.driver != nullptr)
      nic_changed(process);  // libfabric has no event for a ring, so the driver reads its counters again
    if (item.start != StepItem::kNothing)
      oracle::check_rung(*this, process, item);
  }
  item.for_each_waited([&](uint32_t request) { oracle::check_waited(*this, request, item.iteration); });
  item.for_each_started([&](uint32_t request) { oracle::check_started(*this, request); });
  stream.pop();
  streams_changed(process);
}

void World::take_kernel(Process& process, const StepItem& item) {
  const RequestName send{2 * item.message}, receive{2 * item.message + 1};
  if (item.action == Action::Kind::kUnpack)
    return oracle::check_unpacked(*this, receive.index);
  if (item.action == Action::Kind::kPromise) {
    ++state_->promises[item.message];
    if (const uint32_t rank = scenario_.rank_of(send); rank != process.rank)
      streams_changed(*state_->processes[rank]);
    return;
  }
  oracle::check_packed(*this, send.index);
  Side& side = state_->sides[send.index];
  std::vector<std::byte> content(side.layout == nullptr ? side.buffer.size() : side.layout->bytes());
  fill_content(content, item.message, ++side.filled);
  for (uint64_t byte = 0; byte < content.size(); ++byte)
    side.buffer[place_of(side, byte)] = content[byte];
}

// Packs or unpacks a buffer with gaps, or increments Resources::moved.
void World::take_move(Process& process, const StepItem& item) {
  if (!oracle::check_moves(*this, item))
    return;
  switch (const gpu::StreamOp& op = item.op; op.kind) {
    case gpu::StreamOp::Kind::kPack: static_cast<gpu::Packing*>(op.object)->pack(op.value); break;
    case gpu::StreamOp::Kind::kUnpack: static_cast<gpu::Packing*>(op.object)->unpack(op.value); break;
    default:
      *op.word = op.kind == gpu::StreamOp::Kind::kWriteNext64 ? *op.count += op.value : op.value;
      process.wants_room = false;  // a host that waits to free the request tries again
      return;
  }
  oracle::check_moved(*this, item.request);
}

}  // namespace lanyard::nicsim
