// Starts of a World that no host makes: captured into graphs, and launched again and again.
#include <utility>

#include "nicsim/deterministic/world.h"
#include "transport/core/standing.h"

namespace lanyard::nicsim {

// Says of the items that a start or a wait has become, those behind `before`, what they are about.
void World::mark(Process& process, const Action& action, size_t before) {
  StepStream& stream = process.lanes[action.queue]->stream;
  const bool captured = stream.capturing() != 0;
  const std::span<StepItem> items = stream.since(before);
  if (action.kind == Action::Kind::kWait) {
    for (size_t i = 0; i < items.size(); ++i)
      items[i].request = action.requests[i].index;
    return;
  }
  // A ring for each request with a trigger of its own, in order, then one for all that share the queue's.
  size_t ring = 0, shared = 0;
  for (const RequestName request : action.requests) {
    Side& side = state_->sides[request.index];
    if (captured && !std::exchange(side.captured, true)) {
      process.kept_up = false;
      if (const nic::CounterId own = side.core->standing->trigger; own.valid())
        process.shadow.opened(own.value, {});
    }
    if (side.core->trigger.valid() || (captured && side.core->shares_trigger)) {
      items[ring].start = request.index;
      items[ring++].number = side.core->number;
    } else if (side.core->shares_trigger) {
      stream.started.push_back(request.index);
      ++shared;
    }
  }
  if (shared > 0) {
    items.back().starts = static_cast<uint32_t>(shared);
    items.back().first_start = static_cast<uint32_t>(stream.started.size() - shared);
  }
  for (const RequestName request : action.requests) {
    const core::Request& core = *state_->sides[request.index].core;
    if (core.trigger.valid() || core.shares_trigger)
      continue;
    StepItem mark;
    mark.kind = StepItem::Kind::kMark;
    mark.start = request.index;
    stream.push(mark);
  }
}

// The host has enqueued these items.
void World::enter(uint32_t queue, StepStream& stream, std::span<StepItem> items) {
  const auto start = [&](uint32_t request) {
    Side& side = state_->sides[request];
    side.queue = queue;
    ++side.starts;
  };
  for (StepItem& item : items) {
    if (item.kind == StepItem::Kind::kWait) {
      item.iteration = ++state_->sides[item.request].waits;
      continue;
    }
    if (item.start != StepItem::kNothing)
      start(item.start);
    for (uint32_t i = 0; i < item.starts; ++i)
      start(stream.started[item.first_start + i]);
  }
}

void World::launch_captured(Process& process, uint32_t queue) {
  StepStream& stream = process.lanes[queue]->stream;
  const size_t before = stream.mark();
  stream.launch();
  const std::span<StepItem> items = stream.since(before);
  for (const StepItem& item : items) {
    const uint32_t request = item.kind == StepItem::Kind::kWait ? item.request : item.start;
    if (request != StepItem::kNothing && !state_->sides[request].captured)
      return find(Finding::kUser, "lifetime",
                  "a graph is launched that starts the " + exchange_.describe({request}) + ", which was freed");
  }
  enter(queue, stream, items);
}

// ---- Standing requests

void World::take_keep_up(Process& process) {
  const size_t handed_over = process.endpoint.standing().keep_up();
  process.standing_done = 0;
  bool refused = false;
  for (const Side& side : state_->sides) {
    if (side.rank != process.rank || !side.captured)
      continue;
    process.standing_done += side.core->iterations_done();
    refused = refused || (side.core->standing->posted == side.core->iterations_done() &&
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
    if (side.rank != process.rank || !side.captured)
      continue;
    any = true;
    done += side.core->iterations_done();
  }
  set_enabled(keep_up_agent(process.rank), any && (done != process.standing_done || !process.kept_up));
}

}  // namespace lanyard::nicsim
