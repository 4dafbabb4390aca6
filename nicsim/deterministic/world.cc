#include "nicsim/deterministic/world.h"

#include <algorithm>

#include "nicsim/deterministic/oracles/ending.h"
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
  if (options_.timed)
    start_clock(agent);
}

void World::take_out(uint32_t agent) {
  const uint32_t place = std::exchange(state_->place[agent], kNone);
  if (options_.timed)
    state_->clock.stop(agent, state_->steps);
  const uint32_t last = state_->enabled.back();
  state_->enabled.pop_back();
  if (last == agent)
    return;
  state_->enabled[place] = last;
  state_->place[last] = place;
}

// The agent's next step takes its time from now on.
void World::start_clock(uint32_t agent) {
  constexpr uint32_t kSpeeds = 4;
  const Timing& timing = options_.timing;
  const auto usual = [&]() -> Picoseconds {
    switch (kind_of(agent)) {
      case StepKind::kHost: return timing.host;
      case StepKind::kPost: return timing.post;
      case StepKind::kKeepUp:
      case StepKind::kDrive:
      case StepKind::kOverflow: return timing.overflow;
      case StepKind::kStream: return timing.stream;
      case StepKind::kRing: return timing.ring;
      case StepKind::kFire: return timing.fire;
      case StepKind::kRead: return timing.read;
      case StepKind::kLand: return timing.land + timing.per_byte * transit_of(agent)->packet.bytes;
      case StepKind::kCount: return timing.count;
      case StepKind::kAck: return timing.ack;
      case StepKind::kMail:
      case StepKind::kLoss: return timing.land;
    }
    return 0;
  };
  const uint32_t slowness = options_.slow ? draw(kSpeeds, ChoiceKind::kSlow) : 0;
  state_->clock.start(agent, usual() << (3 * slowness), state_->steps);
}

std::optional<uint32_t> World::forced() const {
  if (options_.timed)
    return state_->enabled.empty() ? std::nullopt : std::optional<uint32_t>(state_->clock.next());
  return state_->enabled.size() == 1 ? std::optional<uint32_t>(state_->enabled.front()) : std::nullopt;
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
  if (options_.timed)
    agent = state_->clock.advance();
  else if (enabled.size() > 1)
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
  if (options_.timed) {
    if (state_->place[agent] != kNone)
      start_clock(agent);
    state_->clock.next([this](uint32_t each) { return state_->place[each] != kNone; });
  }
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

void World::run_until(uint64_t steps, Chooser& chooser) {
  take_all([&] {
    while (state_->steps < steps && take_one(chooser)) {
    }
  });
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

}  // namespace lanyard::nicsim
