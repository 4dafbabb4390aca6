#include "nicsim/deterministic/world.h"

#include <algorithm>

#include "nicsim/deterministic/oracles/oracles.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

void World::restore(const Arena::Image& image) {
  arena_.restore(image);
  report_ = stillborn_;
}

// ---- Agents

uint32_t World::agents() const { return static_cast<uint32_t>(state_->place.size()); }

void World::put_in(uint32_t agent) {
  state_->place[agent] = static_cast<uint32_t>(state_->enabled.size());
  state_->enabled.push_back(agent);
}

void World::take_out(uint32_t agent) {
  const uint32_t place = std::exchange(state_->place[agent], kNone);
  const uint32_t last = state_->enabled.back();
  state_->enabled.pop_back();
  if (last == agent)
    return;
  state_->enabled[place] = last;
  state_->place[last] = place;
}

StepKind World::kind_of(uint32_t agent) const {
  if (agent < first_transit_)
    return agents_[agent].kind;
  switch (state_->transits[agent - first_transit_].stage) {
    case Transit::Stage::kRead: return StepKind::kRead;
    case Transit::Stage::kLand: return StepKind::kLand;
    case Transit::Stage::kCount: return StepKind::kCount;
    default: return StepKind::kAck;
  }
}

uint32_t World::rank_of(uint32_t agent) const {
  if (agent < first_transit_)
    return agents_[agent].rank;
  const Transit& transit = state_->transits[agent - first_transit_];
  const bool at_target = transit.stage == Transit::Stage::kLand || transit.stage == Transit::Stage::kCount;
  return at_target ? transit.to : transit.from;
}

Transit::Role World::role_of(const Process& process, const nic::Op& op) const {
  if (is_mail(op))
    return Transit::Role::kMail;
  if (op.kind == nic::OpKind::kWrite)
    return Transit::Role::kData;
  const core::WordPool::Word& done = process.done_words[op.context - 1];
  const nic::RemoteKey counted = process.counted_words[op.context - 1];
  const bool own = op.remote.peer == process.rank;
  if (own && ((op.remote.key == done.key && op.remote.offset == done.offset) || op.remote.key == counted))
    return Transit::Role::kDone;
  return RequestName{process.requests[op.context - 1]}.receive() ? Transit::Role::kClear : Transit::Role::kFlag;
}

bool World::finished() const {
  for (uint32_t rank = 0; rank < state_->processes.size(); ++rank) {
    const Process& process = *state_->processes[rank];
    if (process.killed)
      continue;
    if (process.next_action < scenario_.program(rank).actions().size())
      return false;
    for (const auto& queued : process.streams)
      if (!queued->stream.empty())
        return false;
  }
  return true;
}

// ---- Running

bool World::step(Chooser& chooser) {
  bool goes_on = false;
  take_all([&] { goes_on = take_one(chooser); });
  return goes_on;
}

bool World::take_one(Chooser& chooser) {
  const std::vector<uint32_t>& enabled = state_->enabled;
  if (enabled.empty() || !report_.ok())
    return false;
  uint32_t agent = enabled.front();
  if (enabled.size() > 1)
    agent = enabled[chooser.choose(static_cast<uint32_t>(enabled.size()), ChoiceKind::kStep, enabled.data())];
  chooser_ = &chooser;
  ++state_->steps;
  note(agent);
  if (options_.kills && state_->deaths < most_deaths() && chance(ChoiceKind::kKill))
    kill(*state_->processes[rank_of(agent)]);
  else
    take(agent);
  if (options_.driver)
    drivers_changed();
  if (enabled.empty() && report_.ok())
    end_faults();
  chooser_ = nullptr;
  if (state_->steps > options_.max_steps)
    find(Finding::kLivelock, "liveness", std::to_string(state_->steps) + " steps, and no end");
  return report_.ok();
}

