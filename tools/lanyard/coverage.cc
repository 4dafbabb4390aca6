#include "tools/lanyard/coverage.h"

#include <algorithm>

namespace lanyard::tools {

namespace {

using nicsim::ChoiceKind;

// Counts what another chooser chooses.
class Counting final : public nicsim::Chooser {
 public:
  Counting(const nicsim::World& world, nicsim::Chooser& inner, Coverage& coverage)
      : world_(world), inner_(inner), coverage_(coverage) {}
  uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) override {
    const uint32_t choice = inner_.choose(n, kind, agents);
    if (kind == ChoiceKind::kStep)
      ++coverage_.steps[static_cast<size_t>(world_.kind_of(agents[choice]))];
    if (choice != 0)
      ++coverage_.choices[static_cast<size_t>(kind)];
    return choice;
  }

 private:
  const nicsim::World& world_;
  nicsim::Chooser& inner_;
  Coverage& coverage_;
};

// What another choice than 0 means.
const char* event_name(ChoiceKind kind) {
  switch (kind) {
    case ChoiceKind::kCoalesce: return "coalesced rings";
    case ChoiceKind::kFailure: return "failures";
    case ChoiceKind::kLostRing: return "lost rings";
    case ChoiceKind::kNoRoom: return "no room";
    case ChoiceKind::kStale: return "stale reads";
    case ChoiceKind::kFreeze: return "frozen reads";
    case ChoiceKind::kSteal: return "stolen entries";
    case ChoiceKind::kTorn: return "torn reads and landings";
    case ChoiceKind::kLateAck: return "late acks";
    case ChoiceKind::kEarlyAck: return "early acks";
    case ChoiceKind::kKill: return "kills";
    case ChoiceKind::kScarce: return "scarcity";
    case ChoiceKind::kLeave: return "failures left behind";
    case ChoiceKind::kLateEvent: return "late events";
    case ChoiceKind::kMeanwhile: return "calls while others drive";
    default: return "";
  }
}

}  // namespace

void Coverage::add(nicsim::World& world, const nicsim::Schedule& schedule) {
  world.reset();
  nicsim::Replay replay(schedule);
  Counting counting(world, replay, *this);
  for (bool more = true; more;) {
    // What is no choice is not asked about.
    if (const auto agent = world.forced())
      ++steps[static_cast<size_t>(world.kind_of(*agent))];
    more = world.step(counting);
  }
  world.run(counting);
}

Coverage& Coverage::operator+=(const Coverage& other) {
  for (size_t i = 0; i < steps.size(); ++i)
    steps[i] += other.steps[i];
  for (size_t i = 0; i < choices.size(); ++i)
    choices[i] += other.choices[i];
  return *this;
}

std::string Coverage::to_string() const {
  const auto seen = steps.size() - static_cast<size_t>(std::count(steps.begin(), steps.end(), 0));
  std::string text = "steps " + std::to_string(seen) + "/" + std::to_string(steps.size());
  std::string never;
  for (uint32_t i = 0; i < kStepKinds; ++i)
    if (steps[i] == 0)
      never += std::string(never.empty() ? "" : ", ") + nicsim::step_name(static_cast<nicsim::StepKind>(i));
  for (const ChoiceKind kind :
       {ChoiceKind::kCoalesce, ChoiceKind::kFailure, ChoiceKind::kNoRoom, ChoiceKind::kStale, ChoiceKind::kFreeze,
        ChoiceKind::kSteal, ChoiceKind::kEarlyAck, ChoiceKind::kKill, ChoiceKind::kLeave,
        ChoiceKind::kScarce, ChoiceKind::kMeanwhile, ChoiceKind::kTorn, ChoiceKind::kLateAck, ChoiceKind::kLateEvent,
        ChoiceKind::kLostRing}) {
    if (choices[static_cast<size_t>(kind)] > 0)
      text += std::string(", ") + event_name(kind);
    else
      never += std::string(never.empty() ? "" : ", ") + event_name(kind);
  }
  return never.empty() ? text : text + "; never: " + never;
}

}  // namespace lanyard::tools
