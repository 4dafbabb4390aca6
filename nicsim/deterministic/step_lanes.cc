#include "nicsim/deterministic/step_lanes.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

namespace {

// What an offer's loan of an end holds.
struct Form {
  uint32_t rank;
  uint32_t end;
  uint64_t use;
};

bool is_named(const Process& process, const gpu::Lane& lane) {
  return std::any_of(process.lanes.begin(), process.lanes.end(),
                     [&](const auto& each) { return each->stream.names(&lane); });
}

bool has_run_all(const Process& process) {
  return std::all_of(process.lanes.begin(), process.lanes.end(), [](const auto& each) { return each->stream.empty(); });
}

std::string name_of(uint32_t rank, uint64_t end) {
  return "end " + std::to_string(end) + " of rank " + std::to_string(rank);
}

}  // namespace

StepLane::~StepLane() { owner->close(*this); }

bool StepLane::is_complete() const {
  return owner->ends()[end - 1].completed > waited || slots[(waited + 1) % 2].start == waited + 1;
}
bool StepLane::is_gone() const { return terms.gone != nullptr && *terms.gone > gone_base; }

Result<gpu::Lanes::Opened> StepLanes::open(bool sends, void* buffer, uint64_t bytes) {
  if (world_.options().no_way && world_.chance(ChoiceKind::kNoWay))
    return Status(Code::kUnsupported, "a device without lanes");
  auto free = std::find_if(ends_.begin(), ends_.end(), [](const End& end) { return end.lane == nullptr; });
  if (free == ends_.end())
    free = ends_.insert(ends_.end(), End());
  const auto lane = std::make_shared<StepLane>();
  *free = {.lane = lane.get(), .use = free->use + 1};
  lane->owner = this;
  lane->device = kDevice;
  lane->end = static_cast<uint64_t>(free - ends_.begin()) + 1;
  lane->chunk_bytes = bytes;
  lane->buffer = static_cast<std::byte*>(buffer);
  lane->sends = sends;
  Opened opened;
  const Form form{rank_, static_cast<uint32_t>(lane->end), free->use};
  std::memcpy(opened.offer.end.bytes.data(), &form, sizeof form);
  opened.lane = lane;
  return opened;
}

Status StepLanes::connect(gpu::Lane& lane, const gpu::LaneOffer& other, const Terms& terms) {
  if (world_.options().no_way && world_.chance(ChoiceKind::kNoWay))
    return {Code::kUnsupported, "no way to the other device"};
  if (terms.may_wait && !has_run_all(world_.process(rank_)))
    world_.find(Finding::kOrder, "lanes",
                "rank " + std::to_string(rank_) + " connects, and may wait for its device, whose streams may wait");
  Form form;
  std::memcpy(&form, other.end.bytes.data(), sizeof form);
  auto& mine = static_cast<StepLane&>(lane);
  mine.terms = terms;
  mine.connected = true;
  mine.peer_rank = form.rank;
  mine.peer_end = form.end;
  mine.peer_use = form.use;
  mine.gone_base = *terms.gone;
  return {};
}

void StepLanes::retire(StepLane& lane) {
  retired_ += lane.connected ? 1 : 0;
  lane.connected = false;
}

void StepLanes::disconnect(gpu::Lane& lane) {
  if (is_named(world_.process(rank_), lane))
    world_.find(Finding::kOrder, "lanes",
                name_of(rank_, lane.end) + ": its stream comes to it yet, and the other's memory is given up");
  retire(static_cast<StepLane&>(lane));
}

void StepLanes::unmap() {
  if (!has_run_all(world_.process(rank_)))
    world_.find(Finding::kOrder, "lanes",
                "rank " + std::to_string(rank_) + " unmaps, which may wait for its device, whose streams may wait");
  retired_ = 0;
}

// Its end may be anybody's from now on.
void StepLanes::close(const StepLane& lane) {
  if (is_named(world_.process(rank_), lane))
    world_.find(Finding::kOrder, "lanes",
                name_of(rank_, lane.end) + ": its stream comes to it yet, and it is let go of");
  const uint64_t use = own(lane).use;
  for (uint32_t rank = 0; rank < world_.exchange().ranks(); ++rank) {
    const Process& process = world_.process(rank);
    if (process.killed)
      continue;
    for (const End& end : process.gpu_lanes.ends()) {
      const StepLane* const other = end.lane;
      if (other == nullptr || !other->connected || other->peer_rank != rank_ || other->peer_end != lane.end ||
          other->peer_use != use)
        continue;
      // Who is not matched starts nothing.
      const core::Request* const request = world_.request_of(process, *other);
      if (is_named(process, *other) || (request != nullptr && request->matched()))
        world_.find(Finding::kOrder, "lanes",
                    name_of(rank_, lane.end) + " is let go of, and " + name_of(rank, other->end) +
                        " may be started with it yet");
    }
  }
  retire(const_cast<StepLane&>(lane));
  own(lane).lane = nullptr;
}

StepLanes::Copied StepLanes::start(StepLane& lane) {
  const auto wrong = [&](const std::string& what) -> Copied {
    world_.find(Finding::kIntegrity, "lanes", name_of(rank_, lane.end) + " is started " + what);
    return {};
  };
  if (!lane.connected)
    return wrong("with memory of the other's that it has given up");
  End& mine = own(lane);
  Process& peer = world_.process(lane.peer_rank);
  End& other = peer.gpu_lanes.ends_[lane.peer_end - 1];
  ++*lane.terms.begun;
  ++mine.started;
  if (other.lane == nullptr || other.use != lane.peer_use)
    // What a process has left behind that has ended is nobody's any more.
    return peer.killed
               ? Copied{}
               : wrong("with " + name_of(lane.peer_rank, lane.peer_end) + ", which is not its other side's any more");
  other.opened = mine.started;
  const bool asks_nobody = lane.terms.ready;
  const bool in_slot = lane.sends && lane.has_slots() && (asks_nobody || mine.opened + 1 >= mine.started);
  const bool is_in_slot = !lane.sends && lane.slot_of(mine.started).start == mine.started;
  if (!in_slot && (is_in_slot || (asks_nobody ? !lane.sends : mine.opened < mine.started)))
    return {};
  // Who has given the other side up keeps its slots until that one has let go of the lane, and looks there no more.
  const bool is_given_up = !other.lane->connected && other.lane->terms.gone != nullptr;
  if (!(other.lane->connected || (in_slot && is_given_up)) || other.lane->terms.bytes != lane.terms.bytes ||
      other.lane->sends == lane.sends)
    return wrong("with one that is not made for it");
  if (in_slot) {
    StepLane::Slot& slot = other.lane->slot_of(mine.started);
    if (!is_given_up && slot.start > other.lane->waited)
      return wrong("with a slot that is not empty");
    slot = {mine.started, std::vector(lane.buffer, lane.buffer + lane.terms.bytes)};
    mine.completed = mine.started;
    return {other.lane, true};
  }
  const StepLane& source = lane.sends ? lane : *other.lane;
  std::copy_n(source.buffer, lane.terms.bytes, (lane.sends ? *other.lane : lane).buffer);
  mine.completed = other.completed = mine.started;
  return {other.lane, false};
}

bool StepLanes::pass(StepLane& lane) {
  ++lane.waited;
  ++*lane.terms.done;
  const StepLane::Slot& slot = lane.slot_of(lane.waited);
  if (slot.start != lane.waited)
    return false;
  std::copy(slot.content.begin(), slot.content.end(), lane.buffer);
  return true;
}

}  // namespace lanyard::nicsim