const Report& World::run(Chooser& chooser) {
  take_all([&] {
    while (take_one(chooser)) {
    }
    if (report_.ok())
      judge();
  });
  return report_;
}

uint32_t World::draw(uint32_t n, ChoiceKind kind) {
  if (chooser_ == nullptr)
    return 0;
  const uint32_t choice = chooser_->choose(n, kind, nullptr);
  note(choice);
  return choice;
}

void World::find(Finding finding, const char* oracle, const std::string& text) {
  if (!report_.ok())
    return;
  const Arena::Outside outside;
  report_ = {finding, oracle, std::string(text.data(), text.size()), state_->steps};
}

void World::judge() {
  if (finished())
    oracle::judge_quiescence(*this);
  else
    oracle::judge_stall(*this);
}

// ---- Streams

void World::take_stream(Process& process, uint32_t queue) {
  StepStream& stream = process.streams[queue]->stream;
  const StepItem item = stream.front();
  switch (item.kind) {
    case StepItem::Kind::kKernel: take_kernel(process, item); break;
    case StepItem::Kind::kWait:
      if (item.request != StepItem::kNothing)
        oracle::check_waited(*this, item.request, item.iteration);
      for (uint32_t i = 0; i < item.starts; ++i)
        oracle::check_waited(*this, stream.started[item.first_start + i], item.iteration);
      break;
    case StepItem::Kind::kMark:
      if (item.request != StepItem::kNothing)
        oracle::check_waited(*this, item.request, item.iteration);
      break;
    case StepItem::Kind::kMove: take_move(process, item); break;
    case StepItem::Kind::kRing:
      process.nic.take_ring(item.op);
      if (process.driver != nullptr)
        nic_changed(process);  // libfabric has no news of rings beyond what its counters hold
      if (item.start != StepItem::kNothing)
        oracle::check_rung(*this, process, item);
      break;
  }
  if (item.start != StepItem::kNothing)
    oracle::check_started(*this, item.start);
  for (uint32_t i = 0; i < item.starts && item.kind != StepItem::Kind::kWait; ++i)
    oracle::check_started(*this, stream.started[item.first_start + i]);
  stream.pop();
  streams_changed(process);
}

void World::take_kernel(Process& process, const StepItem& item) {
  const RequestName send{2 * item.message}, receive{2 * item.message + 1};
  switch (item.action) {
    case Action::Kind::kPack: {
      oracle::check_packed(*this, send.index);
      Side& side = state_->sides[send.index];
      ++side.filled;
      if (side.layout == nullptr) {
        fill_content(side.buffer, item.message, side.filled);
        return;
      }
      std::vector<std::byte> content(side.layout->bytes());
      fill_content(content, item.message, side.filled);
      for (uint64_t byte = 0; byte < content.size(); ++byte)
        side.buffer[place_of(side, byte)] = content[byte];
      return;
    }
    case Action::Kind::kUnpack: oracle::check_unpacked(*this, receive.index); return;
    default:  // kPromise
      ++state_->promises[item.message];
      if (const uint32_t rank = scenario_.rank_of(send); rank != process.rank)
        streams_changed(*state_->processes[rank]);
      return;
  }
}

// What the stream does for a request whose buffer has gaps.
void World::take_move(Process& process, const StepItem& item) {
  if (!oracle::check_moves(*this, item))
    return;
  switch (const gpu::StreamOp& op = item.op; op.kind) {
    case gpu::StreamOp::Kind::kPack: static_cast<gpu::Packing*>(op.object)->pack(op.value); break;
    case gpu::StreamOp::Kind::kUnpack: static_cast<gpu::Packing*>(op.object)->unpack(op.value); break;
    default:
      *op.word = op.kind == gpu::StreamOp::Kind::kWriteNext64 ? *op.count += op.value : op.value;
      process.wants_room = false;  // a host that would free the request looks again
      return;
  }
  oracle::check_moved(*this, item.request);
}

}  // namespace lanyard::nicsim
