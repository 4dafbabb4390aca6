// Starts of a World that no host makes: captured into graphs and launched again and again, or made by kernels.
#include <algorithm>
#include <utility>

#include "nicsim/deterministic/world.h"
#include "transport/core/standing.h"

namespace lanyard::nicsim {

// Says of the items that a start or a wait has become, those behind `before`, what they are about.
void World::mark(Process& process, const Action& action, size_t before) {
  StepStream& stream = process.streams[action.queue]->stream;
  const bool captured = stream.capturing() != 0;
  const std::span<StepItem> items = stream.since(before);
  for (StepItem& item : items)
    mark_move(action, item);
  const auto moves_nothing = [](const StepItem& item) { return item.kind != StepItem::Kind::kMove; };
  auto next = [&, at = items.begin()]() mutable -> StepItem* {  // null: there is none
    at = std::find_if(at, items.end(), moves_nothing);
    return at == items.end() ? nullptr : &*at++;
  };
  if (action.kind == Action::Kind::kWait) {
    for (const RequestName request : action.requests) {
      const core::Request& core = *state_->sides[request.index].core;
      if (!core.done.valid() || (core.exchange != nullptr && core.exchange->lead != &core))
        continue;
      if (StepItem* item = next())
        item->request = request.index;
    }
    mark_merged(action, stream, items);
    for (const RequestName request : action.requests) {
      const core::Request& core = *state_->sides[request.index].core;
      if (!core.done.valid() && (core.exchange == nullptr || core.exchange->lead == nullptr))
        stream.push(wait_for_nobody(request));
    }
    return;
  }
  // A ring for each request with a bell of its own, in order, then one for all that share the queue's.
  size_t shared = 0;
  const auto rings_alone = [&](const core::Request& core) {
    return core.exchange == nullptr ? core.trigger.valid() : core.exchange->rings && core.exchange->lead == &core;
  };
  for (const RequestName request : action.requests) {
    Side& side = state_->sides[request.index];
    if (captured)
      stands_now(process, side);
    if (captured ? side.core->standing->has_bell : rings_alone(*side.core)) {
      StepItem* ring = next();
      ring->start = request.index;
      ring->number = side.core->number;
    } else if (side.core->shares_trigger) {
      stream.started.push_back(request.index);
      ++shared;
    }
  }
  if (shared > 0) {
    StepItem& ring = *std::find_if(items.rbegin(), items.rend(), moves_nothing);
    ring.starts = static_cast<uint32_t>(shared);
    ring.first_start = static_cast<uint32_t>(stream.started.size() - shared);
  }
  mark_merged(action, stream, items);
  for (const RequestName request : action.requests) {
    const core::Request& core = *state_->sides[request.index].core;
    const bool reached = core.exchange == nullptr ? core.trigger.valid() : core.exchange->rings;
    if (reached || core.shares_trigger || (captured && core.standing->has_bell))
      continue;
    StepItem mark;
    mark.kind = StepItem::Kind::kMark;
    mark.start = request.index;
    stream.push(mark);
  }
}

// Where the item packs or unpacks for a request of the action's, or says so: for which.
void World::mark_move(const Action& action, StepItem& item) {
  using Kind = gpu::StreamOp::Kind;
  const bool writes = item.op.kind == Kind::kWrite64 || item.op.kind == Kind::kWriteNext64;
  if (item.kind != StepItem::Kind::kMove && !writes)
    return;
  for (const RequestName request : action.requests) {
    const core::Request& core = *state_->sides[request.index].core;
    const bool moves =
        core.packing != nullptr && item.kind == StepItem::Kind::kMove && item.op.object == core.packing.get();
    const bool tells = writes && core.moved.valid() && item.op.word == core.moved.address;
    if (!moves && !tells)
      continue;
    item.kind = StepItem::Kind::kMove;
    item.request = request.index;
    item.number = core.number;
  }
  if (item.kind == StepItem::Kind::kMove && item.request == StepItem::kNothing)
    find(Finding::kOrder, "order", describe(action) + ": packs or unpacks for a request that it is not about");
}

// The host has enqueued these items.
void World::enter(uint32_t queue, StepStream& stream, std::span<StepItem> items) {
  const auto start = [&](uint32_t request) {
    Side& side = state_->sides[request];
    side.queue = queue;
    ++side.starts;
    if (side.starts_on.size() <= queue)
      side.starts_on.resize(queue + 1);
    side.starts_on[queue] = side.starts;
  };
  for (StepItem& item : items) {
    if (item.kind == StepItem::Kind::kWait ||
        (item.kind == StepItem::Kind::kMark && item.request != StepItem::kNothing)) {
      item.iteration = ++state_->sides[item.request].waits;
      for (uint32_t i = 0; i < item.starts; ++i)
        ++state_->sides[stream.started[item.first_start + i]].waits;
      continue;
    }
    if (item.start != StepItem::kNothing)
      start(item.start);
    for (uint32_t i = 0; i < item.starts; ++i)
      start(stream.started[item.first_start + i]);
  }
}

void World::launch_captured(Process& process, uint32_t queue) {
  StepStream& stream = process.streams[queue]->stream;
  const size_t before = stream.mark();
  stream.launch();
  const std::span<StepItem> items = stream.since(before);
  for (const StepItem& item : items) {
    const uint32_t request = item.kind == StepItem::Kind::kWait ? item.request : item.start;
    if (request != StepItem::kNothing && !state_->sides[request].standing)
      return find(Finding::kUser, "lifetime",
                  "a graph is launched that starts the " + scenario_.describe({request}) + ", which was freed");
  }
  enter(queue, stream, items);
}

// ---- Kernels

// MPIX_Device_requests_create and _free. A set has completed when it is taken back. False where the program was told
// of a failure, and ends.
bool World::change_set(Process& process, const Action& action) {
  if (!collect(process, action))
    return true;
  core::Queue& queue = *process.streams[action.queue]->queue;
  const bool stand = action.kind == Action::Kind::kStand;
  const auto all = [&](auto holds) {
    return std::all_of(action.requests.begin(), action.requests.end(),
                       [&](RequestName request) { return holds(side(request)); });
  };
  const bool over =
      !stand && all([&](const Side& side) { return process.endpoint.standing().is_complete(*side.core); });
  if (action.refused && over)
    return true;  // it came too late to be a mistake
  const Status status =
      insist(process, [&] { return stand ? queue.stand(process.scratch) : queue.dismiss(process.scratch); });
  if (status.code() == Code::kFailed && is_told_of_failure(action)) {
    give_up(process);
    return false;
  }
  if (action.refused) {
    if (status.ok() || !all([](const Side& side) { return side.core->standing != nullptr; }))
      find(Finding::kOrder, "refusal",
           "rank " + std::to_string(process.rank) + ": " + describe(action) +
               ": is a mistake, as its last start has not completed, and " +
               (status.ok() ? "is not refused" : "is refused, but some are dismissed"));
    return true;
  }
  if (!status.ok()) {
    find(mistake_in_set(action) ? Finding::kUser : Finding::kOrder, "refusal",
         "rank " + std::to_string(process.rank) + ": " + describe(action) + ": " + status.message());
    return true;
  }
  for (const RequestName request : action.requests) {
    Side& side = state_->sides[request.index];
    side.queue = action.queue;
    if (stand) {
      stands_now(process, side);
      continue;
    }
    stands_no_more(process, side);
    if (!check_unused(process, action, request))
      return true;
  }
  nic_changed(process);
  return true;
}

// What was handed over ahead has been taken back, but for what is due already: clear-to-sends of a receive that was let
// go of make entries due that nobody has started.
void World::stands_no_more(Process& process, Side& side) {
  side.standing = process.kept_up = false;  // others may go further ahead now
  const NicModel& model = process.nic.model();
  uint64_t writes = side.data_fired, words = side.done_fired;
  for (auto entry = model.first_ready(); entry; entry = model.next_ready(*entry)) {
    const nic::Op& op = model.op_of(*entry);
    if (op.context != side.number)
      continue;
    const Transit::Role role = role_of(process, op);
    writes += role == Transit::Role::kData ? 1 : 0;
    words += role == Transit::Role::kDone ? 1 : 0;
  }
  const uint64_t due = std::max(writes / std::max<uint64_t>(side.pieces, 1), words);
  side.ahead = std::max(side.ahead, due - std::min(due, side.starts));
}

// Whether the program may not do that: what it is about is under way, or is not the kernels'.
bool World::mistake_in_set(const Action& action) const {
  return std::any_of(action.requests.begin(), action.requests.end(), [&](RequestName request) {
    const Side& side = this->side(request);
    const bool stands = action.kind == Action::Kind::kDismiss;
    return side.starts != side.waits || side.waited < side.waits || side.failed > 0 || side.standing != stands;
  });
}

// What the functions of lanyard_device.h do: one bell after the other, and waits until all have completed.
void World::launch_kernel(Process& process, const Action& action) {
  if (!collect(process, action))
    return;
  StepStream& stream = process.streams[action.queue]->stream;
  const size_t before = stream.mark();
  for (const RequestName request : action.requests) {
    const core::Request& core = *state_->sides[request.index].core;
    if (core.standing == nullptr || !core.standing->in_kernels)
      return find(Finding::kUser, "lifetime",
                  "a kernel is launched with the " + scenario_.describe(request) + ", which is not the kernels'");
    stream.push(action.kind == Action::Kind::kKernelStart ? start_by_kernel(request, core)
                                                          : wait_by_kernel(request, core));
  }
  enter(action.queue, stream, stream.since(before));
}

StepItem World::start_by_kernel(RequestName request, const core::Request& core) {
  using Kind = gpu::StreamOp::Kind;
  const core::Standing& standing = *core.standing;
  StepItem item;
  item.start = request.index;
  item.number = core.number;
  if (!standing.has_bell) {
    item.kind = StepItem::Kind::kMark;
    return item;
  }
  item.kind = StepItem::Kind::kRing;
  item.op.kind = standing.rings != nullptr                           ? Kind::kWriteNext64
                 : standing.bell.kind == nic::DoorbellKind::kMmioAdd ? Kind::kWrite64
                                                                     : Kind::kAdd64;
  item.op.word = standing.bell.word;
  item.op.value = 1;
  item.op.count = standing.rings;
  return item;
}

// The place of a wait that passes at once.
StepItem World::wait_for_nobody(RequestName request) {
  StepItem item;
  item.kind = StepItem::Kind::kMark;
  item.request = request.index;
  return item;
}

StepItem World::wait_by_kernel(RequestName request, const core::Request& core) {
  if (!core.done.valid())
    return wait_for_nobody(request);
  StepItem item;
  item.kind = StepItem::Kind::kWait;
  item.request = request.index;
  item.op.kind = gpu::StreamOp::Kind::kWaitNext64;
  item.op.word = core.done.address;
  item.op.value = 1;
  item.op.count = core.standing->count;
  return item;
}

// ---- Standing requests

void World::stands_now(Process& process, Side& side) {
  if (std::exchange(side.standing, true))
    return;
  process.kept_up = false;
  if (const nic::CounterId own = side.core->standing->trigger; own.valid())
    process.opened(own, {});
}

// The counts by which graphs and kernels know how far a request is are gone when it no longer stands. The core cannot
// see what a stream still has to run.
bool World::check_unused(const Process& process, const Action& action, RequestName request) {
  const bool used = std::any_of(process.streams.begin(), process.streams.end(),
                                [&](const auto& queued) { return queued->stream.counts_for(request.index); });
  if (used)
    find(Finding::kUser, "lifetime",
         "rank " + std::to_string(process.rank) + ": " + describe(action) +
             ": the stream has a graph or a kernel to run yet that uses the " + scenario_.describe(request));
  return !used;
}

void World::take_keep_up(Process& process) {
  const size_t handed_over = process.endpoint.standing().keep_up();
  process.standing_done = 0;
  bool refused = false;
  for (const Side& side : state_->sides) {
    if (side.rank != process.rank || !side.standing)
      continue;
    process.standing_done += side.core->iterations_done();
    refused = refused || (!side.core->plan.empty() && side.core->standing->posted == side.core->iterations_done() &&
                          side.core->plan.size() <= process.nic.free_entries());
  }
  // Whom the card told that it has no room, though it has, tries again.
  process.kept_up = !options_.no_room || !refused;
  handed_over > 0 ? nic_changed(process) : standing_changed(process);
}

// Whether there may be something to hand over.
void World::standing_changed(Process& process) {
  uint64_t done = 0;
  bool any = false;
  for (const Side& side : state_->sides) {
    if (side.rank != process.rank || !side.standing)
      continue;
    any = true;
    done += side.core->iterations_done();
  }
  set_enabled(keep_up_agent(process.rank), any && (done != process.standing_done || !process.kept_up));
}

}  // namespace lanyard::nicsim
