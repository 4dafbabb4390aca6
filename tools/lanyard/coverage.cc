#include <algorithm>
#include <string>

#include "tools/lanyard/campaign.h"

namespace lanyard::tools {

namespace {

using nicsim::ChoiceKind;

// Counts the choices of another chooser.
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

// The meaning of a choice other than 0, by ChoiceKind; null if not reported.
constexpr const char* kEvents[nicsim::kChoiceKinds] = {
    nullptr,  // kStep
    "coalesced rings",
    "failures",
    "lost rings",
    "no room",
    "stale reads",
    "frozen reads",
    "stolen entries",
    "torn reads and landings",
    "late acks",
    "early acks",
    "kills",
    nullptr,  // kMail
    "failures left behind",
    "scarcity",
    "late events",
    "calls while others drive",
};

}  // namespace

void Coverage::add(nicsim::World& world, const nicsim::Schedule& schedule) {
  world.reset();
  nicsim::Replay replay(schedule);
  Counting counting(world, replay, *this);
  for (bool more = true; more;) {
    // A forced step makes no choice, so count it here.
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
  for (uint32_t i = 0; i < nicsim::kStepKinds; ++i)
    if (steps[i] == 0)
      never += std::string(never.empty() ? "" : ", ") + nicsim::step_name(static_cast<nicsim::StepKind>(i));
  for (uint32_t i = 0; i < nicsim::kChoiceKinds; ++i) {
    if (kEvents[i] == nullptr)
      continue;
    if (choices[i] > 0)
      text += std::string(", ") + kEvents[i];
    else
      never += std::string(never.empty() ? "" : ", ") + kEvents[i];
  }
  return never.empty() ? text : text + "; never: " + never;
}

}  // namespace lanyard::tools
